"""The context of a round, as the function of a workflow sees it (``steps.context``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from perdure.flows.core.errors import InvalidFlow
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

    The function is run anew in each of its rounds. It would repeat their effects and waits, and
    would not get the signals that an earlier round took. These methods raise InvalidFlow.
    """


def function_context(context: RoundContext) -> RoundContext:
    """Return the context as the function sees it. It shares all fields with ``context``."""
    return made({**vars(context)}, FunctionContext)


def _refusal(method: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: RoundContext, *args: object, **options: object) -> NoReturn:
        raise InvalidFlow(
            f"run {self.run_id}, step {self.step}: steps.context.{method}(...) would happen again "
            f"in each round of the workflow's function. Use {instead}. The function of a step gets "
            "the step's own context if it has a parameter `context`"
        )

    return refuse


for _method, _instead in INSTEAD.items():
    setattr(FunctionContext, _method, _refusal(_method, _instead))
