"""The end of a streamed reply: detection of streams that were cut before the reply was complete.

If a proxy gives up or a server restarts, the stream ends without an error. So the end of a stream
proves nothing. A complete reply says why it ended. In OpenAI's protocol, the line ``data: [DONE]``
is equivalent, for servers that give no reason.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from pydantic_ai.exceptions import ModelAPIError

from perdure.flows.controllers.model.chat import ModelFailed
from perdure.flows.core.errors import RetryableError

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelResponse

#: The line that ends a stream of OpenAI's protocol, with the line break before it. JSON contains no
#: line break, so no text looks like it.
DONE = (b"\ndata: [DONE]", b"\ndata:[DONE]")
LINE_BREAK = re.compile(rb"[\r\n]")
#: Bytes kept of a chunk, so that the line is found if two chunks share it.
KEPT = max(map(len, DONE)) - 1

#: Content type of event streams, and those of other streams.
EVENT_STREAM, STREAMS = "event-stream", ("x-ndjson", "amazon.eventstream")
#: The beginnings of an event stream.
EVENTS = (b"data:", b"event:", b"id:", b"retry:", b":")
#: Bytes kept of a body that is not a stream, and names in JSON that distinguish an error from a
#: reply.
BODY, ERROR_NAMES = 4_000, (b'"error"', b'"detail"', b'"errors"')
#: The code in an event by which Groq refuses a call of its model. The number limits the bytes of an
#: event that are searched for it.
REFUSED_CALL, EVENT = b'"tool_use_failed"', 65_536
#: What an event has that is an error: in vLLM's form ``object``, in that of other servers ``type``.
#: In a chat stream, the libraries take it for a piece without content.
ERROR_EVENT = re.compile(rb'"(?:object|type)"\s*:\s*"error"')
#: Reasons of refusals that the library does not know as such.
REFUSED = frozenset({"content_filter", "refusal", "ERROR_TOXIC", "guardrail_intervened"})


class DoneMarker:
    """The state of an HTTP client's last response. ``watch`` is the client's response hook.

    Attributes:
        is_seen: Whether the response contained ``data: [DONE]``.
        is_stream: Whether the response was a stream, or had a status other than success. Servers
            also send pages and errors as event streams, so ``body`` has the beginning of such a
            stream.
        body: The beginning of a response that was an event stream or no stream at all.
        refused_call: The error in the stream by which the provider rejected the model's tool call.
            None without such an error.
        error: The first event of the stream that is an error of the model's server. None without
            such an event.
    """

    def __init__(self) -> None:
        self.is_seen, self.is_stream, self.body = False, True, b""
        self.refused_call: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self._has_events = False

    @property
    def is_no_reply(self) -> bool:
        """Whether a model's server responded with success, but sent a web page or an error.

        No model was used in that case.
        """
        text = self.body.strip()
        # Some servers use another content type for streams.
        if self.is_stream or text.startswith(EVENTS):
            return False
        if self._has_events and any(each.startswith(text) for each in EVENTS):
            return False  # it was cut
        return not text.startswith(b"{") or any(name in text for name in ERROR_NAMES)

    async def watch(self, response: httpx2.Response) -> None:
        """Watch the body of a model server's response while the client reads it.

        The bytes are passed on unchanged, except for a byte order mark at their beginning, which is
        removed.
        """
        self.is_seen, self.body, self.refused_call, self.error = False, b"", None, None
        content_type = response.headers.get("content-type", "")
        self._has_events = EVENT_STREAM in content_type
        self.is_stream = response.status_code >= 300 or any(
            kind in content_type for kind in STREAMS
        )
        pieces = response.aiter_bytes

        async def watched(chunk_size: int | None = None) -> AsyncIterator[bytes]:
            """Yield a response's chunks, and look for the reply's end."""
            last = b"\n"
            line = b""
            try:
                async for piece in _without_mark(pieces(chunk_size)):
                    *lines, line = LINE_BREAK.split(line + piece)
                    line = line[:EVENT]
                    for each in lines:
                        self._look_for_error(each)
                    if not self.is_stream and len(self.body) < BODY:
                        self.body += piece[:BODY]
                    if not self.is_seen:
                        text = (last + piece).replace(b"\r", b"\n")
                        self.is_seen = any(line in text for line in DONE)
                        last = text[-KEPT:]
                    yield piece
            finally:  # The connection may break behind the last event.
                self._look_for_error(line)

        response.aiter_bytes = watched  # type: ignore[method-assign, assignment]

    def _look_for_error(self, line: bytes) -> None:
        is_call = REFUSED_CALL in line
        if not line.startswith(b"data:") or not (is_call or ERROR_EVENT.search(line)):
            return
        try:
            event = json.loads(line[5:])
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict) and self.error is None and not event.get("choices"):
            self.error = event if "error" in (event.get("object"), event.get("type")) else None
        error = event.get("error") if isinstance(event, dict) else None
        if isinstance(error, dict) and error.get("code") == "tool_use_failed":
            self.refused_call = error


async def _without_mark(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a stream without a byte order mark (BOM) at its beginning.

    A provider's client would read the mark as a part of the first event's name, and drop that
    event.
    """
    head: bytes | None = b""
    async for piece in pieces:
        if head is None:
            yield piece
            continue
        head += piece
        if len(head) >= len(codecs.BOM_UTF8) or not codecs.BOM_UTF8.startswith(head):
            yield head.removeprefix(codecs.BOM_UTF8)
            head = None
    if head:
        yield head


