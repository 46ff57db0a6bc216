"""FakeModel, a model without a provider: its replies are a script, or come from a function."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from perdure.flows.controllers.model import stand_ins
from perdure.flows.controllers.model.chat import (
    AnswerMessage,
    AssistantMessage,
    ChatMessage,
    FailureKind,
    ModelFailed,
    Piece,
    Reply,
    RequestSettings,
    SystemMessage,
    ToolCall,
    Usage,
)
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.core.errors import (
    BadReply,
    FatalError,
    InvalidFlow,
    PerdureError,
    RetryableError,
)
from perdure.flows.core.files import File
from perdure.flows.core.json_values import storable
from perdure.flows.core.names import is_name
from perdure.flows.core.outcomes import Command, Finish
from perdure.flows.rounds.context import RoundContext


@dataclass(frozen=True, slots=True)
class FakeMessage:
    """A message of a request to a fake model.

    Attributes:
        role: ``system``, ``user``, ``assistant`` or ``tool``.
        text: its content. For ``tool``, this is the result of a command.
        calls: for ``assistant``: the commands that the model called.
        command: for ``tool``: the name of the command with this result.
        files: for ``user``: the files that the message shows.
    """

    role: str
    text: str
    calls: tuple[Command, ...] = ()
    command: str = ""
    files: tuple[File, ...] = ()


@dataclass(frozen=True, slots=True)
class FakeRequest:
    """A recorded request to a fake model.

    Attributes:
        messages: the whole conversation.
        commands: the commands that the model could call, as tool definitions with ``name``,
            ``description`` and ``parameters``.
        run_id, step, attempt: the round of the request.
        temperature, max_tokens: settings of the flow. None if the flow does not set them.
    """

    messages: Sequence[FakeMessage]
    commands: Sequence[Mapping[str, Any]]
    run_id: str
    step: int
    attempt: int
    temperature: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class FakeReply:
    """A reply of a fake model, in full. A ``Command``, ``Finish`` or text is the short form.

    Attributes:
        text: the model's text. Watchers of the run receive it word by word.
        calls: the commands that the model calls. ``Finish`` is a call of ``finish``.
        thinking: the model's reasoning.
        delay: seconds until the reply is complete.
        tokens: the numbers of input and output tokens that the model reports.
        ended: why the reply ended: ``stop``, ``length``, ``content_filter``.
        refusal: why the model refuses to continue. Empty if it does not refuse.
    """

    text: str = ""
    calls: Sequence[Command | Finish] = ()
    thinking: str = ""
    delay: float = 0.0
    tokens: tuple[int, int] = (100, 10)
    ended: str = "stop"
    refusal: str = ""


#: An item of a script, or the result of a function. A list is several calls in one reply. An
#: exception is raised: the request fails with it.
Says = FakeReply | Command | Finish | str | Exception | Sequence[Command | Finish]
#: Returns the reply to a request, from its messages and the commands that it offers.
Replies = Callable[[Sequence[FakeMessage], Sequence[Mapping[str, Any]]], Says]


class FakeModel:
    """A test model for flows with the controller ``model``. It needs no provider and no server.

    Inside ``with FakeModel(...) as model:`` it replaces every model of this process. A fake model
    with a ``name``, created in a flow module, can be the ``model`` of flows in any process:
    ``fake:NAME``. The worker's setting ``model`` may name it, too.

    A script holds the replies in order. The history of the run alone decides which reply is next,
    so a repeated round gets the same reply in any process. An exception in a script stands before a
    reply: the first attempt of the round gets the exception, the next attempt the next item.

    Args:
        replies: a script, or a function that returns the reply to a request.
        name: makes the model known as ``fake:NAME`` in this process.

    Attributes:
        requests: the requests of this process, in order.

    Raises:
        InvalidFlow: the name is not valid.
    """

    def __init__(self, replies: Sequence[Says] | Replies, *, name: str | None = None) -> None:
        if name is not None and not is_name(name):
            raise InvalidFlow(
                f"FakeModel: {name!r} cannot be its name; expected letters, digits, '_', '.' or '-'"
            )
        self.name = name or f"unnamed-{uuid4().hex[:8]}"
        self.requests: list[FakeRequest] = []
        self._replies = replies if callable(replies) else list(_groups(replies))
        stand_ins.keep(self.name, lambda context: _OpenModel(self, context))

    def __enter__(self) -> Self:
        stand_ins.begin(self.name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stand_ins.end(self.name)

    def reply_to(self, request: FakeRequest, context: RoundContext) -> FakeReply:
        """Record a request, and return the reply to it.

        ``context`` is that of the requesting round: its history says which reply is next.

        Raises:
            FatalError: the script has no further reply.
            Exception: the exception that the script or the function has for this request.
        """
        self.requests.append(request)
        if callable(self._replies):
            said = self._replies(request.messages, request.commands)
        else:
            said = self._next(request, context)
        if isinstance(said, Exception):
            raise said
        return _whole(said)

    def _next(self, request: FakeRequest, context: RoundContext) -> Says:
        assert not callable(self._replies)
        place = _replies_so_far(context)
        if place >= len(self._replies):
            raise FatalError(
                f"run {request.run_id}, step {request.step}: the script of FakeModel "
                f"{self.name!r} has {len(self._replies)} replies, and the run asks for one more. "
                "Add a reply, such as Finish(...)"
            )
        group = self._replies[place]
        return group[min(request.attempt, len(group)) - 1]


class _OpenModel:
    """A fake model, opened for one round."""

    provider = "fake"
    has_tools = True

    def __init__(self, model: FakeModel, context: RoundContext) -> None:
        self._model, self._context = model, context
        self._names = ToolNames(each["name"] for each in context.commands)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model.name

    async def request(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Mapping[str, Any]],
        settings: RequestSettings,
        on_piece: Callable[[Piece], None],
    ) -> Reply:
        """Return the test's next reply, or the result of the test's function.

        ``chat.Model`` describes the arguments.

        Raises:
            ModelFailed: The next reply, or the result of the function, is an exception.
        """
        context = self._context
        request = FakeRequest(
            [_message(each, self._names) for each in messages],
            list(context.commands),
            context.run_id,
            context.step,
            context.attempt,
            settings.temperature,
            settings.max_tokens,
        )
        try:
            said = self._model.reply_to(request, context)
        except (BadReply, FatalError, RetryableError) as error:
            kind: FailureKind | None = "busy" if isinstance(error, RetryableError) else None
            raise ModelFailed(error, billed=False, kind=kind) from error
        except PerdureError:
            raise
        except Exception as error:
            failed = RetryableError(f"the fake model raised {type(error).__name__}: {error}")
            raise ModelFailed(failed, billed=False) from error
        return await self._spoken(said, bool(tools), on_piece)

    async def _spoken(
        self, said: FakeReply, with_tools: bool, on_piece: Callable[[Piece], None]
    ) -> Reply:
        calls = [_call(each, place, self._context) for place, each in enumerate(said.calls)]
        text = said.text
        if calls and not with_tools:  # The flow has set ``reply: json``.
            decided = {"thought": text, "command": calls[0].name}
            text = json.dumps({**decided, "command_args": json.loads(calls[0].arguments)})
            calls = []
        tools = [ToolCall(call.id, self._names.tool(call.name), call.arguments) for call in calls]
        pieces = [
            *(Piece(word, "thinking") for word in _words(said.thinking)),
            *(Piece(word) for word in _words(text)),
            *(Piece(call.arguments, "arguments", call.name) for call in tools),
        ]
        for piece in pieces:
            if said.delay:
                await asyncio.sleep(said.delay / len(pieces))
            on_piece(piece)
        if said.delay and not pieces:
            await asyncio.sleep(said.delay)
        return Reply(
            text,
            tuple(tools),
            Usage(*said.tokens),
            self._model.name,
            said.ended,
            said.thinking,
            refusal=said.refusal,
        )


def _groups(script: Sequence[Says]) -> Iterator[list[Says]]:
    """Yield a list for each reply of a script: the exceptions before the reply, then the reply.

    Exceptions after the last reply are the last list.
    """
    group: list[Says] = []
    for said in script:
        group.append(said)
        if not isinstance(said, Exception):
            yield group
            group = []
    if group:
        yield group


def _replies_so_far(context: RoundContext) -> int:
    """Return how many replies of the model are in the history of the round's run."""
    decided = (turn for turn in context.history if turn.said is None)
    return sum(turn.command is None or turn.command.part == 0 for turn in decided)


