"""A command in doubt: its worker was lost after the intent, and its policy decides the next move."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import (
    NOT_DONE,
    Command,
    FatalError,
    Interrupt,
    InvalidFlow,
    InvalidInput,
    OutcomeUnknown,
    RetryableError,
    RoundContext,
    RoundStopped,
    UnstorableValue,
    command,
)
from perdure.flows.commands.approval import digest_of
from perdure.flows.commands.command import spec_of
from perdure.flows.commands.in_doubt import read_answer
from perdure.flows.core.round_journal import Journal


class Outside:
    """The outside world, with a command for each policy."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.keys: list[str] = []

    def look(self, context: RoundContext, item: str) -> Any:
        return f"{item} was there" if item in self.done else NOT_DONE

    def broken(self, context: RoundContext, item: str) -> Any:
        raise OSError("no answer")

    def _do(self, context: RoundContext, item: str) -> str:
        self.done.append(item)
        self.keys.append(context.idempotency_key)
        return f"did {item}"

    @command
    def plain(self, context: RoundContext, item: str) -> str:
        return self._do(context, item)

    @command(idempotent=True)
    def idempotent(self, context: RoundContext, item: str) -> str:
        return self._do(context, item)

    @command(in_doubt="retry")
    def retried(self, context: RoundContext, item: str) -> str:
        return self._do(context, item)

    @command(in_doubt="ask")
    def asked(self, context: RoundContext, item: str) -> str:
        return self._do(context, item)

    @command(in_doubt=look)
    def reconciled(self, context: RoundContext, item: str) -> str:
        return self._do(context, item)

    @command(in_doubt=broken)
    def unreconciled(self, context: RoundContext, item: str) -> str:
        return self._do(context, item)


def context(intents: str = "", **more: Any) -> RoundContext:
    return RoundContext("g", run_id="r", step=3, journal=Journal(intents), **more)


def after_a_loss(outside: Outside, name: str, **more: Any) -> Any:
    """Carry out a command whose worker was lost once right after the intent, and return the next
    attempt's outcome.
    """
    first = context()
    spec = spec_of(getattr(outside, name))
    spec.carry_out({"item": "a"}, first)
    outside.done.clear()  # lost before anything happened; with look() it is the world that tells
    return spec.carry_out({"item": "a"}, context(first.journal.text, **more))


def test_the_intent_is_written_before_the_command_runs() -> None:
    outside, seen = Outside(), []

    class Watching(Journal):
        def write(self, text: str) -> None:
            seen.append((text, list(outside.done)))

    round_of = RoundContext("g", run_id="r", step=3, journal=Watching())
    spec_of(outside.plain).carry_out({"item": "a"}, round_of)
    assert seen == [(outside.keys[0], [])]
    assert outside.done == ["a"]


def test_an_idempotent_command_writes_no_intent_and_is_never_in_doubt() -> None:
    outside = Outside()
    assert after_a_loss(outside, "idempotent") == "did a"
    round_of = context()
    spec_of(outside.idempotent).carry_out({"item": "a"}, round_of)
    assert round_of.journal.text == ""


def test_the_controller_is_told_by_default_and_nothing_is_repeated() -> None:
    outside = Outside()
    told = after_a_loss(outside, "plain")
    assert "unknown" in told["in_doubt"] and told["idempotency_key"] == outside.keys[0]
    assert outside.done == []


def test_retry_carries_it_out_again_under_the_same_key() -> None:
    outside = Outside()
    assert after_a_loss(outside, "retried") == "did a"
    assert len(outside.keys) == 2 and len(set(outside.keys)) == 1


def test_reconcile_asks_the_outside_world_and_repeats_only_what_is_not_there() -> None:
    outside = Outside()
    assert after_a_loss(outside, "reconciled") == "did a", "it was not there"
    again = context(context().journal.text)
    first = context()
    spec_of(outside.reconciled).carry_out({"item": "b"}, first)
    again = context(first.journal.text)
    assert spec_of(outside.reconciled).carry_out({"item": "b"}, again) == "b was there"
    assert outside.done.count("b") == 1


def test_finding_out_that_fails_is_tried_again_and_repeats_nothing() -> None:
    outside = Outside()
    with pytest.raises(
        RetryableError, match="in doubt, and its reconciling function failed: OSError: no answer"
    ):
        after_a_loss(outside, "unreconciled")
    assert outside.done == []