def refusal_in(response: ModelResponse) -> str:
    """Return why the model or its provider refused to reply, in its words.

    Returns:
        An empty text if neither refused.
    """
    details = response.provider_details or {}
    raw = str(details.get("finish_reason") or "")
    if response.finish_reason != "content_filter" and raw not in REFUSED:
        return ""
    reason = (
        details.get("refusal")
        or response.text
        or details.get("block_reason_message")
        or details.get("block_reason")
    )
    return str(reason or f"its provider blocked the reply ({raw or response.finish_reason})")


def fault_in(response: ModelResponse) -> str:
    """Return the fault that the provider found in the model's output, such as an unreadable call.

    The text is empty if the provider found no fault.
    """
    raw = str(
        (response.provider_details or {}).get("finish_reason") or response.finish_reason or ""
    )
    return raw if response.finish_reason == "error" else ""


def lacks_reason_only(error: ModelAPIError) -> bool:
    """Return whether an error of a stream says nothing but that finish_reason is missing."""
    return (
        type(error) is ModelAPIError
        and error.__cause__ is None
        and "finish_reason" in error.message
    )


#: Reasons of servers that the library does not know. The reply was cut, or did not end well. All
#: others, such as ``eos``, ``end`` and ``stop_sequence``, end a whole reply.
_CUT = re.compile(r"length|max|limit|truncat|context", re.IGNORECASE)
_TOOL = re.compile(r"(tool|function)[ _-]?(calls?|uses?)?\Z", re.IGNORECASE)
_NOT_WHOLE = re.compile(
    r"abort|cancel|error|fail|unload|overload|time.?out|filter|safety|block|refus|sensitive"
    r"|recitation|other|unspecified|unknown|malformed|unexpected|insufficient|resource"
    r"|tool|function|userstop|user_stop|pause|suspend|incomplete|pending|queue|progress",
    re.IGNORECASE,
)


def _meaning_of(raw: str) -> str:
    """Return the meaning of a reason that the library does not know: ``stop`` or ``length``.

    If the reply did not end well, the reason itself is returned.
    """
    if _CUT.search(raw):
        return "length"
    return raw if _NOT_WHOLE.search(raw) else "stop"


def reason_of(response: ModelResponse, model: str, is_done: bool, knows_all: bool = False) -> str:
    """Return why a streamed reply ended, ``stop``, ``length``, ...

    Args:
        model: The model's name, for errors.
        is_done: Whether the server has sent ``data: [DONE]``.
        knows_all: Whether the library knows each reason of this protocol that ends a whole reply.

    Raises:
        ModelFailed: The stream ended before the reply was complete.
    """
    raw = (response.provider_details or {}).get("finish_reason")
    if response.finish_reason is not None:
        # The library takes Anthropic's pause after a compaction for the end of a reply.
        return response.finish_reason if raw != "compaction" else raw
    # The provider may give a reason that the library does not know.
    if raw:
        if knows_all and not _CUT.search(str(raw)):
            return str(raw)
        is_tool = response.tool_calls and _TOOL.match(str(raw))
        return "tool_call" if is_tool else _meaning_of(str(raw))
    if response.state == "suspended":  # it continues in another request
        return "stop"
    if is_done:
        return "tool_call" if response.tool_calls else "stop"
    message = f"model {model!r} gave an incomplete reply: its stream ended without a finish_reason"
    raise ModelFailed(RetryableError(message), billed=True)
