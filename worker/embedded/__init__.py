"""The embedded server: a real Valkey or Redis that all commands of one user share.

It is for users who have no server.
"""

from perdure.worker.embedded.binary import EmbeddedServerError
from perdure.worker.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer", "EmbeddedServerError"]