def test_ask_interrupts_and_takes_the_three_answers() -> None:
    outside = Outside()
    question = after_a_loss(outside, "asked")
    assert isinstance(question, Interrupt)
    assert question.data["in_doubt"] == {
        "command": "asked",
        "args": {"item": "a"},
        "key": outside.keys[0],
        "attempt": 1,
    }
    answers: list[tuple[Any, Any]] = [
        ("retry", "did a"),
        ({"result": 7}, 7),
        ({"tell": "it bounced"}, {"in_doubt": "it bounced"}),
    ]
    for answer, came_to in answers:
        found = after_a_loss(Outside(), "asked", answer=answer, answered=True, asked=question.data)
        assert found == came_to
    # The answer counts for the next attempt. If that is cut off too, its outcome is unknown again.
    told = {"answer": "retry", "answered": True, "asked": question.data}
    assert after_a_loss(Outside(), "asked", attempt=2, **told) == "did a"
    outside = Outside()
    again = after_a_loss(outside, "asked", attempt=3, **told)
    assert isinstance(again, Interrupt) and again.data["in_doubt"]["attempt"] == 3
    assert outside.done == []
    again = after_a_loss(Outside(), "asked", answer="perhaps", answered=True, asked=question.data)
    assert isinstance(again, Interrupt) and "the last answer was not valid" in again.reason
    with pytest.raises(InvalidInput, match='"retry"'):
        read_answer({"result": 1, "tell": "x"})


def test_the_answer_to_another_question_settles_no_doubt() -> None:
    found = after_a_loss(
        Outside(), "asked", answer="retry", answered=True, asked={"in_doubt": {"key": "r:2:other"}}
    )
    assert isinstance(found, Interrupt)


def test_a_command_that_says_try_again_is_in_no_doubt() -> None:
    @command
    def busy() -> None:
        raise RetryableError("busy")

    @command
    def cut_off() -> None:
        raise OutcomeUnknown("the line went dead")

    for function, kept in ((busy, False), (cut_off, True)):
        round_of = context()
        with pytest.raises(RetryableError):
            spec_of(function).carry_out({}, round_of)
        assert bool(round_of.journal.text) is kept
        assert round_of.journal.is_behind is not kept, "the round's end takes the intent back"


def test_a_command_that_was_cut_off_is_in_doubt_whatever_it_says() -> None:
    round_of = context()

    @command
    def late() -> None:
        round_of.cancelled.set()
        raise RetryableError("cancelled")

    with pytest.raises(RetryableError):
        spec_of(late).carry_out({}, round_of)
    assert round_of.journal.text


def test_any_other_failure_leaves_the_intent() -> None:
    @command
    def fatal() -> None:
        raise FatalError("no")

    round_of = context()
    with pytest.raises(FatalError):
        spec_of(fatal).carry_out({}, round_of)
    assert round_of.journal.text and not round_of.journal.is_behind


def test_a_command_that_asks_first_is_in_no_doubt() -> None:
    @command
    def careful(context: RoundContext) -> Any:
        return "done" if context.answered else Interrupt("sure?")

    round_of = context()
    assert isinstance(spec_of(careful).carry_out({}, round_of), Interrupt)
    assert round_of.journal.text == "" and round_of.journal.is_behind


def test_a_command_in_doubt_is_not_approved_twice_and_keeps_the_arguments_a_person_gave() -> None:
    outside: list[int] = []

    @command(approval="always", in_doubt="retry")
    def pay(amount: int) -> int:
        outside.append(amount)
        return amount

    asked = {"approval": {"digest": digest_of("pay", {"amount": 5})}}
    first = context(answer={"edit": {"amount": 4}}, answered=True, asked=asked)
    spec_of(pay).carry_out({"amount": 5}, first)
    found = spec_of(pay).carry_out({"amount": 5}, context(first.journal.text))
    assert found == {"result": 4, "edited": {"by": "a person", "args": {"amount": 4}}}
    assert outside == [4, 4]


