"""A flow's declaration of an MCP server: how to reach it, and which of its tools are commands.

The declaration refers to secrets. They are read when a session begins, and removed from all data
that comes out of the session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from perdure.flows.commands.options import CommandOptions
from perdure.flows.core.errors import FatalError
from perdure.flows.core.files import File, stored_file
from perdure.flows.core.json_values import canonical
from perdure.flows.core.secrets import is_reference, scrubbed, secret_of

#: The scheme of an Authorization header, before a reference.
_SCHEME = re.compile(r"[A-Za-z]+ (?=env:)")


def refers(value: str) -> bool:
    """Return whether a value is a reference to a secret (``env:NAME``) and nothing else.

    A scheme before the reference is allowed (``Bearer env:NAME``).
    """
    return is_reference(_SCHEME.sub("", value, count=1))


class Secrets:
    """The secrets of one MCP server, read from the worker's environment.

    Args:
        what: The server's name, for errors.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._known: set[str] = set()

    def resolved(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return an MCP server's variables or headers with secrets in place of ``env:NAME``.

        ``cleaned`` later removes these secrets.

        Raises:
            FatalError: This worker does not have a variable, or the variable's value cannot be
                sent.
        """
        return {name: self._value(name, value) for name, value in values.items()}

    def cleaned(self, value: Any) -> Any:
        """Return a copy of the server's JSON data or file, with ``[secret]`` in place of secrets.

        Only secrets that ``resolved`` has read are replaced.
        """
        if isinstance(value, str):
            return scrubbed(value, self._known)
        if isinstance(value, dict):
            return {self.cleaned(key): self.cleaned(each) for key, each in value.items()}
        if isinstance(value, File):
            content = scrubbed(value.content.decode("latin-1"), self._known).encode("latin-1")
            return stored_file(scrubbed(value.name, self._known), content, value.media_type)
        return [self.cleaned(each) for each in value] if isinstance(value, list) else value

    def _value(self, name: str, value: str) -> str:
        if not refers(value):
            return value
        scheme, _, variable = value.rpartition(" ")
        secret = secret_of(variable, f"{self._what}: {name}")
        if not secret.isprintable():
            raise FatalError(
                f"{self._what}: {name} is {variable}, which contains characters that cannot be sent"
            )
        self._known.add(secret)
        return f"{scheme} {secret}" if scheme else secret


#: Default seconds for one call, and for starting a server and listing its tools. `npx` may have to
#: download the server first.
CALL_SECONDS, START_SECONDS = 60.0, 60.0
#: Matches the names of headers and variables that hold secrets.
_SECRET = re.compile(r"auth|cookie|credential|key|passw|secret|token", re.IGNORECASE)


def _fault(message: str) -> PydanticCustomError:
    """Return a validation error that does not show the invalid value, which may be a secret."""
    return PydanticCustomError("told_in_full", message)


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ToolConfig(CommandOptions):
    """The settings of an MCP tool as a command.

    Attributes:
        description: The description for the controller. None: the server's own description.
        idempotent: Whether calling the tool twice has the same effect as once. The server's own
            hint about this is ignored.
        timeout_seconds: Time limit of one call. None: the ``timeout_seconds`` of the server.
    """

    idempotent: bool = False
    timeout_seconds: Seconds | None = None


class ServerConfig(BaseModel):
    """One MCP server: ``command`` is a program that the worker starts, ``url`` an HTTP service.

    Attributes:
        env: Variables for the program. The program also gets a few variables of the worker, none of
            which is a secret. ``env:NAME`` stands for the worker's variable NAME.
        headers: The headers of each request. ``env:NAME`` and ``Bearer env:NAME`` refer to the
            worker's variable.
        tools: The tools that become commands. No other tool can be called.
        timeout_seconds: Time limit of one call.
        start_seconds: Time limit for starting the server and listing its tools.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    command: Annotated[list[str], Field(min_length=1)] | None = None
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    tools: (
        Annotated[dict[str, ToolConfig], Field(min_length=1)]
        | Annotated[list[str], Field(min_length=1)]
    )
    timeout_seconds: Seconds = CALL_SECONDS
    start_seconds: Seconds = START_SECONDS

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        if url is not None:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise _fault(
                    "it should be a URL that begins with http:// or https:// and names a host"
                )
            if "@" in parts.netloc:
                raise _fault(
                    "it should contain no user and no password; refer to a secret in "
                    "headers, as env:NAME"
                )
        return url

    @field_validator("env", "headers")
    @classmethod
    def _only_refers_to_secrets(cls, values: dict[str, str]) -> dict[str, str]:
        for name, value in values.items():
            if _SECRET.search(name) and not refers(value):
                raise _fault(
                    f"{name} should refer to a variable of the worker (env:NAME), "
                    "because flows must not contain secrets"
                )
        return values

    @model_validator(mode="after")
    def _has_one_way(self) -> ServerConfig:
        if (self.command is None) == (self.url is None):
            raise _fault(
                "it should have either a command (a list: the program and its arguments) or a url"
            )
        if self.command is not None and self.headers:
            raise _fault("headers need a url; a server with a command gets its secrets in env")
        if self.url is not None and self.env:
            raise _fault("env needs a command; a server with a url gets its secrets in headers")
        return self

    @property
    def offered(self) -> dict[str, ToolConfig]:
        """The tools of the MCP server that become commands: the settings of each, by name."""
        return (
            dict(self.tools)
            if isinstance(self.tools, dict)
            else {name: ToolConfig() for name in self.tools}
        )

    @property
    def key(self) -> str:
        """An id of the connection. Declarations with the same id share a session."""
        connection: dict[str, Any] = self.model_dump(
            mode="json", include={"command", "env", "url", "headers"}
        )
        return canonical(connection)
