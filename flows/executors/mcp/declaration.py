"""What a flow says of an MCP server: how it is reached, and which of its tools are commands."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from flows.config import CommandConfig
from flows.executors.mcp.references import refers
from flows.values import canonical

#: Seconds that one call may take, and that a server may take to start and to tell its tools (`npx` may have to fetch it first).
CALL_SECONDS, START_SECONDS = 60.0, 60.0
#: Headers and variables that hold secrets are known by their names.
_SECRET = re.compile(r"auth|cookie|credential|key|passw|secret|token", re.IGNORECASE)


def _fault(message: str) -> PydanticCustomError:
    """What is told in full by this message: what was written in its place may be a secret."""
    return PydanticCustomError("told_in_full", message)


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ToolConfig(CommandConfig):
    """One tool that is offered as a command.

    Attributes:
        description: for the controller; None leaves the server's own.
        idempotent: calling it twice does no more than once. What the server says of that is not believed.
        timeout_seconds: of one call; None leaves the server's.
    """

    idempotent: bool = False
    timeout_seconds: Seconds | None = None


class ServerConfig(BaseModel):
    """One MCP server: ``command`` starts it beside the worker and speaks to it by stdio, ``url`` is that of a service.

    Attributes:
        env: variables that it gets besides the harmless ones of the worker; ``env:NAME`` stands for the worker's own variable NAME.
        headers: sent with each request; ``env:NAME`` and ``Bearer env:NAME`` refer to the worker's variable.
        tools: those that become commands; no other can be called.
        timeout_seconds: of one call.
        start_seconds: until it has told its tools.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    command: Annotated[list[str], Field(min_length=1)] | None = None
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    tools: Annotated[dict[str, ToolConfig], Field(min_length=1)] | Annotated[list[str], Field(min_length=1)]
    timeout_seconds: Seconds = CALL_SECONDS
    start_seconds: Seconds = START_SECONDS

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        if url is not None:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise _fault("it should be a URL that begins with http:// or https:// and names a host")
            if "@" in parts.netloc:
                raise _fault("it should hold no user and no password; refer to a secret in headers, as env:NAME")
        return url

    @field_validator("env", "headers")
    @classmethod
    def _only_refers_to_secrets(cls, values: dict[str, str]) -> dict[str, str]:
        for name, value in values.items():
            if _SECRET.search(name) and not refers(value):
                raise _fault(f"{name} should refer to a variable of the worker (env:NAME); a secret has no place in a flow")
        return values

    @model_validator(mode="after")
    def _has_one_way(self) -> ServerConfig:
        if (self.command is None) == (self.url is None):
            raise _fault("it should have either a command (a list: the program and its arguments) or a url")
        if self.command is not None and self.headers:
            raise _fault("headers are for a server with a url; give one with a command its secrets in env")
        if self.url is not None and self.env:
            raise _fault("env is for a server with a command; give one with a url its secrets in headers")
        return self

    @property
    def offered(self) -> dict[str, ToolConfig]:
        """The tools by name, with what is said of them."""
        return dict(self.tools) if isinstance(self.tools, dict) else {name: ToolConfig() for name in self.tools}

    @property
    def key(self) -> str:
        """The same for declarations of one server, which then share its session."""
        told: dict[str, Any] = self.model_dump(mode="json", include={"command", "env", "url", "headers"})
        return canonical(told)
