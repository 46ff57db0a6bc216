"""The embedded server: a real Valkey or Redis that one user's commands share.

It is for users who run no server of their own.
"""

from perdure.worker.embedded.binary import EmbeddedServerError
from perdure.worker.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer", "EmbeddedServerError"]
