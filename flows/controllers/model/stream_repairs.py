"""Repairs of streamed replies that the model library misreads (pydantic-ai 2.68).

- Usage in every chunk: vLLM and SGLang with ``continuous_usage_stats``, LiteLLM, Fireworks and xAI
  report the usage so far with each chunk. The library adds these numbers up, unless a setting says
  that they are cumulative. That setting also changes the request, and other servers reject it.
- Reasoning between tags in the text: the library detects a tag only if a chunk holds nothing else.
- Tool calls: the library joins all calls with one index, and appends a name that comes with each
  chunk. Ollama, Dynamo and Gemini's OpenAI format give all calls the index 0. MiniMax on NVIDIA NIM
  repeats the name.

This module replaces the parts manager and the method ``_add_usage`` of a stream, which are private
parts of the library. A stream that lacks one of them keeps the library's behaviour there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterator
from copy import copy
from dataclasses import fields, replace
from typing import Any, NamedTuple

from pydantic_ai._parts_manager import ModelResponsePartsManager
from pydantic_ai.messages import ModelResponse, ModelResponseStreamEvent
from pydantic_ai.usage import RequestUsage

from perdure.flows.controllers.model.thoughts import ThoughtSplitter


def repair(stream: Any) -> PartsOfReply | None:
    """Make the model library read a stream correctly. Call this before the first event is read.

    Returns:
        The holder of the reply's parts. Call its ``flush`` at the end of the stream. None if the
            stream has another class of holder than this release knows.
    """
    count_last_usage(stream)
    before = getattr(stream, "_parts_manager", None)
    if type(before) is not ModelResponsePartsManager:
        return None
    parts = PartsOfReply(model_request_parameters=before.model_request_parameters)
    parts.special_token_restorer = before.special_token_restorer
    stream._parts_manager = parts
    return parts


def count_last_usage(stream: Any, add: Callable[..., None] | None = None) -> None:
    """Make a stream count only the last reported usage. The library would add up all reports.

    If the stream has no method ``_add_usage``, nothing is changed.

    Args:
        add: The library's method to call for this stream. None: the stream's ``_add_usage``.
    """
    add_usage = add or getattr(stream, "_add_usage", None)
    if add_usage is None:
        return
    last: RequestUsage | None = None
    unreported = RequestUsage()

    def keep_last(usage: RequestUsage, *, reported: bool, cumulative: bool = False) -> None:
        """Record the usage of one stream event."""
        nonlocal last, unreported
        if cumulative:
            add_usage(usage, reported=reported, cumulative=True)
            return
        usage = copy(usage)
        usage.unmeasured_requests = 0
        if reported:
            last = usage if last is None else _merged(last, usage)
        else:  # it may count searches of the web
            unreported += usage
        add_usage(unreported + (last or RequestUsage()), reported=reported, cumulative=True)

    stream._add_usage = keep_last


def _merged(before: RequestUsage, now: RequestUsage) -> RequestUsage:
    """Return the later of two reports of usage. Numbers that it lacks come from the earlier report.

    Some gateways report the input with the first chunk and the output with the last.
    """
    merged = copy(now)
    for name in {each.name for each in fields(before)} | set(vars(before)):
        if name != "details" and not getattr(merged, name, None):
            setattr(merged, name, getattr(before, name, None))
    merged.details = {**before.details, **{k: v for k, v in now.details.items() if v}}
    return merged


def with_input_of(first: RequestUsage | None, response: ModelResponse) -> ModelResponse:
    """Return a response with the input tokens that its stream reported first, if it lost them.

    Some servers of Anthropic's protocol report the input at the beginning, and 0 at the end.
    """
    if first is None or not first.input_tokens or response.usage.input_tokens:
        return response
    return replace(response, usage=_merged(first, response.usage))


class PartsOfReply(ModelResponsePartsManager):
    """The parts of a streamed reply. It separates thoughts from text, and calls from each other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._splitter: ThoughtSplitter | None = None
        self._last_text: dict[str, Any] = {}
        self._calls = _Calls([each.name for each in self.model_request_parameters.function_tools])

    def handle_text_delta(
        self,
        *,
        vendor_part_id: Hashable | None,
        content: str,
        thinking_tags: tuple[str, str] | None = None,
        **options: Any,
    ) -> Iterator[ModelResponseStreamEvent]:
        """Add a piece of text to the reply. The part of it between tags is added as a thought.

        Args:
            thinking_tags: The start tag and the end tag of a thought. None: the text has no
                thoughts.
        """
        if thinking_tags is None or not content:
            yield from super().handle_text_delta(
                vendor_part_id=vendor_part_id,
                content=content,
                thinking_tags=thinking_tags,
                **options,
            )
            return
        self._splitter = self._splitter or ThoughtSplitter(thinking_tags)
        self._last_text = {"vendor_part_id": vendor_part_id, **options}
        for segment in self._splitter.feed(content):
            yield from super().handle_text_delta(
                vendor_part_id=vendor_part_id,
                content=segment.content,
                thinking_tags=None if segment.kind == "text" else segment.tags,
                **options,
            )

    def flush(self) -> Iterator[ModelResponseStreamEvent]:
        """Add the end of the text. It was held back, because a tag could have begun there."""
        for segment in [] if self._splitter is None else self._splitter.flush():
            yield from super().handle_text_delta(
                content=segment.content,
                thinking_tags=None if segment.kind == "text" else segment.tags,
                **self._last_text,
            )

    def handle_tool_call_delta(
        self,
        *,
        vendor_part_id: Hashable | None,
        tool_name: str | None = None,
        args: str | dict[str, Any] | None = None,
        tool_call_id: str | None = None,
        **options: Any,
    ) -> Any:
        """Add a piece to its tool call. The piece may begin a new call."""
        piece = _Piece(tool_name or None, args, tool_call_id or None)
        return super().handle_tool_call_delta(
            **self._calls.placed(vendor_part_id, piece), **options
        )