def _whole(said: Any) -> FakeReply:
    """Return a full reply for an item of a script or the result of a function.

    Raises:
        FatalError: ``said`` is no reply.
    """
    if isinstance(said, FakeReply):
        return said
    if isinstance(said, str):
        return FakeReply(said)
    calls = [said] if isinstance(said, Command | Finish) else said
    if isinstance(calls, Sequence) and all(isinstance(each, Command | Finish) for each in calls):
        return FakeReply(calls=calls)
    raise FatalError(
        f"FakeModel: {said!r:.200} is no reply; expected FakeReply, Command, Finish, a text, an "
        "exception, or a list of commands"
    )


def _call(said: Command | Finish, place: int, context: RoundContext) -> ToolCall:
    if isinstance(said, Finish):
        said = Command("finish", {"answer": said.answer})
    args = storable(dict(said.args), f"the arguments of {said.name}")
    return ToolCall(f"call_{context.step}_{place}", said.name, json.dumps(args))


def _words(text: str) -> list[str]:
    """Return a text's words with their leading spaces."""
    words = text.split(" ")
    return [word if place == 0 else f" {word}" for place, word in enumerate(words)] if text else []


def _message(message: ChatMessage, names: ToolNames) -> FakeMessage:
    if isinstance(message, AssistantMessage):
        calls = (
            Command(names.command(call.name), json.loads(call.arguments or "{}"), call=call.id)
            for call in message.calls
        )
        return FakeMessage("assistant", message.text, tuple(calls))
    if isinstance(message, AnswerMessage):
        return FakeMessage("tool", message.text, command=names.command(message.name))
    if isinstance(message, SystemMessage):
        return FakeMessage("system", message.text)
    files = tuple(each.file for each in message.files if isinstance(each.file, File))
    return FakeMessage("user", message.text, files=files)
