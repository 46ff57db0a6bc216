"""Chat messages, replies, and the interface of a model, which sends one request for one reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from perdure.flows.core.errors import FatalError, RetryableError
from perdure.flows.core.files import File, FileReference


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool.

    Attributes:
        id: The id that the model gave to the call.
        name: The name of the tool.
        arguments: JSON text as the model wrote it, which may be invalid.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """The system prompt."""

    text: str


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file in a message.

    Attributes:
        at: The position of the file: the number of characters of the message's text before it.
        file: The file. In a prompt that is not sent yet, a reference to the file.
    """

    at: int
    file: File | FileReference


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message to the model, from a person or the runtime.

    Attributes:
        repeated: Number of characters at the beginning of the text that later requests repeat.
            None: all. The rest is for this request only and need not be stored in the provider's
            cache.
        files: The files of the message, in the order of their positions in the text.
    """

    text: str
    repeated: int | None = field(default=None, compare=False)
    files: tuple[AttachedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """A reply of the model.

    Attributes:
        text: The text of the reply.
        calls: The tool calls of the reply.
        kept: The reply in the provider's own form, as JSON text. Empty if a request sends text and
            calls instead.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    kept: str = ""


@dataclass(frozen=True, slots=True)
class AnswerMessage:
    """The result of a tool call, for the model.

    Attributes:
        call: The id of the call.
        name: The name of the tool.
        text: The result.
    """

    call: str
    name: str
    text: str


ChatMessage = SystemMessage | UserMessage | AssistantMessage | AnswerMessage


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage that a provider reports for a request.

    Attributes:
        money: The cost in US dollars. None if no price is known.
        cached_tokens: The part of the input tokens that was read from the provider's cache.
        cache_write_tokens: The part of the input tokens that was written to the provider's cache.
        money_uncached: The cost that the request would have without the cache. None: the same as
            ``money``.
    """

    input_tokens: int
    output_tokens: int
    money: float | None = None
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    money_uncached: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply.

    Attributes:
        text: The text without the calls.
        calls: The tool calls in their order.
        usage: The tokens and the cost. None if the provider did not report them.
        money: The charge in US dollars, if the provider reported a charge but no ``usage``. None in
            all other cases.
        model: The name of the model that replied.
        ended: Why the reply ended: ``stop``, ``length`` (the token limit was reached),
            ``tool_call``, ``content_filter``, ...
        thinking: The model's reasoning, for people. It is never sent back as the model's text.
        kept: The reply in the provider's own form, as JSON text. Later requests to this provider
            send the text back. Empty if they send ``text`` and ``calls`` instead.
        refusal: Why the model or its provider refuses to continue, in its words. Empty without a
            refusal.
        fault: The fault that the provider found in the model's output. Empty if it found none.
        dropped_to: The number of the first turn after those that the request leaves out. None if
            the request leaves out no more turns than the request before it. See
            ``history_window``.
        compacts_to: The number of the first turn after those that the reply summarizes. Later
            requests leave the summarized turns out. None if the reply is not a summary.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    model: str = ""
    ended: str = "stop"
    thinking: str = ""
    kept: str = ""
    refusal: str = ""
    fault: str = ""
    dropped_to: int | None = None
    compacts_to: int | None = None
    money: float | None = None


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """The settings of a request.

    Attributes:
        timeout_seconds: Time limit of the whole request.
        temperature, max_tokens: None leaves them to the provider.
        more: Further settings of the model library. They have references to secrets instead of
            secrets.
        run_id: The id of the run. All requests of a run share a provider's cache.
    """

    timeout_seconds: float
    temperature: float | None = None
    max_tokens: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    run_id: str = ""


#: Why a request failed, for the choice of another model. ``busy``: the provider is busy or away.
#: ``incomplete``: the reply broke off or took too long. ``gone``: the model cannot be used at all,
#: or not with this key. ``rejected``: the provider refuses this very request. ``refused``: the
#: model refuses to reply. ``reply``: the model's own call was wrong, which it can correct.
FailureKind = Literal["busy", "incomplete", "gone", "rejected", "refused", "reply"]


class ModelFailed(Exception):
    """Raised when a request to a model failed.

    Args:
        error: The error that the round should raise: RetryableError, FatalError or BadReply.
        billed: Whether the provider may charge for the request although it did not report the
            amount.
        kind: Why the request failed. None: it is derived from the error.
    """

    def __init__(self, error: Exception, billed: bool, kind: FailureKind | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.billed = billed
        self.kind: FailureKind = kind or _kind_of(error)


def _kind_of(error: Exception) -> FailureKind:
    if isinstance(error, RetryableError):
        return "incomplete" if error.counts else "busy"
    return "gone" if isinstance(error, FatalError) else "reply"


class Piece(NamedTuple):
    """A piece of a reply that is still arriving.

    Attributes:
        text: The piece.
        kind: ``text``, ``thinking``, or ``arguments`` of a tool call (JSON).
        tool: The name of the tool for ``arguments``, or an empty text.
    """

    text: str
    kind: str = "text"
    tool: str = ""


class Model(Protocol):
    """A model. Each call of ``request`` sends one request, without retries."""

    @property
    def name(self) -> str:
        """The model's name in requests to its provider."""

    @property
    def provider(self) -> str:
        """The name of the model's provider in the model library."""

    @property
    def has_tools(self) -> bool:
        """Whether the model can call tools."""

    async def request(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Mapping[str, Any]],
        settings: RequestSettings,
        on_piece: Callable[[Piece], None],
    ) -> Reply:
        """Send one request, and return the model's reply.

        Args:
            tools: ``name``, ``description`` and ``parameters`` (a JSON schema) of each tool.
            on_piece: Is called with each piece of the reply as it arrives.

        Raises:
            ModelFailed: There is no reply.
            CancelledError: The round was cancelled; the connection is closed.
        """
