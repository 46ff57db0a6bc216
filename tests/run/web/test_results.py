"""``result`` of every client: it waits for the end of a run, and returns the answer as a value of
its type.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from perdure import (
    AsyncClient,
    CircularFlow,
    Client,
    ControllerExecutorFlow,
    Finish,
    Interrupt,
    InvalidAnswer,
    InvalidInput,
    Node,
    RemoteClient,
    RoundContext,
    Run,
    RunFailed,
    RunNotFound,
    RunStatus,
    Settings,
    Steps,
    register,
    workflow,
)
from tests.support.flow_registry import own_registry
from tests.support.round_driver import Driver, driving
from tests.support.threaded_server import serving


class Refund(BaseModel):
    """The money that a customer gets back."""

    amount: Decimal
    on: date


@dataclass
class Money:
    amount: float


REFUND = Refund(amount=Decimal("12.50"), on=date(2026, 1, 2))
#: Whether the code of ``Refunding`` is correct. A test deploys the corrected code by it.
CORRECT = {"is": True}


@pytest.fixture
def driver(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    own_registry(monkeypatch)

    @register("refunding")
    class Refunding(ControllerExecutorFlow):
        Answer = Refund

        def decide(self, context: RoundContext) -> Finish | Interrupt:
            match context.goal:
                case "break":
                    raise ZeroDivisionError("broken")
                case "ask" if not context.answered:
                    return Interrupt("may I?")
                case "lie" if not CORRECT["is"]:
                    return Finish({"amount": "much"})
            return Finish(REFUND)

    @register("untyped")
    class Untyped(ControllerExecutorFlow):
        def decide(self, context: RoundContext) -> Finish:
            return Finish({"amount": 1.5})

    @register("ring")
    class Ring(CircularFlow):
        topology = (Node("Only", "play_it"),)
        Answer = Refund

        def play_it(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
            answer = REFUND if CORRECT["is"] else {"amount": 1}
            return {"EARLY_EXIT": True, "answer": answer, "status": "finished"}

    @workflow("paying")
    def paying(steps: Steps, goal: str) -> list[Refund]:
        steps.step(len, goal)
        return [REFUND] if CORRECT["is"] else ["nothing"]  # type: ignore[list-item]

    with driving(settings) as made:
        yield made


#: Calls ``result`` of one kind of client.
Result = Callable[..., Any]


@pytest.fixture(params=["client", "remote", "async"])
def result(request: pytest.FixtureRequest, client: Client, settings: Settings) -> Iterator[Result]:
    if request.param == "client":
        yield client.result
    elif request.param == "remote":
        with serving(settings) as url:
            remote = RemoteClient(url)
            yield remote.result
            remote.close()
    else:

        async def story(*args: Any, **named: Any) -> Any:
            awaited = AsyncClient(settings=settings)
            try:
                return await awaited.result(*args, **named)
            finally:
                await awaited.close()

        yield lambda *args, **named: asyncio.run(story(*args, **named))


def test_the_answer_has_the_type_of_the_flow_or_the_wanted_one(
    client: Client, driver: Driver, result: Result
) -> None:
    typed, untyped = client.submit("refunding", "x"), client.submit("untyped", "x")
    paid = client.submit("paying", "x")
    driver.play()
    assert client.get(typed.id).answer == {"amount": "12.50", "on": "2026-01-02"}
    assert result(typed, timeout=5) == result(typed.id, 5) == REFUND
    assert result(paid, 5) == [REFUND]
    assert result(untyped, 5) == {"amount": 1.5}
    assert result(untyped, 5, as_type=Money) == Money(1.5)
    assert result(untyped, 5, as_type=dict[str, Decimal]) == {"amount": Decimal("1.5")}
    with pytest.raises(
        InvalidAnswer, match=f"run {untyped.id}: the answer does not fit Refund: on"
    ):
        result(untyped, 5, as_type=Refund)
    with pytest.raises(InvalidInput, match="cannot be the type"):
        result(untyped, 5, as_type=type("Opaque", (), {}))


def test_it_waits_for_a_person_and_returns_what_follows_from_the_answer(
    client: Client, driver: Driver, result: Result
) -> None:
    run = client.submit("refunding", "ask")
    driver.play()
    with pytest.raises(TimeoutError, match=rf"{run.id} is still interrupted \(may I\?\) at step 0"):
        result(run, 0.2)
    with ThreadPoolExecutor(1) as pool:
        awaited = pool.submit(result, run, 20)
        client.resume(run.id, "yes")
        driver.play()
        assert awaited.result(20) == REFUND


def failed(result: Result, run: Run) -> RunFailed:
    with pytest.raises(RunFailed) as caught:
        result(run, 5)
    assert caught.value.run.id == run.id and caught.value.code == "run-failed"
    return caught.value


def test_a_run_without_an_answer_raises_with_the_reason(
    client: Client, driver: Driver, result: Result
) -> None:
    retry = {"max_attempts": 1}
    broken = client.submit("refunding", "break", retry=retry)
    stopped = client.submit("refunding", "ask")
    driver.play()
    client.request_stop(stopped.id, reason="too dear", requested_by="ann")
    assert "errored at step 0" in str(failed(result, broken)) and "broken" in str(
        failed(result, broken)
    )
    assert "was stopped at step 0 by ann: too dear" in str(failed(result, stopped))
    assert failed(result, stopped).run.status is RunStatus.STOPPED
    with pytest.raises(RunNotFound):
        result("nobody", 1)


@pytest.mark.parametrize("flow", ["refunding", "ring", "paying"])
def test_a_wrong_answer_of_code_ends_errored_and_a_retry_with_corrected_code_loses_nothing(
    client: Client, driver: Driver, flow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CORRECT, "is", False)
    run = client.submit(flow, "lie")
    driver.play()
    told = client.get(run.id)
    assert told.status is RunStatus.ERRORED and told.error is not None
    assert "the answer does not fit" in told.error and run.id in told.error
    turns = told.details["turns"]
    monkeypatch.setitem(CORRECT, "is", True)
    client.retry(run.id)
    driver.play()
    assert client.get(run.id).details["turns"] == turns
    assert client.result(run, 5) == ([REFUND] if flow == "paying" else REFUND)
    assert client.get(run.id).output.get("answer") in (
        None,
        {"amount": "12.50", "on": "2026-01-02"},
    )
