"""Limits for MCP servers: the size of a message, and the steps of validating arguments.

No message can fill the worker's memory. Arguments are validated against a server's JSON schema in a
limited number of steps, so that a hostile schema cannot prolong the validation.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

import httpx2

#: Maximum bytes of one message, far above the limit of a result, because a message may contain
#: images.
MOST_BYTES = 8 * 1024 * 1024
TOO_LARGE = f"it sent a message of more than {MOST_BYTES >> 20} MiB, which exceeds the limit"
COMPRESSED = "it sent a compressed message, although the request does not accept compression"

#: Name of a codec for a program's messages: UTF-8 in lines of limited length.
ENCODING = "utf-8-in-bounded-lines"
#: Ends the session whose program sends a longer line. Called in the session's own task.
too_long: ContextVar[Callable[[], None]] = ContextVar("too_long")


class BoundedStream(httpx2.AsyncByteStream):
    """The body of an HTTP response with a size limit.

    Reading more than ``most`` bytes raises StreamError with ``fault`` as its text.

    Args:
        broken: Called with the error if the connection breaks. Reading then raises a StreamError,
            because the client library ends the whole session after other errors.
    """

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        most: int,
        fault: str,
        broken: Callable[[httpx2.TransportError], None],
    ) -> None:
        self._stream, self._most, self._fault, self._broken = stream, most, fault, broken

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        try:
            async for piece in self._stream:
                left -= len(piece)
                if left < 0:
                    raise httpx2.StreamError(self._fault)
                yield piece
        except httpx2.TransportError as error:
            self._broken(error)
            raise httpx2.StreamError(str(error)) from error

    async def aclose(self) -> None:
        """Close the body."""
        await self._stream.aclose()


def bound(response: httpx2.Response, broken: Callable[[httpx2.TransportError], None]) -> None:
    """Limit the size of an MCP server's HTTP response, by replacing its stream.

    Reading a longer body raises StreamError. An event stream as a whole has no limit, because the
    client library limits each event. With an error status it has a limit, because it is read as a
    whole. A compressed body is never read: the request did not accept compression, and a few bytes
    could decompress to any size.

    Args:
        broken: Called with the error if the connection breaks before the end of the body.
    """
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        response.stream = BoundedStream(response.stream, 0, COMPRESSED, broken)
        return
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    if not is_stream or response.status_code >= 400:
        response.stream = BoundedStream(response.stream, MOST_BYTES, TOO_LARGE, broken)


class _Decoder(codecs.BufferedIncrementalDecoder):
    """A decoder of UTF-8. A line of more than ``MOST_BYTES`` characters ends the MCP session.

    Bytes that are not UTF-8 become U+FFFD. An exception would stop the client library's reader (mcp
    2.3) without ending the session, so that no later response would be read.
    """

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._length = 0
        self._is_start = True

    def _buffer_decode(self, data: Any, errors: str, final: bool) -> tuple[str, int]:
        return codecs.utf_8_decode(data, "replace", final)

    def decode(self, data: Any, final: bool = False) -> str:
        """Decode a server program's output.

        A line that is too long ends the session, and the result is then empty.
        """
        text = super().decode(data, final)
        if self._is_start and text:  # a program on Windows may begin with a byte order mark
            text, self._is_start = text.removeprefix("\ufeff"), False
        _, newline, last = text.rpartition("\n")
        self._length = len(last) if newline else self._length + len(text)
        if self._length <= MOST_BYTES:
            return text
        too_long.get()()
        # The client library appends this text to its current line. It gets none until the program
        # ends.
        return ""


def _find(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != ENCODING:
        return None
    utf_8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf_8.encode, utf_8.decode, incrementaldecoder=_Decoder, name=ENCODING)


# The client library reads lines of any length. A codec is the only way to set a limit from outside.
codecs.register(_find)


#: Maximum number of keywords that one validation evaluates. A schema of a thousand properties takes
#: a few thousand.
STEPS = 100_000
#: Keywords that only the server checks. A regular expression runs under the interpreter's lock and
#: may backtrack for hours: heartbeats and signals would stop. The other keywords also match
#: patterns, or compare each item with each other.
UNCHECKED = ("pattern", "patternProperties", "unevaluatedProperties", "uniqueItems")

_steps: ContextVar[Iterator[int]] = ContextVar("steps")


class TooManySteps(Exception):
    """Raised when a validation needs more than ``STEPS`` steps.

    References can nest a small schema into billions of checks.
    """


@contextmanager
def counting() -> Iterator[None]:
    """Count the steps of a validation in the ``with`` block, and limit them to ``STEPS``.

    A step is one check of a JSON schema by a validator of ``bounded``.
    """
    before = _steps.set(count())
    try:
        yield
    finally:
        _steps.reset(before)


def bounded(kind: Any) -> Any:
    """Return a subclass of a jsonschema validator class. Each of its checks counts as a step.

    It may be used only inside ``counting``. There, a check raises TooManySteps if the limit is
    reached. The keywords in ``UNCHECKED`` accept every value.

    Args:
        kind: the validator class.
    """
    from jsonschema.validators import extend

    checks = {
        name: _counted(check) for name, check in kind.VALIDATORS.items() if name not in UNCHECKED
    }
    if "additionalProperties" in checks:
        checks["additionalProperties"] = _counted(
            _additional(kind.VALIDATORS["additionalProperties"])
        )
    return extend(kind, {**checks, **dict.fromkeys(UNCHECKED, _accept)})


def _accept(validator: Any, value: Any, instance: Any, schema: Any) -> None:
    """Accept every value for a keyword of a JSON schema that only the MCP server checks."""


def _additional(check: Callable[..., Any]) -> Callable[..., Any]:
    """Return a check of additional properties that is skipped if the JSON schema has patterns.

    Patterns would decide which properties are additional, and they are not evaluated here.
    """

    def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        """Check a value for additional properties.

        The check is skipped if the JSON schema has patterns for them.
        """
        return () if "patternProperties" in schema else check(validator, value, instance, schema)

    return checked


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    """Return a schema check that counts as a step."""

    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        """Run a JSON schema check within the step limit. At the limit, raise TooManySteps."""
        if next(_steps.get()) >= STEPS:
            raise TooManySteps
        return check(validator, value, instance, schema)

    return counted
