"""What a workflow's function may do with the context of its round, and which names it gives."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import (
    Advance,
    File,
    InvalidFlow,
    RoundContext,
    Step,
    StepFailed,
    Steps,
    Turn,
)
from perdure.flows.core.json_values import canonical
from perdure.flows.core.round_journal import Journal
from perdure.flows.rounds.waits import ReceivedSignal
from perdure.flows.workflows.function_context import INSTEAD
from perdure.flows.workflows.journal import JournalEntry
from tests.support.flow_registry import own_registry
from tests.support.tried_workflows import context_after, play_round

DONE: list[str] = []
#: A call of each method that counts once in each round.
CALLS: dict[str, Callable[[RoundContext], Any]] = {
    "once": lambda context: context.once("paid", lambda: DONE.append("paid")),
    "recorded": lambda context: context.recorded("paid"),
    "attach": lambda context: context.attach(File("a.txt", b"a")),
    "spend": lambda context: context.spend(tokens=1),
    "reply": lambda context: context.reply(ReceivedSignal("paid", 1), "yes"),
    "sleep": lambda context: context.sleep("1h"),
    "until": lambda context: context.until(datetime.max.replace(tzinfo=UTC)),
    "wait_for": lambda context: context.wait_for("paid"),
    "take": lambda context: context.take("paid"),
    "child": lambda context: context.child("other"),
    "start": lambda context: context.start([]),
    "join": lambda context: context.join("children"),
    "gather": lambda context: context.gather([]),
    "map": lambda context: context.map("other", ["a"]),
}


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    own_registry(monkeypatch)
    DONE.clear()


def did(what: str) -> str:
    DONE.append(what)
    return f"{what} is done"


def play(function: Callable[..., Any], context: RoundContext | None = None) -> Any:
    return play_round(function, context or context_after())


@pytest.mark.parametrize("method", INSTEAD)
def test_a_method_that_counts_once_in_each_round_is_refused_in_the_function(method: str) -> None:
    assert INSTEAD.keys() == CALLS.keys()
    context = RoundContext("the goal")
    with pytest.raises(InvalidFlow) as refused:
        play(lambda steps: CALLS[method](steps.context), context)
    assert f"steps.context.{method}(...)" in str(refused.value)
    assert INSTEAD[method] in str(refused.value)
    assert context.mailbox.parked is None and not DONE and not context.journal.recorded


def test_finished_steps_are_committed_before_the_refusal() -> None:
    def waits(steps: Steps) -> None:
        steps.step(did, "charge")
        steps.context.sleep("1h")

    committed = play(waits)
    assert isinstance(committed, Advance)
    assert [turn.command.name for turn in committed.turns if turn.command] == ["did"]


def test_a_step_has_every_method_of_its_context() -> None:
    def pays(context: RoundContext) -> Any:
        return context.once("paid", lambda: did("pay"))

    assert play(lambda steps: steps.step(pays)).answer == "pay is done"


def test_the_function_shares_what_it_remembers_and_tells_with_the_round() -> None:
    def remembers(steps: Steps) -> Any:
        steps.context.remember("stage", "paid")
        steps.context.tell(stage="paid")
        return steps.context.values["stage"]

    context = RoundContext("the goal")
    assert play(remembers, context).answer == "paid"
    assert (context.remembered, context.told) == ({"stage": "paid"}, {"stage": "paid"})


@pytest.mark.parametrize("recorded", ["a quote", {"result": "a quote"}, {"kind": "step"}, [1]])
def test_a_record_that_is_no_entry_of_a_step_does_not_answer_a_concurrent_step(
    recorded: Any,
) -> None:
    def charges(steps: Steps) -> list[Any]:
        return steps.gather([Step(did, "charge", name="charge"), Step(did, "mail", name="mail")])

    context = RoundContext("the goal", journal=Journal("", {"charge": canonical(recorded)}))
    assert play(charges, context).answer == ["charge is done", "mail is done"]
    assert sorted(DONE) == ["charge", "mail"]


@pytest.mark.parametrize("name", ["patched.v2", "refused.listen"])
def test_a_step_cannot_have_a_name_that_the_journal_uses(name: str) -> None:
    with pytest.raises(InvalidFlow, match="cannot name a step"):
        play(lambda steps: steps.step(did, "x", name=name))
    assert not DONE


def test_a_step_of_a_name_of_the_journal_in_an_older_run_goes_on() -> None:
    entry = JournalEntry("refused.order", "step", "no", of="")
    turn, _ = entry.turn("refused.order-0")
    context = context_after([turn])
    assert play(lambda steps: steps.step(did, "x", name="refused.order"), context).answer == "no"
    assert not DONE


def test_a_failure_is_recorded_though_its_usual_name_is_taken() -> None:
    def fails(what: str) -> None:
        raise ValueError(what)

    def charges(steps: Steps) -> str:
        try:
            steps.gather([Step(fails, "a", name="a"), Step(did, "b", name="b")])
        except StepFailed as error:
            return str(error)
        return "nothing failed"

    context = RoundContext("the goal", journal=Journal("", {"a-failed": canonical("a quote")}))
    assert play(charges, context).answer == "step a failed: ValueError: a"


def test_in_a_step_the_context_has_the_key_of_the_step() -> None:
    def keys(context: RoundContext, steps: Steps) -> list[str]:
        return [context.idempotency_key, steps.context.idempotency_key]

    def asks(steps: Steps) -> Any:
        def key(context: RoundContext) -> list[str]:
            return keys(context, steps)

        alone = steps.step(key, name="alone")
        return [alone, *steps.gather([Step(key, name="a"), Step(key, name="b")])]

    turns: list[Turn] = []
    while isinstance(outcome := play(asks, context_after(turns)), Advance):
        turns += outcome.turns
    assert all(own == seen for own, seen in outcome.answer)
    assert len({own for own, _ in outcome.answer}) == 3


def test_in_a_step_the_context_is_that_of_the_step() -> None:
    def pays(steps: Steps, what: str) -> Any:
        steps.context.spend(usd=1)
        return steps.context.once("paid", lambda: did(what))

    def alone(steps: Steps) -> Any:
        return steps.step(lambda: pays(steps, "a"), name="a")

    def beside(steps: Steps) -> list[Any]:
        one, other = (Step(lambda what=what: pays(steps, what), name=what) for what in "ab")
        return steps.gather([one, other])

    context = RoundContext("the goal")
    assert (play(alone, context).answer, context.spent) == ("a is done", {"usd": 1})
    context = RoundContext("the goal")
    assert (play(beside, context).answer, context.spent) == (["a is done", "b is done"], {"usd": 2})
