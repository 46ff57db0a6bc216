"""Controllers: they decide which command comes next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from flows.context import RoundContext
from flows.names import Names

#: A class of controllers, or a function that makes one; it is called with the settings of one flow by keyword.
Maker = Callable[..., "Controller"]

registered_controllers: Names[Maker] = Names("controller")
_M = TypeVar("_M", bound=Maker)


class Controller(ABC):
    """Decides the next command of a run. It holds no state of a run: any worker may ask any copy of it."""

    @abstractmethod
    def decide(self, context: RoundContext) -> Any:
        """The next decision, from nothing but ``context`` (``async def`` works too).

        Returns:
            ``Command``, ``Finish`` or ``Interrupt``; or a mapping, or JSON text of one, with ``command`` and ``command_args``.

        Raises:
            BadReply: what was asked (a model, say) gave no usable reply; it is told so in the next round.
            RetryableError and anything else: the round is tried again. FatalError: the run ends errored.
        """


def controller(name: str) -> Callable[[_M], _M]:
    """Register a class of controllers, or a function that makes one, under ``name``, for flows written in YAML.

    What such a flow says of its Controller (beside ``finish``) is passed by keyword. Raises InvalidFlow if another one has the name.
    """

    def keep(maker: _M) -> _M:
        registered_controllers.keep(name, maker)
        return maker

    return keep
