"""Chat messages, what a model answers, and what it takes to be a model: one request, one reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool; ``arguments`` is JSON text as the model wrote it, which may be none."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """What the model is told before all else."""

    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What somebody, or Holdfast itself, says to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model said, and the calls it made; ``kept`` is the provider's own form of it, where that says more."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    kept: str = ""


@dataclass(frozen=True, slots=True)
class AnswerMessage:
    """What a call came to; ``call`` and ``name`` are those of the call."""

    call: str
    name: str
    text: str


ChatMessage = SystemMessage | UserMessage | AssistantMessage | AnswerMessage


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider says that a request used; ``money`` in US dollars, None where no price is known.

    Attributes:
        cached_tokens: of the input, so many were read from the provider's cache.
    """

    input_tokens: int
    output_tokens: int
    money: float | None = None
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply.

    Attributes:
        text: what it said beside its calls.
        calls: in the order in which it made them.
        usage: None where the provider did not tell.
        model: the name of the model that answered.
        ended: why it ended: ``stop``, ``length`` (its limit was reached in the middle), ``tool_call``, ``content_filter``, ...
        thinking: what it thought, for people; never sent back as its words.
        kept: the provider's own form of the reply, to be sent back; empty where text and calls say all.
        refusal: why the model, or its provider, refuses to go on, in its own words; empty where it does not.
        fault: what the provider says was wrong with what the model wrote; empty where nothing was.
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


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """How a request is made: ``timeout_seconds`` is the time for the whole of it; None leaves the others to the provider.

    Attributes:
        more: what the model library takes beside, with references to secrets in place of secrets.
    """

    timeout_seconds: float
    temperature: float | None = None
    max_tokens: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


class ModelFailed(Exception):
    """A request came to nothing.

    Args:
        error: what to raise of it: RetryableError or FatalError.
        billed: whether the provider may ask money for it, without having said how much.
    """

    def __init__(self, error: Exception, billed: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.billed = billed


class Model(Protocol):
    """A model somewhere: makes one request, and never a second one by itself."""

    @property
    def name(self) -> str:
        """The name that it is asked by."""

    @property
    def provider(self) -> str:
        """Who answers, as the library names them."""

    @property
    def has_tools(self) -> bool:
        """Whether it can call tools."""

    async def request(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Mapping[str, Any]],
        settings: RequestSettings,
        heard: Callable[[str], None],
    ) -> Reply:
        """Make one request.

        Args:
            tools: ``name``, ``description`` and ``parameters`` (a JSON schema) of each.
            heard: is called with the text so far, as it comes in.

        Raises:
            ModelFailed: there is no reply. CancelledError: nobody wants it any more; the connection is closed.
        """
