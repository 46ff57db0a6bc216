"""Controllers: they decide which command comes next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from flows.context import RoundContext
from flows.errors import InvalidFlow
from flows.names import Names

#: A class of controllers, or a function that makes one; it is called with the settings of one flow by keyword.
Maker = Callable[..., "Controller"]

registered_controllers: Names[Maker] = Names("controller")
_M = TypeVar("_M", bound=Maker)


class InvalidController(InvalidFlow):
    """Settings with which a controller cannot be made; ``faults`` says of each where it stands among the settings, and what is wrong."""

    def __init__(self, faults: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{'.'.join(map(str, place))}: {message}" for place, message in faults))


class Controller(ABC):
    """Decides the next command of a run. It holds no state of a run: any worker may ask any copy of it.

    Attributes:
        reads_errors: it can act on the text of an error, as a model or a person can. A command's exception, and a reply of its own that
            cannot be carried out, are observations then. With False, for code, the round fails.
    """

    reads_errors: bool = False

    @property
    def missing(self) -> str | None:
        """What this process lacks to decide with it, in a sentence (``it needs holdfast[ai], ...``); None where nothing is missing."""
        return None

    @abstractmethod
    def decide(self, context: RoundContext) -> Any:
        """The next decision, from nothing but ``context`` (``async def`` works too).

        Returns:
            ``Command``, ``Finish`` or ``Interrupt``; or a ``Turn``, which becomes part of the history before the Controller is asked
            again; or a mapping, or JSON text of one, with ``command`` and ``command_args``; or a
            list of ``Command`` and ``BadReply``, which are carried out and answered in turn.

        Raises:
            BadReply: what was asked (a model, say) gave no usable reply; where it reads errors, the next round shows it this one.
            RetryableError and anything else: the round is tried again. FatalError: the run ends errored.
        """

    def estimate(self, context: RoundContext) -> Mapping[str, float]:
        """What one attempt of this round will spend, by name, rather too much than too little; from nothing but ``context``.

        It is charged for attempts whose worker was lost, since nobody can say any more what they spent.
        """
        return {}


def controller(name: str) -> Callable[[_M], _M]:
    """Register a class of controllers, or a function that makes one, under ``name``, for flows written in YAML.

    What such a flow says of its Controller (beside ``finish``) is passed by keyword. Raises InvalidFlow if another one has the name.
    """

    def keep(maker: _M) -> _M:
        registered_controllers.keep(name, maker)
        return maker

    return keep