class _Call:
    """A tool call that arrives in pieces."""

    def __init__(self, key: Hashable, id: str | None) -> None:  # noqa: A002
        self.key, self.id = key, id
        self.name = ""
        self.args: str | dict[str, Any] = ""

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are a complete JSON object, so that no piece can follow."""
        if isinstance(self.args, dict):
            return True
        if not self.args.rstrip().endswith("}"):
            return False
        try:
            json.loads(self.args)
        except (ValueError, RecursionError):
            return False
        return True

    def begins_another(self, index: Hashable | None, piece: _Piece) -> bool:
        """Return whether a piece with this call's index begins another call.

        A different id is a sign of this only if the piece also has a name, or if this call is
        complete: some servers invent an id for each piece.
        """
        if self.id is not None and piece.id is not None and piece.id != self.id:
            return piece.name is not None or self.is_whole
        if piece.name is None:
            return False
        if index is None and piece.id is None:
            return True
        if not self.is_whole:
            return False
        return piece.args != self.args if piece.args else piece.name != self.name


class _Piece(NamedTuple):
    """A chunk's part of a tool call."""

    name: str | None
    args: str | dict[str, Any] | None
    id: str | None


class _Calls:
    """The tool calls of a reply so far, by index and id.

    Args:
        tools: The names of the offered tools.
    """

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._count = 0
        self._by_id: dict[tuple[Hashable | None, str], _Call] = {}
        self._current: dict[Hashable | None, _Call] = {}

    def placed(self, index: Hashable | None, piece: _Piece) -> dict[str, Any]:
        """Return the arguments with which to call the library's method for a piece of a call."""
        call = self._call_of(index, piece)
        name, args = self._added_name(call, piece.name), piece.args
        call.name += name or ""
        if isinstance(args, dict):
            call.args = args
        elif args and args == call.args and call.is_whole:
            args = None  # the last chunk of some servers repeats the whole arguments
        elif args and isinstance(call.args, str):
            call.args += args
        if piece.id is not None and call.id is None:
            call.id = piece.id
            self._by_id[index, piece.id] = call
        return {
            "vendor_part_id": call.key,
            "tool_name": name,
            "args": args,
            "tool_call_id": piece.id if piece.id == call.id else None,
        }

    def _call_of(self, index: Hashable | None, piece: _Piece) -> _Call:
        """Return the call to which a piece belongs. A piece may begin a new call."""
        first = self._current.get(index)
        call = first
        if piece.id is not None:
            call = self._by_id.get((index, piece.id), call)
        if call is None or call.begins_another(index, piece):
            # The library finds the first call of an index by that index.
            key = index if index is not None and first is None else ("call", self._count)
            self._count += 1
            call = _Call(key, piece.id)
            if piece.id is not None:
                self._by_id[index, piece.id] = call
        self._current[index] = call
        return call

    def _added_name(self, call: _Call, name: str | None) -> str | None:
        """Return the text that a piece adds to the name of a call.

        Args:
            name: The name in the piece. Some servers repeat the whole name in each piece.

        Returns:
            None if the piece has no name, or only repeats it.
        """
        if name is None or not call.name:
            return name
        joined = call.name + name
        if name.startswith(call.name) and (
            name in self._tools or not any(tool.startswith(joined) for tool in self._tools)
        ):
            return name[len(call.name) :] or None
        return name