def test_who_answers_a_doubt_is_not_said_to_have_changed_the_arguments() -> None:
    """carol changes the arguments > the worker dies > eve reports the result."""

    @command(approval="always", in_doubt="ask")
    def pay(amount: int) -> int:
        return amount

    asked = {"approval": {"digest": digest_of("pay", {"amount": 5})}}
    first = context(answer={"edit": {"amount": 4}}, answered=True, answered_by="carol", asked=asked)
    spec_of(pay).carry_out({"amount": 5}, first)
    doubt = spec_of(pay).carry_out({"amount": 5}, context(first.journal.text))
    second = context(
        first.journal.text,
        answer={"result": "paid"},
        answered=True,
        answered_by="eve",
        asked=doubt.data,
    )
    found = spec_of(pay).carry_out({"amount": 5}, second)
    assert found == {"result": "paid", "edited": {"by": "a person", "args": {"amount": 4}}}


def test_two_commands_in_one_round_are_each_in_doubt() -> None:
    outside, first = Outside(), context()
    for item in ("a", "b"):
        spec_of(outside.plain).carry_out({"item": item}, first)
    second = context(first.journal.text)
    for item in ("a", "b"):
        assert "in_doubt" in spec_of(outside.plain).carry_out({"item": item}, second)
    assert spec_of(outside.plain).carry_out({"item": "c"}, second) == "did c"


@pytest.mark.parametrize(
    "options", [{"in_doubt": "maybe"}, {"in_doubt": 7}, {"in_doubt": "ask", "idempotent": True}]
)
def test_a_policy_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidFlow, match="in_doubt"):
        command(**options)


def test_once_calls_its_function_once_and_replays_the_first_result() -> None:
    calls: list[int] = []

    def effect() -> dict[str, int]:
        calls.append(1)
        return {"n": len(calls)}

    round_of = context()
    assert [round_of.once("charge", effect), round_of.once("charge", effect)] == [
        {"n": 1},
        {"n": 1},
    ]
    assert round_of.once("other", effect) == {"n": 2}
    with pytest.raises(InvalidFlow, match="once"):
        round_of.once("no name", effect)


def test_a_function_that_finds_out_may_be_plain_bound_or_a_coroutine_and_sees_the_round() -> None:
    outside = Outside()

    async def find_out(context: RoundContext, item: str) -> tuple[str, str]:
        return item, context.idempotency_key

    def plainly(context: RoundContext, item: str) -> str:
        return f"plain {item}"

    @command(in_doubt=find_out)
    def ask_first(item: str) -> str:
        return outside.done.append(item) or "done"

    @command(in_doubt=outside.look)
    def bound(item: str) -> str:
        return "done"

    class Own:
        @command(in_doubt=outside.look)
        def method(self, item: str) -> str:
            return "done"

    @command(in_doubt=plainly)
    def plain(item: str) -> str:
        return "done"

    def again(function: Any) -> Any:
        first = context()
        spec_of(function).carry_out({"item": "a"}, first)
        return spec_of(function).carry_out({"item": "a"}, context(first.journal.text))

    item, key = again(ask_first)
    assert item == "a" and key == context().key_of(Command("ask_first", {"item": "a"}))
    outside.done = ["a"]
    assert [again(bound), again(Own().method), again(plain)] == [
        "a was there",
        "a was there",
        "plain a",
    ]


def test_what_was_found_out_is_json_or_a_clear_error() -> None:
    @command(in_doubt=lambda context: object())
    def odd() -> None: ...

    first = context()
    spec_of(odd).carry_out({}, first)
    with pytest.raises(UnstorableValue, match="the reconciled result of command 'odd'"):
        spec_of(odd).carry_out({}, context(first.journal.text))


def test_what_may_not_begin_leaves_no_intent() -> None:
    class Refusing(Journal):
        def write(self, text: str) -> None:
            raise RoundStopped("another has the round")

    earlier = "r:3:eeee"
    journal = Refusing(earlier)
    for line in ("r:3:aaaa", 'r:3:bbbb {"a":1}'):
        with pytest.raises(RoundStopped):
            journal.intend(line)
        assert journal.text == earlier and journal.is_behind, (
            "it may stand there all the same: the reply may have been lost"
        )


def test_the_questions_and_refusals_say_what_they_are_about() -> None:
    question = after_a_loss(Outside(), "asked")
    assert (
        question.reason
        == "asked was begun, and its round was cut off (a lost worker, its time limit, or a stop): has it happened?"
    )
    with pytest.raises(InvalidInput, match="about a command in doubt is 'perhaps'; expected"):
        read_answer("perhaps")
    with pytest.raises(InvalidFlow, match="'retry', 'ask', 'tell_controller', or a function"):
        command(in_doubt="maybe")
