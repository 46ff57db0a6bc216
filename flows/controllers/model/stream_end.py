"""The end of a streamed reply: whether the reply is over, or the stream was cut.

A proxy that gives up and a server that restarts end a stream in order, so its end alone says nothing. A whole reply says why it
ended; of OpenAI's protocol the line ``data: [DONE]`` is as good, for servers that give no reason.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from pydantic_ai.exceptions import ModelAPIError

from flows.controllers.model.chat import ModelFailed
from flows.errors import RetryableError

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelResponse

#: The line that ends a stream of OpenAI's protocol, with the line break before it: JSON holds none, so no text looks like it.
DONE = (b"\ndata: [DONE]", b"\ndata:[DONE]")
#: Bytes kept of a piece, so that the line is found where two pieces share it.
KEPT = max(map(len, DONE)) - 1

#: Content types of streams of events.
STREAMS = ("event-stream", "x-ndjson", "amazon.eventstream")
#: How a stream of events begins.
EVENTS = (b"data:", b"event:", b"id:", b":")
#: Bytes kept of a body that is no stream, and names in JSON that tell an error from a reply.
BODY, ERROR_NAMES = 4_000, (b'"error"', b'"detail"', b'"errors"')
#: How a provider (Groq) says in an event that it refused the call that its model wrote, and bytes of an event that are read for it.
REFUSED_CALL, EVENT = b'"tool_use_failed"', 65_536
#: Reasons of refusals that the library does not know as such.
REFUSED = frozenset({"content_filter", "refusal", "ERROR_TOXIC", "guardrail_intervened"})


class DoneMarker:
    """Notes how the last response of an HTTP client ended; its ``watch`` is a response hook.

    Attributes:
        is_seen: it held ``data: [DONE]``.
        is_stream: it was a stream of events, or an error status.
        body: the beginning of a response that was no stream of events.
        refused_call: the error by which the provider refused the model's call in the stream; else None.
    """

    def __init__(self) -> None:
        self.is_seen, self.is_stream, self.body = False, True, b""
        self.refused_call: dict[str, Any] | None = None

    @property
    def is_no_reply(self) -> bool:
        """Whether a server answered 200 with a page or an error in place of a stream, so that no model was asked."""
        text = self.body.strip()
        if self.is_stream or text.startswith(EVENTS):  # some servers name their streams otherwise
            return False
        return not text.startswith(b"{") or any(name in text for name in ERROR_NAMES)

    async def watch(self, response: httpx2.Response) -> None:
        """Read along with the response's bytes; changes none of them."""
        self.is_seen, self.body, self.refused_call = False, b"", None
        self.is_stream = response.status_code >= 300 or any(kind in response.headers.get("content-type", "") for kind in STREAMS)
        pieces = response.aiter_bytes

        async def watched(chunk_size: int | None = None) -> AsyncIterator[bytes]:
            last = b"\n"
            line = b""
            async for piece in pieces(chunk_size):
                *lines, line = (line + piece).split(b"\n")
                line = line[:EVENT]
                for each in lines:
                    self._look_for_refusal(each)
                if not self.is_stream and len(self.body) < BODY:
                    self.body += piece[:BODY]
                if not self.is_seen:
                    text = (last + piece).replace(b"\r", b"\n")
                    self.is_seen = any(line in text for line in DONE)
                    last = text[-KEPT:]
                yield piece

        response.aiter_bytes = watched  # type: ignore[method-assign, assignment]

    def _look_for_refusal(self, line: bytes) -> None:
        if REFUSED_CALL not in line or not line.startswith(b"data:"):
            return
        try:
            event = json.loads(line[5:])
        except ValueError:
            return
        error = event.get("error") if isinstance(event, dict) else None
        if isinstance(error, dict) and error.get("code") == "tool_use_failed":
            self.refused_call = error


def refusal_in(response: ModelResponse) -> str:
    """Return why a reply was refused or held back, in the words of the model or its provider; empty if it was not."""
    details = response.provider_details or {}
    raw = str(details.get("finish_reason") or "")
    if response.finish_reason != "content_filter" and raw not in REFUSED:
        return ""
    words = details.get("refusal") or response.text or details.get("block_reason_message") or details.get("block_reason")
    return str(words or f"its provider held the reply back ({raw or response.finish_reason})")


def fault_in(response: ModelResponse) -> str:
    """Return what the provider says was wrong with what the model wrote, such as a call that it cannot read; else nothing."""
    raw = str((response.provider_details or {}).get("finish_reason") or response.finish_reason or "")
    return raw if response.finish_reason == "error" else ""


def lacks_reason_only(error: ModelAPIError) -> bool:
    """Return whether the stream held everything but a reason for its end, as the library tells it."""
    return type(error) is ModelAPIError and error.__cause__ is None and "finish_reason" in error.message


def reason_of(response: ModelResponse, model: str, is_done: bool) -> str:
    """Return why a reply ended.

    Args:
        is_done: the server has sent ``data: [DONE]``.

    Raises:
        ModelFailed: the stream ended before the reply was over.
    """
    if response.finish_reason is not None:
        return response.finish_reason
    if raw := (response.provider_details or {}).get("finish_reason"):  # a reason that the library does not know is a reason
        return str(raw)
    if response.state == "suspended":  # it goes on in another request
        return "stop"
    if is_done:
        return "tool_call" if response.tool_calls else "stop"
    told = f"model {model!r} gave no whole reply: its stream ended before the reply was over, without a finish_reason"
    raise ModelFailed(RetryableError(told), billed=True)
