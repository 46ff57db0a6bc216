"""Flows for tests, registered in workers by
``PERDURE_FLOW_MODULES=tests.support.example_flows.rings``.
"""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from perdure import (
    CircularFlow,
    FatalError,
    Interrupt,
    Node,
    RetryableError,
    RoundContext,
    register,
)

#: The thread of each round of ``threads`` that this process began.
PLAYED: list[str] = []


def _pause(context: RoundContext) -> None:
    """Take as long as the inputs say, unless the round is cancelled."""
    seconds = float(context.inputs.get("seconds", 0))
    if seconds:
        context.progress(
            0, 1, "writes"
        )  # reported by the next beat: the round is under way, not merely claimed
    if seconds and context.cancelled.wait(seconds):
        context.raise_if_stopped()


@register("ledger")
class Ledger(CircularFlow):
    """Two nodes that write down every step they commit; the answer is the written steps, so a step
    lost or doubled shows.

    Inputs: ``rounds``, and ``seconds`` that each round takes.
    """

    topology = (Node("Controller", "write", role="controller"), Node("Executor", "write"))
    max_rounds = None

    def write(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        _pause(context)
        seen = [*state.get("seen", []), context.step]
        if len(seen) >= context.inputs["rounds"]:
            return {"seen": seen, self.early_exit_key: True, "answer": seen, "status": "finished"}
        return {"seen": seen}


@register("trouble")
class Trouble(CircularFlow):
    """One node that fails as the inputs say: ``kind`` (retryable, fatal, plain) for the first ``times`` attempts."""

    topology = (Node("Executor", "fail"),)
    max_rounds = None

    def fail(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        if context.attempt <= context.inputs.get("times", 99):
            match context.inputs.get("kind", "retryable"):
                case "retryable":
                    raise RetryableError(
                        "the service is busy", retry_after=context.inputs.get("retry_after")
                    )
                case "fatal":
                    raise FatalError("this can never work")
                case _:
                    raise ValueError("an ordinary exception")
        return {self.early_exit_key: True, "answer": context.attempt, "status": "finished"}


@register("asker")
class Asker(CircularFlow):
    """One node that asks a person once, and ends with the answer and the keys it saw before and after."""

    topology = (Node("Human", "ask", role="controller"),)

    def ask(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any] | Interrupt:
        if not context.answered:
            deadline = context.inputs.get("deadline")
            return Interrupt(
                "may I?",
                data={"key": context.idempotency_key},
                deadline=deadline,
                default=context.inputs.get("default"),
            )
        return {
            self.early_exit_key: True,
            "answer": {"said": context.answer, "key": context.idempotency_key},
            "status": "finished",
        }


@register("deaf")
class Deaf(CircularFlow):
    """One node that sleeps ``seconds`` and looks at its token only at the end: it cannot be hurried."""

    topology = (Node("Executor", "sleep"),)

    def sleep(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        threading.Event().wait(context.inputs["seconds"])
        return {self.early_exit_key: True, "answer": "slept", "status": "finished"}


@register("threads")
class InThreads(CircularFlow):
    """One node that writes down the thread that plays it; the answer is how many there were in ``rounds``."""

    topology = (Node("Controller", "look", role="controller"),)
    max_rounds = None

    def look(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        thread = str(threading.get_ident())
        PLAYED.append(thread)
        seen = sorted({*state.get("seen", []), thread})
        if context.step + 1 < context.inputs["rounds"]:
            return {"seen": seen}
        return {"seen": seen, self.early_exit_key: True, "answer": len(seen), "status": "finished"}


@register("stumbles")
class Stumbles(CircularFlow):
    """One node that fails the first attempt of each second step; the answer is how many steps there were in ``rounds``."""

    topology = (Node("Controller", "walk", role="controller"),)
    max_rounds = None

    def walk(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        if context.step % 2 and context.attempt == 1:
            raise RetryableError("once")
        if context.step + 1 < context.inputs["rounds"]:
            return {}
        return {self.early_exit_key: True, "answer": context.step + 1, "status": "finished"}


@register("traffic")
class Traffic(CircularFlow):
    """One node, which writes down in its process whose round it is and how many others are under
    way; the answer is what stands there.

    Inputs: ``number`` of the run, ``rounds``, ``seconds`` that each takes, ``together``: this
    number of runs wait for each other in their last round.
    """

    topology = (Node("Controller", "drive", role="controller"),)
    max_rounds = None
    _log: ClassVar[list[tuple[int, int]]] = []
    _under_way: ClassVar[set[int]] = set()
    _barriers: ClassVar[dict[int, threading.Barrier]] = {}

    def drive(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        number, together = context.inputs["number"], context.inputs.get("together")
        is_last = context.step + 1 >= context.inputs["rounds"]
        self._log.append((number, len(self._under_way)))
        self._under_way.add(number)
        if seconds := context.inputs.get("seconds"):
            context.cancelled.wait(seconds)
        if is_last and together:
            self._barriers.setdefault(together, threading.Barrier(together)).wait(30)
        self._under_way.discard(number)
        return (
            {self.early_exit_key: True, "answer": self._log, "status": "finished"}
            if is_last
            else {}
        )
