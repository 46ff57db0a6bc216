"""Controllers: objects that decide which command a run executes next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.names import Names
from perdure.flows.rounds.context import RoundContext

#: A controller class, or a function that returns a controller. It is called with a flow's settings
#: as keyword arguments.
Maker = Callable[..., "Controller"]

registered_controllers: Names[Maker] = Names(
    "controller", "perdure.flows.rings.human", "perdure.flows.commands.scripted"
)
if TYPE_CHECKING:
    from perdure.flows.commands.command import CommandSpec

_M = TypeVar("_M", bound=Maker)


class InvalidController(InvalidFlow):
    """Raised when the settings of a controller are invalid.

    Attributes:
        faults: Pairs of a setting's path and its fault.
    """

    def __init__(self, faults: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        self.faults = tuple(faults)
        super().__init__(
            "; ".join(f"{'.'.join(map(str, place))}: {message}" for place, message in faults)
        )


class Controller(ABC):
    """A base class for controllers, which decide the next command.

    A controller holds no state of a run, so any worker may use its own copy.

    Attributes:
        reads_errors: Whether it can act on the text of an error, as a model or a person can. If so,
            a command's exception and an invalid reply of its own become observations. If not, as
            for code, the round fails.
    """

    reads_errors: bool = False

    @property
    def allowed_models(self) -> Sequence[str]:
        """The models that a submission can choose from."""
        return ()

    @property
    def own_commands(self) -> Sequence[CommandSpec]:
        """The controller's own commands, besides those of its flow."""
        return ()

    @property
    def missing(self) -> str | None:
        """Why this process cannot use the controller. None if it can.

        The text is a sentence such as ``it needs perdure[ai], ...``.
        """
        return None

    @abstractmethod
    def decide(self, context: RoundContext) -> Any:
        """Return the next decision of the run.

        The decision depends on ``context`` alone. ``async def`` works too.

        Returns:
            One of ``Command``, ``Finish`` and ``Interrupt``. Or a ``Turn``, which is added to the
                history before the controller is called again. Or a mapping with ``command`` and
                ``command_args``, or JSON text of one. Or a list of ``Command`` and ``BadReply``:
                each command is executed, and each ``BadReply`` becomes an observation, in order.

        Raises:
            BadReply: The source of the decision (a model, say) gave no usable reply. If the
                controller reads errors, the next round shows this error to it.
            FatalError: The run ends errored.
            Exception: RetryableError or any other error: the round is tried again.
        """

    def prompt_for(self, context: RoundContext, tools: bool = True) -> Mapping[str, Any] | None:
        """Return this round's model request as JSON data for people.

        ``decide`` sends the same request. This method sends nothing and depends on ``context``
        alone.

        Args:
            tools: Whether the model can call tools.

        Returns:
            ``messages``, ``tools`` and their ``digest``. None if the controller asks no model.
        """
        return None

    def estimate(self, context: RoundContext) -> Mapping[str, float]:
        """Return the estimated spending of one attempt, by budget.

        The estimate depends on ``context`` alone. Too much is better than too little. It is charged
        for attempts whose worker was lost, because their spending is unknown.
        """
        return {}


def controller(name: str) -> Callable[[_M], _M]:
    """Register a controller for flows written in YAML.

    The decorated object is a controller class, or a function that returns a controller. The keys
    under Controller in such a flow (except ``finish``) are passed as keyword arguments.

    Raises:
        InvalidFlow: Another controller has this name.
    """

    def keep(maker: _M) -> _M:
        """Register a controller class, or a function that returns a controller. Return it."""
        registered_controllers.keep(name, maker)
        return maker

    return keep
