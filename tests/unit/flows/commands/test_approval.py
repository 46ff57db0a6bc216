"""Approvals: a person sees the exact command first, and their answer holds for that command alone,
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from perdure import (
    BadReply,
    Command,
    ControllerExecutorFlow,
    Finish,
    Interrupt,
    InvalidFlow,
    InvalidInput,
    RoundContext,
    ScriptedController,
    command,
)
from perdure.flows.commands.approval import (
    Approval,
    ApprovalRefused,
    Approved,
    approval_of,
    digest_of,
    matching,
    read_answer,
)
from perdure.flows.commands.command import spec_of
from perdure.flows.core.round_journal import Journal
from perdure.flows.rings.config import read_config
from perdure.flows.rings.human import ask
from perdure.flows.rounds.context import altered
from tests.support.flow_player import Played, play_through


@command(approval="always", idempotent=True)
def pay(amount: int, to: str = "Ada") -> str:
    """Pay somebody."""
    return f"{amount} to {to}"


def played(*answers: Any, function: Any = pay) -> Played:
    flow = ControllerExecutorFlow(
        controller=ScriptedController([Command("pay", {"amount": 5}), Finish("done")]),
        commands=[function],
    )
    return play_through(flow, answers=answers)


def test_the_run_asks_before_the_command_and_names_it_exactly() -> None:
    asked = played("approve").rounds[1][1]
    assert isinstance(asked, Interrupt)
    assert asked.data == {
        "approval": {
            "command": "pay",
            "args": {"amount": 5, "to": "Ada"},
            "digest": digest_of("pay", {"amount": 5, "to": "Ada"}),
        }
    }
    assert "pay" in asked.reason


@pytest.mark.parametrize("answer", ["approve", True, {"approve": True}])
def test_approved_it_is_carried_out(answer: Any) -> None:
    assert played(answer).observations == ["5 to Ada"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [("refuse", "refused"), (False, "refused"), ({"refuse": "too much"}, "too much")],
)
def test_refused_it_is_not_and_the_controller_hears_why(answer: Any, words: str) -> None:
    [observation] = played(answer).observations
    assert words in observation["refused"]


def test_a_person_may_change_the_arguments_and_the_controller_is_told() -> None:
    [observation] = played({"edit": {"amount": 4, "to": "Bo"}}).observations
    assert observation == {
        "result": "4 to Bo",
        "edited": {"by": "a person", "args": {"amount": 4, "to": "Bo"}},
    }


@pytest.mark.parametrize(
    "answer",
    [
        "perhaps",
        7,
        None,
        {"edit": {"amount": "much"}},
        {"edit": {"nobody": 1}},
        {"edit": []},
        {"approve": "abc"},
        {"approve": True, "edit": {"amount": 4, "to": "Bo"}},
        {"approve": True, "refuse": "no"},
        {"approve": True, "refuse": True},
    ],
)
def test_an_answer_that_cannot_be_taken_is_asked_for_again_and_loses_nothing(answer: Any) -> None:
    run = played(answer, "approve")
    again = run.rounds[2][1]
    assert isinstance(again, Interrupt) and "the last answer was not valid" in again.reason
    assert run.observations == ["5 to Ada"]


def test_the_answer_to_another_question_approves_nothing() -> None:
    other = {
        "approval": {
            "command": "pay",
            "args": {"amount": 1},
            "digest": digest_of("pay", {"amount": 1}),
        }
    }
    for asked in (None, {"question": "?"}, other):
        context = RoundContext("g", answer="approve", answered=True, asked=asked)
        assert isinstance(spec_of(pay).carry_out({"amount": 5}, context), Interrupt), asked


def test_wrong_arguments_are_the_controllers_fault_and_nobody_is_asked() -> None:
    flow = ControllerExecutorFlow(
        controller=ScriptedController([Command("pay", {}), Finish("done")], reads_errors=True),
        commands=[pay],
    )
    assert play_through(flow).nodes == ["Controller", "Controller"]


def test_a_rule_on_the_arguments_decides() -> None:
    @command(approval=lambda args: args["amount"] > 3, idempotent=True)
    def pay(amount: int) -> int:
        return amount

    assert isinstance(spec_of(pay).carry_out({"amount": 4}, RoundContext("g")), Interrupt)
    assert spec_of(pay).carry_out({"amount": 3}, RoundContext("g")) == 3


def test_a_deadline_answers_by_default() -> None:
    @command(approval=Approval(deadline=60, default="approve"))
    def pay(amount: int) -> int:
        return amount

    asked = spec_of(pay).carry_out({"amount": 4}, RoundContext("g"))
    assert isinstance(asked, Interrupt)
    assert (asked.deadline, asked.default) == (60, "approve")
    assert approval_of("always") == Approval(default="refuse"), "silence is no approval"


RULES = [
    ({"when": {"path": ["*.py", "etc/*"]}}, {"path": "a.py"}, True),
    ({"when": {"path": ["*.py"]}}, {"path": "a.txt"}, False),
    ({"when": {"path": ["*.py"]}}, {}, False),
    ({"unless": {"path": ["notes/*"]}}, {"path": "notes/a"}, False),
    ({"unless": {"path": ["notes/*"]}}, {"path": "other"}, True),
    ({"unless": {"path": ["notes/*"]}}, {}, True),
    ({"unless": {"path": ["notes/*"], "n": ["1"]}}, {"path": "notes/a", "n": 2}, True),
    ({"unless": {"n": ["1", "2"]}}, {"n": 2}, False),
    ("always", {}, True),
    ("never", {}, False),
]


@pytest.mark.parametrize(("approval", "args", "needed"), RULES)
def test_rules_by_patterns(approval: Any, args: Mapping[str, Any], needed: bool) -> None:
    config = read_config(
        {"subflows_config": {"Executor": {"subflows_config": {"pay": {"approval": approval}}}}}
    )
    [chosen] = config.subflows_config.Executor.chosen.values()
    found = chosen.said["approval"]
    assert (found is not None and found.is_needed(args)) is needed


@pytest.mark.parametrize(
    "approval",
    [
        "perhaps",
        {"when": {"a": ["b"]}, "unless": {"a": ["b"]}},
        {"deadline": 0},
        {"default": "perhaps"},
        {"nothing": 1},
        7,
    ],
)
def test_a_rule_that_cannot_be_is_refused(approval: Any) -> None:
    with pytest.raises(InvalidFlow, match="approval"):
        read_config(
            {"subflows_config": {"Executor": {"subflows_config": {"pay": {"approval": approval}}}}}
        )
    if not isinstance(approval, dict):
        with pytest.raises(InvalidFlow, match="approval"):
            command(approval=approval)


def test_matching_reads_texts_as_they_are_and_all_else_as_json() -> None:
    assert matching({"a": ["true"]})({"a": True})
    assert matching({"a": ["[[]1]"]})({"a": [1]})
    assert not matching({"a": ["x"]})({"b": "x"})


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("yes", Approved()),
        ("no", ApprovalRefused()),
        ({"refuse": "so"}, ApprovalRefused("so")),
        ({"edit": {"a": 1}}, Approved({"a": 1})),
    ],
)
def test_answers_that_are_understood(answer: Any, read: Any) -> None:
    assert read_answer(answer) == read


def test_other_answers_are_refused_and_the_good_ones_named() -> None:
    with pytest.raises(InvalidInput, match='"approve", "refuse"'):
        read_answer({"edit": {"a": 1}, "refuse": "x"})


def test_the_digest_is_over_name_and_arguments_and_stays_the_same() -> None:
    # Written down with runs that wait: a version that computed another would ask everybody again.
    assert (
        digest_of("pay", {"amount": 5})
        == "6f6247bff2aecea532d0052aadecc510eeb22d9f47b5bf4aafb12db6f094a15c"
    )
    assert (
        len(
            {
                digest_of("pay", {"amount": 5}),
                digest_of("pay", {"amount": 6}),
                digest_of("play", {"amount": 5}),
            }
        )
        == 3
    )


def test_questions_and_refusals_say_what_they_are_about() -> None:
    asked = played("approve").rounds[1][1]
    assert isinstance(asked, Interrupt) and asked.reason == "approve the command pay?"
    assert played("no").observations == [{"refused": "a person refused this command"}]
    with pytest.raises(InvalidInput, match="the answer to an approval is 'perhaps'; expected"):
        read_answer("perhaps")
    assert read_answer({"refuse": True}) == ApprovalRefused()


@pytest.mark.parametrize("deadline", [0, -1.0, timedelta(0), "soon"])
def test_a_deadline_that_cannot_be_is_refused(deadline: Any) -> None:
    with pytest.raises(InvalidFlow, match="the approval's deadline"):
        approval_of(Approval(deadline=deadline))
    assert approval_of(Approval(deadline=timedelta(minutes=1))) == Approval(
        deadline=timedelta(minutes=1)
    )


def asked_in(spec: Any, args: Mapping[str, Any], **facts: Any) -> Any:
    """Carry out a command until it asks, and return the data of its question."""
    asked = spec.carry_out(args, RoundContext("g", **facts))
    assert isinstance(asked, Interrupt)
    return asked.data


@pytest.mark.parametrize(
    "args",
    [{"euros": 100}, {}, {"euros": "100"}, {"euros": 1e2}],
    ids=["as is", "omitted", "text", "float"],
)
def test_rule_and_person_see_the_arguments_that_the_command_gets(args: dict[str, Any]) -> None:
    seen: list[Any] = []

    @command(approval=lambda args: seen.append(dict(args)) or args["euros"] > 50)
    def pay(to: str = "Ada", euros: int = 100, tags: frozenset[str] = frozenset("ab")) -> str:
        raise AssertionError

    spec, full = spec_of(pay), {"to": "Ada", "euros": 100, "tags": ["a", "b"]}
    about = asked_in(spec, args)["approval"]
    assert seen == [full] and about["args"] == full and about["digest"] == digest_of("pay", full)
    with pytest.raises(BadReply):
        spec.carry_out({"euros": "much"}, RoundContext("g"))
    assert len(seen) == 1


def test_an_approval_of_an_earlier_release_counts_for_the_arguments_as_they_were_given() -> None:
    asked = {"approval": {"command": "pay", "digest": digest_of("pay", {"amount": "5"})}}
    context = RoundContext("g", answer="approve", answered=True, asked=asked)
    assert spec_of(pay).carry_out({"amount": "5"}, context) == "5 to Ada"


def test_a_secret_is_bound_to_its_value() -> None:
    @command(approval="always")
    def log_in(password: SecretStr) -> str:
        raise AssertionError

    one, other = (asked_in(spec_of(log_in), {"password": each}) for each in "ab")
    assert one["approval"]["digest"] != other["approval"]["digest"]


@pytest.mark.parametrize("policy", [None, "ask"])
def test_the_answer_about_a_command_is_not_the_answer_to_its_own_question(policy: Any) -> None:
    """Approved, edited, in doubt: the command asks, gets that answer, and nothing is asked twice."""

    @command(approval="always", in_doubt=policy)
    def pay(context: RoundContext, to: str) -> Any:
        assert context.asked is None and context.answered_by is None
        return f"{context.answer} to {to}" if context.answered else Interrupt("how much?")

    spec, journal = spec_of(pay), Journal()
    facts: dict[str, Any] = {
        "answer": {"edit": {"to": "Bo"}},
        "answered": True,
        "answered_by": "ann",
        "asked": asked_in(spec, {"to": "Ada"}),
    }
    question = spec.carry_out({"to": "Ada"}, RoundContext("g", journal=journal, **facts))
    assert question == Interrupt("how much?") and not journal.text
    if policy == "ask":  # It was cut off.
        journal.intend(RoundContext("g").key_of(Command("pay", {"to": "Ada"})) + ' {"to":"Bo"}')
        journal = Journal(journal.text, journal.recorded)
        doubt = asked_in(spec, {"to": "Ada"}, journal=journal)
        facts = {"answer": "retry", "answered": True, "asked": doubt, "attempt": 2}
        question = spec.carry_out({"to": "Ada"}, RoundContext("g", journal=journal, **facts))
        assert question == Interrupt("how much?") and not journal.text and journal.is_behind
    later = Journal(journal.text, journal.recorded)
    context = RoundContext("g", journal=later, answer=7, answered=True, attempt=3)
    assert spec.carry_out({"to": "Ada"}, context) == {
        "result": "7 to Bo",
        "edited": {"by": "ann", "args": {"to": "Bo"}},
    }


def test_a_command_that_asks_a_person_is_not_answered_by_its_approval() -> None:
    @command(approval="always", idempotent=True)
    def ask_user(context: RoundContext, question: str) -> Any:
        return ask(context, question)

    spec = spec_of(ask_user)
    about, journal = asked_in(spec, {"question": "Name?"}), Journal()
    approved = RoundContext("g", journal=journal, answer="approve", answered=True, asked=about)
    assert spec.carry_out({"question": "Name?"}, approved) == Interrupt("Name?")
    answered = RoundContext("g", journal=journal, answer="Bob", answered=True)
    assert spec.carry_out({"question": "Name?"}, answered) == "Bob"


def test_an_approval_counts_for_the_arguments_that_were_approved_and_no_others() -> None:
    about, journal = asked_in(spec_of(pay), {"amount": 5}), Journal()
    context = RoundContext("g", journal=journal, answer="yes", answered=True, asked=about)
    spec_of(pay).carry_out({"amount": 5}, context)
    later = RoundContext("g", journal=Journal("", journal.recorded))
    assert spec_of(pay).carry_out({"amount": "5", "to": "Ada"}, later) == "5 to Ada"
    assert isinstance(spec_of(pay).carry_out({"amount": 6}, later), Interrupt)


@pytest.mark.parametrize("policy", [None, "retry", "ask"])
def test_after_a_retry_of_the_run_a_person_is_asked_again(policy: Any) -> None:
    done: list[str] = []

    @command(approval="always", in_doubt=policy)
    def pay(to: str) -> str:
        done.append(to)
        raise ValueError("timed out")

    spec, journal = spec_of(pay), Journal()
    first = RoundContext("g", journal=journal, answer="yes", answered=True)
    with pytest.raises(ValueError, match="timed out"):
        spec.carry_out({"to": "Ada"}, altered(first, asked=asked_in(spec, {"to": "Ada"})))
    if policy is None:
        journal.withdraw(first.key_of(Command("pay", {"to": "Ada"})))
    journal = Journal(journal.text, journal.recorded)
    retried = altered(first, journal=journal, retried="1", asked=asked_in(spec, {"to": "Ada"}))
    if policy == "ask":
        doubt = spec.carry_out({"to": "Ada"}, retried)
        retried = altered(retried, answer="retry", asked=doubt.data)
    again = spec.carry_out({"to": "Ada"}, retried)
    assert isinstance(again, Interrupt) and again.data.keys() == {"approval", "after_retry"}
    assert done == ["Ada"]
    if policy == "ask":
        assert not journal.text and journal.is_behind
    journal = Journal(journal.text, journal.recorded)
    with pytest.raises(ValueError, match="timed out"):
        spec.carry_out(
            {"to": "Ada"}, altered(retried, journal=journal, answer="yes", asked=again.data)
        )
    assert done == ["Ada", "Ada"]


def test_silence_is_not_a_person() -> None:
    @command(approval=Approval(deadline=60, default={"edit": {"amount": 1}}))
    def pay(amount: int) -> int:
        return amount

    about = asked_in(spec_of(pay), {"amount": 4})
    facts = {"answered": True, "answered_by": "deadline", "asked": about}
    edited = RoundContext("g", answer={"edit": {"amount": 1}}, **facts)
    assert spec_of(pay).carry_out({"amount": 4}, edited)["edited"]["by"] == "deadline"
    refused = RoundContext("g", answer="refuse", **facts)
    assert spec_of(pay).carry_out({"amount": 4}, refused) == {
        "refused": "there was no answer in time",
        "by": "deadline",
    }
