"""A flow whose rounds raise BaseExceptions:
``PERDURE_FLOW_MODULES=tests.support.example_flows.base_exceptions``.
"""

from __future__ import annotations

import asyncio

from celery.exceptions import WorkerShutdown

from perdure import End, Flow, Outcome, RoundContext, register


class Unheard(BaseException):
    """The BaseException of another library."""


ERRORS: dict[str, BaseException] = {
    "cancelled": asyncio.CancelledError("from a library"),
    "interrupt": KeyboardInterrupt("from code"),
    "generator": GeneratorExit(),
    "own": Unheard("own"),
    "group": BaseExceptionGroup("several", [asyncio.CancelledError()]),
    "shutdown": WorkerShutdown(0),
}


@register("breaks_out")
class BreaksOut(Flow):
    """Raises the goal's error in its first attempt, and ends at the second."""

    @property
    def nodes(self) -> dict[str, str]:
        return {"node": "controller"}

    def play(self, node: str, context: RoundContext) -> Outcome:
        if context.attempt == 1 and context.goal in ERRORS:
            raise ERRORS[context.goal]
        return End(context.attempt)
