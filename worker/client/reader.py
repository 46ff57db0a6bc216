"""Reader: the client of commands that only read runs.

It is a part of ``Client``, without the code that submits, changes and deletes runs. A command that
lists or shows runs starts faster without that code.
"""

from __future__ import annotations

from perdure.worker.client.run_waits import RunWaits


class Reader(RunWaits):
    """Client that only reads the runs on one state server. The arguments are those of Client."""
