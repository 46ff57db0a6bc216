"""The context of a round, as the code of a workflow sees it (``steps.context``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, NoReturn

from perdure.flows.commands.in_doubt import without_decision
from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.outcomes import Command
from perdure.flows.rounds.context import RoundContext, made

#: What a workflow's function calls in place of a method of the context.
INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("once", "recorded", "attach", "spend", "reply"), "steps.step(...)"),
    **dict.fromkeys(("sleep", "until"), "steps.sleep(...)"),
    **dict.fromkeys(("wait_for", "take"), "steps.wait_for(...)"),
    **dict.fromkeys(("child", "start", "join"), "steps.child(...)"),
    **dict.fromkeys(("gather", "map"), "steps.map(...)"),
}


class FunctionContext(RoundContext[Any]):
    """The context of a round, without the methods that count once in each round (``INSTEAD``).

    A workflow's function runs again in each round of the run. There these methods would repeat
    their effects and waits, and miss the signals that an earlier round took. So they raise
    InvalidFlow.
    """


#: The context and the key of the step that this code belongs to. None outside of a step.
_OF_STEP: ContextVar[tuple[RoundContext, str] | None] = ContextVar("step", default=None)


class InStep:
    """A context manager: inside it, ``visible_context`` returns the context of a step.

    Args:
        key: the key of the step.
    """

    __slots__ = ("_before", "_own")

    def __init__(self, context: RoundContext, key: str) -> None:
        self._own = context, key

    def __enter__(self) -> None:
        self._before = _OF_STEP.set(self._own)

    def __exit__(self, *raised: object) -> None:
        _OF_STEP.reset(self._before)


def visible_context(context: RoundContext) -> RoundContext:
    """Return the context of a round as the running code may see it.

    In a step, it is the step's own context. In the workflow's function, it is a ``FunctionContext``
    that shares all fields with ``context``.
    """
    if (of_step := _OF_STEP.get()) is not None and of_step[0].run_id == context.run_id:
        return without_decision(of_step[0]).carrying_out(Command(of_step[1]))
    return made({**vars(context)}, FunctionContext)


def _refusal(method: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: RoundContext, *args: object, **options: object) -> NoReturn:
        raise InvalidFlow(
            f"run {self.run_id}, step {self.step}: steps.context.{method}(...) would happen again "
            f"in each round of the workflow's function. Use {instead}. In a step, `steps.context` "
            "is the step's own context"
        )

    return refuse


for _method, _instead in INSTEAD.items():
    setattr(FunctionContext, _method, _refusal(_method, _instead))
