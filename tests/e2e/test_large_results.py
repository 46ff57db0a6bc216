"""Results that are too large for the history: what keeps them, and what a run is told otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from perdure import (
    CircularFlow,
    Client,
    File,
    Node,
    RoundContext,
    RunStatus,
    Settings,
    Step,
    Steps,
    register,
    workflow,
)
from tests.e2e.test_workflows import DEADLY, DONE, effect, nothing_done, play
from tests.support.driving import Driver, driving

__all__ = ["nothing_done"]

#: More than one round may add to a run.
LARGE = "x" * 300_000


@pytest.fixture
def driver(settings: Settings) -> Iterator[Driver]:
    with driving(settings) as made:
        yield made


@register("large_ring")
class LargeRing(CircularFlow):
    """One node with a large result, which it records, returns, or attaches as a file."""

    topology = (Node("Executor", "fetch"),)
    max_rounds = None

    def fetch(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        way = context.inputs["way"]
        if way == "once":
            context.once("fetched", self._read)
        answer: Any = LARGE
        if way == "attach":
            answer = context.attach(File("fetched.txt", self._read().encode()))
        return {self.early_exit_key: True, "answer": answer, "status": "finished"}

    def _read(self) -> str:
        effect("read")
        return LARGE


@pytest.mark.parametrize("way", ["once", "return"])
def test_a_ring_is_told_where_a_large_result_can_be_kept(
    client: Client, driver: Driver, way: str
) -> None:
    failed = play(driver, client.submit("large_ring", "g", {"way": way}))
    assert failed.status is RunStatus.ERRORED and failed.error is not None
    assert "max_addition_bytes" in failed.error and "context.attach" in failed.error
    assert DONE["read"] == (way == "once"), "a retry could only fail again"


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
    # Nothing has recorded the large result of its sibling.
    assert DONE.total() <= 3 + (death is not None) + (death in ("a", "b"))


def test_a_large_sibling_of_a_step_that_died_is_in_doubt_too(
    client: Client, driver: Driver
) -> None:
    DEADLY["b"] = 1
    run = client.submit("workflow_large", "g", {"idempotent": False})
    asked = []
    while play(driver, run).status is RunStatus.INTERRUPTED:
        [question] = client.inbox().waiting
        asked.append(question.command)
        client.resume(run.id, {"result": "has happened"}, interrupt=question.id)
    assert client.get(run.id).answer == ["one", "has happened", "has happened"]
    assert DONE == {"one": 1, "a": 1, "b": 1} and len(asked) == 2
