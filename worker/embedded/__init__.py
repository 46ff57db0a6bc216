"""The embedded server: a real Valkey or Redis that one user's commands share.

It is for users without a server.
"""

from perdure.worker.embedded.binary import EmbeddedServerError
from perdure.worker.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer", "EmbeddedServerError"]
