"""The live text of a graph's round. Models and nodes write it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from pydantic_core import to_jsonable_python

from perdure.flows.core.json_values import canonical
from perdure.flows.rounds.context import RoundContext

#: The tag of models whose replies are not to be shown, as in the library's own streams.
HIDDEN = "nostream"
#: The kind of live text that is JSON, from a node's ``get_stream_writer()``.
CUSTOM = "custom"


def text_handler(context: RoundContext, streams: bool) -> BaseCallbackHandler:
    """Return a callback handler for live text. It shows the replies of models while they arrive.

    Args:
        streams: whether the library requests a stream also from models that do not stream by
            themselves.
    """
    return StreamingTextHandler(context) if streams else TextHandler(context)


def show_custom(context: RoundContext, chunk: Any) -> None:
    """Show a node's chunk for ``get_stream_writer()``. Data that is no text is shown as JSON."""
    if isinstance(chunk, str):
        context.stream(chunk)
    else:
        context.stream(canonical(to_jsonable_python(chunk, fallback=repr)), CUSTOM)


class TextHandler(BaseCallbackHandler):
    """A callback handler that shows the replies of models that stream."""

    run_inline = True

    def __init__(self, context: RoundContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        #: By request: the node that makes it, and the tools of its calls by index.
        self._requests: dict[UUID, tuple[str, dict[Any, str]]] = {}

    def on_chat_model_start(
        self,
        serialized: Any,
        messages: Any,
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> None:
        """Record which node makes a request. A model with the tag ``HIDDEN`` is left out."""
        if HIDDEN not in (tags or ()):
            node = str((metadata or {}).get("langgraph_node", ""))
            with self._lock:
                self._requests[run_id] = node, {}

    def on_llm_new_token(
        self, token: Any, *, chunk: Any = None, run_id: UUID, **named: Any
    ) -> None:
        """Show a piece of a reply. A request that was not recorded at its start is left out."""
        with self._lock:
            node, tools = self._requests.get(run_id, (None, {}))
        if node is None:
            return
        message = getattr(chunk, "message", None)
        thought = (getattr(message, "additional_kwargs", None) or {}).get("reasoning_content")
        if isinstance(thought, str):
            self._context.stream(thought, "thinking", node)
        if isinstance(token, str):
            self._context.stream(token, "text", node)
        for call in getattr(message, "tool_call_chunks", None) or ():
            if call.get("name"):
                tools[call.get("index")] = call["name"]
            tool = tools.get(call.get("index"), "")
            self._context.stream(call.get("args") or "", "arguments", tool)


class StreamingTextHandler(TextHandler):
    """A handler that shows the replies of all models.

    The library requests a stream from every model if a handler has the two methods of this class.
    """

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Return ``output`` unchanged. For the library, only the method's existence matters."""
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        """Return ``output`` unchanged. For the library, only the method's existence matters."""
        return output
