"""Results that are too large for the history: their storage, and the text that a run gets without
one.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure import (
    CircularFlow,
    Client,
    File,
    Node,
    RoundContext,
    RunStatus,
    Step,
    Steps,
    register,
    workflow,
)
from tests.support.round_driver import Driver
from tests.support.workflow_effects import DEADLY, DONE, effect, nothing_done, play

__all__ = ["nothing_done"]

#: More than one round may add to a run.
LARGE = "x" * 300_000


@register("large_ring")
class LargeRing(CircularFlow):
    """One node with a large result, which it records, returns, or attaches as a file."""

    topology = (Node("Executor", "fetch"),)
    max_rounds = None

    def fetch(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        way = context.inputs["way"]
        answer: Any = LARGE
        if way == "once":
            times = context.inputs.get("times", 1)
            answer = len(context.once("fetched", lambda: self._read() * times))
            effect("after")
        if way == "attach":
            answer = context.attach(File("fetched.txt", self._read().encode()))
        return {self.early_exit_key: True, "answer": answer, "status": "finished"}

    def _read(self) -> str:
        effect("read")
        return LARGE


def test_a_ring_is_told_where_a_large_result_can_be_kept(client: Client, driver: Driver) -> None:
    failed = play(driver, client.submit("large_ring", "g", {"way": "return"}))
    assert failed.status is RunStatus.ERRORED and failed.error is not None
    assert "max_addition_bytes" in failed.error and "context.attach" in failed.error


@pytest.mark.parametrize("death", [None, "after"])
def test_a_large_result_is_recorded_before_the_commit(
    client: Client, driver: Driver, death: str | None
) -> None:
    DEADLY.update([death] if death else [])
    done = play(driver, client.submit("large_ring", "g", {"way": "once"}))
    assert done.answer == len(LARGE) and not +DEADLY, done.error
    assert {"read": 1, "after": 1 + (death is not None)} == DONE
    assert client.artifacts(done.id) == {}, "the commit of the round drops it"


def test_a_recorded_result_of_more_than_an_artifact_holds_ends_the_run(
    client: Client, driver: Driver
) -> None:
    failed = play(driver, client.submit("large_ring", "g", {"way": "once", "times": 60}))
    assert failed.status is RunStatus.ERRORED and failed.error is not None
    assert "'fetched' takes 18,000,002 bytes; the limit is 16,777,216" in failed.error
    assert DONE["read"] == 1, "a retry could only fail again"


def test_a_ring_keeps_a_large_result_as_a_file(client: Client, driver: Driver) -> None:
    done = play(driver, client.submit("large_ring", "g", {"way": "attach"}))
    assert done.status is RunStatus.COMPLETED, done.error
    assert client.file(done.id, done.answer["file"]).text == LARGE


def large(name: str) -> str:
    effect(name)
    return name + LARGE


@workflow("workflow_large")
def large_steps(steps: Steps, idempotent: bool) -> list[str]:
    one = steps.step(large, "one", idempotent=idempotent)
    several = steps.gather(Step(large, name, idempotent=idempotent) for name in ("a", "b"))
    return [each.removesuffix(LARGE) for each in (one, *several)]


@pytest.mark.parametrize("death", [None, "one", "a", "b"])
def test_large_results_of_steps_are_artifacts_also_of_several_at_once(
    client: Client, driver: Driver, death: str | None
) -> None:
    DEADLY.update([death] if death else [])
    done = play(driver, client.submit("workflow_large", "g", {"idempotent": True}))
    assert done.answer == ["one", "a", "b"] and not +DEADLY, done.error
    sizes = client.artifacts(done.id)
    assert sizes == {"large-0": 300_005, "large.2-1": 300_003, "large.3-1": 300_003}
    assert DONE.total() == 3 + (death is not None), "the large result of a sibling was recorded"


def test_of_two_large_siblings_only_the_one_that_died_is_in_doubt(
    client: Client, driver: Driver
) -> None:
    DEADLY["b"] = 1
    run = client.submit("workflow_large", "g", {"idempotent": False})
    asked = []
    while play(driver, run).status is RunStatus.INTERRUPTED:
        [question] = client.inbox().waiting
        asked.append(question.command)
        client.resume(run.id, {"result": "has happened"}, interrupt=question.id)
    assert client.get(run.id).answer == ["one", "a", "has happened"]
    assert DONE == {"one": 1, "a": 1, "b": 1} and asked == ["large.3"]
