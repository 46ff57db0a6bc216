"""The embedded server: a real Valkey or Redis for those who have none, shared by a user's commands."""

from worker.embedded.binary import EmbeddedServerError
from worker.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer", "EmbeddedServerError"]
