"""Bounds of what MCP servers send: no message is read that would fill the worker's memory."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import httpx2

#: Bytes of one message, far above the bound of a result. Images and the like are part of a message.
MOST_BYTES = 8 * 1024 * 1024
TOO_LARGE = f"it sent a message of more than {MOST_BYTES >> 20} MiB, which is not read"
COMPRESSED = "it sent a compressed message, which was not asked for and is not read"

#: The encoding of a program's messages: UTF-8 in lines of a bounded length.
ENCODING = "utf-8-in-bounded-lines"
#: Ends the session whose program sends a longer line; called in the session's own task.
too_long: ContextVar[Callable[[], None]] = ContextVar("too_long")


class BoundedStream(httpx2.AsyncByteStream):
    """The body of a response. Reading it raises StreamError behind ``most`` bytes, with the fault as its text."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int, fault: str) -> None:
        self._stream, self._most, self._fault = stream, most, fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for piece in self._stream:
            left -= len(piece)
            if left < 0:
                raise httpx2.StreamError(self._fault)
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def bound(response: httpx2.Response) -> None:
    """Bound a response's body. An event stream may go on: the client library bounds each of its events.

    Nothing of a compressed body is read: it was not asked for, and a few bytes of it could become any number.
    """
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        response.stream = BoundedStream(response.stream, 0, COMPRESSED)
    elif not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        response.stream = BoundedStream(response.stream, MOST_BYTES, TOO_LARGE)


class _Decoder(codecs.BufferedIncrementalDecoder):
    """UTF-8. A line of more than ``MOST_BYTES`` characters ends the session, and is forgotten."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._length = 0

    def _buffer_decode(self, data: Any, errors: str, final: bool) -> tuple[str, int]:
        return codecs.utf_8_decode(data, errors, final)

    def decode(self, data: Any, final: bool = False) -> str:
        text = super().decode(data, final)
        _, newline, last = text.rpartition("\n")
        self._length = len(last) if newline else self._length + len(text)
        if self._length <= MOST_BYTES:
            return text
        too_long.get()()
        # The client library adds what comes to the line that it has. It gets no more until the program is ended.
        return ""


def _find(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != ENCODING:
        return None
    utf_8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf_8.encode, utf_8.decode, incrementaldecoder=_Decoder, name=ENCODING)


# The client library reads a line of any length. Its encoding is the one place where a bound can be set from outside.
codecs.register(_find)
