"""The crash laboratory finds every planted fault, and finds nothing in correct flows."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import redis

from perdure import (
    CircularFlow,
    Command,
    ControllerExecutorFlow,
    Finish,
    Flow,
    Interrupt,
    InvalidFlow,
    InvalidInput,
    Node,
    RoundContext,
    RunStatus,
    command,
)
from perdure.flows.commands.approval import Approval
from perdure.testing import CrashFound, Lab, LabError, NotDeterministic, Question, Story
from perdure.worker.store import scripts
from tests.support.example_flows import agents, child_runs
from tests.support.example_flows.planted_faults import (
    AnswersByChance,
    Approved,
    Asking,
    AsyncShop,
    Bank,
    Busy,
    ByAClock,
    Invoice,
    KeptOnClass,
    KeptOnController,
    KeptOnObject,
    Letters,
    Locking,
    Shop,
    Skipping,
    Swallower,
    Three,
    again_behind_the_wait,
    by_attempt,
    by_chance,
    naive,
    once,
    only_where_nothing_came,
)
from tests.support.example_flows.rings import Asker
from tests.support.example_flows.waits import Orders
from tests.support.leftover_keys import keys_under
from tests.support.redis_servers import CrashableServer


@pytest.fixture
def lab(server: CrashableServer) -> Iterator[Lab]:
    """A lab on the session's server, without remains."""
    with Lab(server.url) as made:
        yield made
    with redis.Redis.from_url(server.url) as client:
        assert keys_under(client, "lab-") == []


def charged_once(story: Story) -> bool:
    return story.world.charges == [12]


def found(lab: Lab, flow: Any, **options: Any) -> CrashFound:
    """Return the lab's finding; there must be one."""
    with pytest.raises(CrashFound) as caught:
        lab(flow, "buy a book", **options)
    return caught.value


# The faults that it must find.


def test_a_charge_without_a_key_is_found_and_told_line_by_line(lab: Lab) -> None:
    error = found(lab, naive, world=Bank, check=charged_once, only="crash")
    told = str(error)
    assert error.story.name == 'step 1: crash at point "charged"'
    assert error.others == ("step 1: crash after charge_card", "step 1: crash before the commit")
    order = [
        "3 of 16 stories of flow 'Shop' went wrong",
        "step 0  Controller  decides charge_card(amount=12)",
        "step 1  Executor    charge_card(amount=12) was called",
        'CRASH: worker 1 dies at point "charged"',
        "the lease lapsed; the sweep queued the round again",
        "attempt 2: charge_card(amount=12) was called, again, with the same key",
        "the run is completed",
        "What is wrong: the check returned False (test_crash_lab.py, line ",
        "The world afterwards: Bank(charges=[12, 12]",
        "never read context.idempotency_key",
        "To play this story alone: only='step 1: crash at point",
    ]
    places = [told.index(text) for text in order]
    assert places == sorted(places), told


@pytest.mark.parametrize("flow", [by_attempt, by_chance])
def test_a_key_made_anew_on_each_attempt_is_found(lab: Lab, flow: Any) -> None:
    error = found(lab, flow, world=Bank, check=charged_once, only="crash after charge_card")
    assert error.story.world.charges == [12, 12]
    assert ("It did read context.idempotency_key" in str(error)) == (flow is by_attempt)


@pytest.mark.parametrize(
    ("flow", "kept"),
    [
        (KeptOnClass, "KeptOnClass.words"),
        (KeptOnObject(), "KeptOnObject.words"),
        (KeptOnController, "Counting.turns"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_state_that_a_flow_keeps_in_its_process_is_found_and_named(
    lab: Lab, flow: Any, kept: str
) -> None:
    error = found(lab, flow, only="step 2: crash after loading")
    assert f"another process plays on; it does not have {kept} = " in str(error)
    assert f"{kept} exists only in the process" in str(error)
    assert found(lab, flow, only="each round on another worker").story.run.error is None
    lab(Three, only="each round on another worker")  # the same without


def test_a_command_that_ignores_a_stop_is_found_where_that_is_asked_for(lab: Lab) -> None:
    error = found(
        lab,
        lambda bank: Letters(bank, heeds=False),
        world=Bank,
        heeds_stop=True,
        only='stop now at point "a"',
    )
    assert error.story.went_on == ["b", "c"]
    assert "raise_if_stopped" in str(error)
    lab(lambda bank: Letters(bank, heeds=False), world=Bank, only="stop now at point")
    lab(lambda bank: Letters(bank, heeds=True), world=Bank, heeds_stop=True, only="step 1: stop")


def test_what_only_a_graceful_stop_brings_to_light_is_found(lab: Lab) -> None:
    error = found(lab, Skipping, world=Bank, check=charged_once, only="step 1:")
    assert all(": stop " in name for name in (error.story.name, *error.others))
    assert "the run's answer is 'skipped', but undisturbed it is 'paid'" in str(error)


def test_what_only_a_worker_that_wakes_too_late_brings_to_light_is_found(lab: Lab) -> None:
    error = found(
        lab, Locking, world=Bank, check=lambda story: not story.world.locked, only="step 1:"
    )
    assert (error.story.name, error.others) == ("step 1: overtaken after loading", ())
    told = str(error)
    assert (
        told.index("FROZEN: worker 1")
        < told.index("worker 1 wakes")
        < told.index("its commit was refused")
    )


def test_a_death_that_the_flow_catches_is_a_death_all_the_same(lab: Lab) -> None:
    lab(Swallower, world=Bank, check=charged_once, only="crash")
    error = found(
        lab,
        lambda bank: Swallower(bank, lambda context: None),
        world=Bank,
        check=charged_once,
        only="crash at point",
    )
    assert "something caught the death of the process" in str(error)


def test_an_engine_that_fences_nobody_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    real = scripts.source
    fence = re.compile(
        r"if run.phase ~= 'leased' or run.token ~= arg.token .* then return \{ 'fenced' \} end\nif arg.claim .* end"
    )
    assert fence.search(real("commit_round"))
    monkeypatch.setattr(scripts, "source", lambda name: fence.sub("", real(name)))
    assert "This is a bug in Perdure" in str(
        found(lab, Three, only="step 4: overtaken after deciding")
    )


# Its errors when it cannot play.


def test_a_flow_that_goes_another_way_each_time_is_told_so(lab: Lab) -> None:
    with pytest.raises(
        NotDeterministic, match="went another way when its run was repeated without a fault"
    ):
        lab(ByAClock)
    with pytest.raises(NotDeterministic, match="pass same_answer=False"):
        lab(AnswersByChance)
    assert lab(AnswersByChance, same_answer=False, only="crash after loading").stories == 7


def test_a_story_that_goes_another_way_before_its_fault_is_told_so(lab: Lab) -> None:
    def shorter_in_the_end(turns: list[int]) -> Flow:
        return TakesTurns(2 if len(turns) < 3 else 1)

    plays: list[int] = []

    def world() -> list[int]:
        plays.append(1)
        return plays

    told = r"it came to step 2, after Controller ended the run; the first time it was step 2, after deciding say"
    with pytest.raises(NotDeterministic, match=told):
        lab(
            shorter_in_the_end,
            world=world,
            same_answer=False,
            only="step 2: crash before the commit",
        )


class TakesTurns(Three):
    def __init__(self, turns: int) -> None:
        self.turns = turns
        super().__init__()

    def decide(self, context: RoundContext) -> Command | Finish:
        return Finish() if len(context.history) == self.turns else Command("say", {"word": "x"})


def test_a_world_that_is_not_made_anew_is_told(lab: Lab) -> None:
    bank = Bank()
    with pytest.raises(
        CrashFound, match=r"undisturbed, again'(.|\n)*and nothing was done to the run"
    ):
        lab(lambda: Shop(bank, lambda context: None), check=lambda story: bank.charges == [12])


def test_a_question_that_nobody_answers_is_told(lab: Lab) -> None:
    with pytest.raises(
        LabError,
        match=r"node Executor asks at step 1: 'may I\?', and there is no answer. Pass answers=",
    ):
        lab(Approved, world=Bank)


def test_a_run_that_does_not_end_as_it_should_is_told_before_anything_is_done_to_it(
    lab: Lab,
) -> None:
    with pytest.raises(LabError, match=r"ends errored, not completed \(run .*the bank is closed\)"):
        lab(closed, world=Bank)
    lab(closed, world=Bank, ends="errored", only="crash after loading")
    with pytest.raises(
        LabError,
        match="no story's name contains 'crush'; the stories are each round on another worker; ",
    ):
        lab(Three, only="crush")


def closed(bank: Bank) -> Flow:
    from perdure import FatalError

    def key(context: Any) -> str:
        raise FatalError("the bank is closed")

    return Shop(bank, key)


def test_what_is_no_flow_or_no_input_is_refused(lab: Lab) -> None:
    for nonsense in (Bank, lambda: 3, 7):
        with pytest.raises(InvalidFlow, match="crash_lab"):
            lab(nonsense)
    with pytest.raises(InvalidInput, match="has no input named"):
        lab("countdown", inputs={"laps": 1})


# Flows without a fault.


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_sound_flow_passes_every_story_and_the_report_counts_them(lab: Lab) -> None:
    report = lab(Shop, "buy a book", world=Bank, check=charged_once)
    assert re.fullmatch(
        r"crash lab: flow 'Shop', 'buy a book': nothing found\n"
        r"  3 rounds with 16 boundaries; 55 stories in \d+\.\d s "
        r"\(1 moved, 16 crash, 6 delivered twice, 13 stop, 13 stop now, 6 overtaken\)",
        str(report),
    )
    assert (
        report.undisturbed.answer == "paid"
        and report.undisturbed.calls_of("charge_card")[0].key_read
    )


def test_coroutines_play_from_a_test_with_a_loop_of_its_own(lab: Lab) -> None:
    async def in_a_loop() -> int:
        return lab(AsyncShop, world=Bank, check=charged_once, only="step 1: crash").stories

    assert asyncio.run(in_a_loop()) == 6
    naive_too = found(
        lab,
        lambda bank: AsyncShop(bank, lambda context: None),
        world=Bank,
        check=charged_once,
        only="crash at point",
    )
    assert naive_too.story.world.charges == [12, 12]


def test_a_round_that_is_tried_again_has_boundaries_at_each_attempt(lab: Lab) -> None:
    report = lab(Busy, world=Bank, check=charged_once, only="crash after")
    assert {"step 1: crash after loading", "step 1, attempt 2: crash after charge_card"} <= {
        str(fault) for fault in report.faults
    }


def test_a_person_is_asked_and_answers_in_every_story(lab: Lab) -> None:
    asked: list[Question] = []

    def answer(question: Question) -> str:
        asked.append(question)
        return "yes" if question.data in ({"amount": 12}, None) else "no"

    report = lab(
        Approved,
        world=Bank,
        check=charged_once,
        answers=answer,
        interrupt_after=["Controller"],
        only="stop now while",
    )
    assert report.undisturbed.answer == "paid" and {question.reason for question in asked} == {
        "may I?",
        "interrupt_after: Controller",
    }
    assert "step 1: stop now while a person is asked" in {str(fault) for fault in report.faults}


def test_a_question_that_nobody_answers_in_time_is_answered_by_its_deadline(lab: Lab) -> None:
    report = lab(
        Asker, inputs={"deadline": 86_400, "default": "later"}, only="while a person is asked"
    )
    assert report.undisturbed.answer["said"] == "later" and report.stories == 2


def test_a_worker_that_others_stood_in_for_still_has_what_it_kept(lab: Lab) -> None:
    lab(KeptOnClass, only="step 4: delivered twice after loading")


def test_a_world_is_left_after_each_story(lab: Lab) -> None:
    from contextlib import contextmanager

    open_worlds: list[int] = []

    @contextmanager
    def world() -> Iterator[Bank]:
        open_worlds.append(1)
        yield Bank()
        open_worlds.pop()

    stories = lab(
        Shop,
        world=world,
        check=lambda story: charged_once(story) and len(open_worlds) == 1,
        only="crash after",
    ).stories
    assert stories == 9 and open_worlds == []


def test_a_limit_spreads_the_stories_and_says_what_it_left_out(lab: Lab) -> None:
    report = lab("countdown", limit=5)
    assert report.stories == 5 and len({fault.kind for fault in report.faults}) > 2
    assert str(report).endswith("115 more were left out")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("flow", "options"),
    [
        ("countdown", {}),
        ("question", {"answers": "forty-two"}),
        (
            Approved,
            {
                "world": Bank,
                "check": charged_once,
                "answers": "yes",
                "interrupt_after": ["Controller"],
            },
        ),
        (AsyncShop, {"world": Bank, "check": charged_once}),
        (Busy, {"world": Bank, "check": charged_once}),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_sound_flows_pass_every_story(lab: Lab, flow: Any, options: dict[str, Any]) -> None:
    report = lab(flow, "go", **options)
    assert report.left_out == 0 and report.undisturbed.status is RunStatus.COMPLETED
    print(report)


def test_an_attempt_that_only_asks_what_has_happened_is_no_fault(lab: Lab) -> None:
    with pytest.raises(LabError, match="@command\\(in_doubt="):
        lab(Asking, "g", world=Bank)
    lab(Asking, "g", world=Bank, check=charged_once, answers="retry")


def invoice(charge: Any) -> Any:
    return lambda bank: Invoice(bank, charge)


def test_waits_are_played_and_struck_without_waiting(lab: Lab) -> None:
    report = lab(
        invoice(once), "g", world=Bank, check=charged_once, signals={"paid": [{"amount": 12}]}
    )
    assert report.undisturbed.answer == ["paid", {"amount": 12}]
    assert [each.place for each in report.boundaries].count("parked") == 2
    kinds = {fault.kind for fault in report.faults}
    assert {"signals early", "signals twice", "stop", "stop now", "overtaken"} <= kinds
    assert {fault.kind for fault in report.faults if fault.boundary and fault.boundary.place == "parked"} == {
        "stop", "stop now"
    }  # fmt: skip


def test_a_wait_whose_time_passes_needs_no_signal(lab: Lab) -> None:
    report = lab(invoice(once), "g", world=Bank, check=charged_once)
    assert report.undisturbed.answer == ["paid", None]


def test_an_effect_before_a_wait_that_is_not_in_once_is_found(lab: Lab) -> None:
    with pytest.raises(CrashFound, match=r"(?s)nothing was done to the run.*context\.once"):
        lab(
            invoice(again_behind_the_wait),
            "g",
            world=Bank,
            check=charged_once,
            signals={"paid": [1]},
        )


def test_a_path_that_depends_on_an_empty_mailbox_is_found(lab: Lab) -> None:
    signals = {"paid": [1], "cancelled": [2]}
    with pytest.raises(CrashFound, match="each signal before its wait"):
        lab(invoice(only_where_nothing_came), "g", world=Bank, signals=signals)


def test_a_signal_that_nothing_sends_is_asked_for_by_name(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"signals=\{'confirmed': \[payload"):
        lab(Orders, "g", inputs={"command": "gentle"}, signals={"other": [1]})


@pytest.mark.parametrize("signals", [{"paid": "now"}, {"paid": 12}, {"no name": [1]}])
def test_signals_of_a_wrong_form_are_refused(lab: Lab, signals: Any) -> None:
    with pytest.raises(LabError, match="lists of payloads"):
        lab("countdown", signals=signals)


def test_children_are_played_and_their_parent_is_struck(lab: Lab) -> None:
    inputs = {"children": [{}, {"fail": True}], "options": {"wait": "settled"}}
    report = lab(child_runs.Fan, "g", inputs=inputs)
    assert report.undisturbed.answer == [[[0, "completed", "item 0"], [1, "errored", None]], []]
    assert "parked" in {boundary.place for boundary in report.boundaries}


def test_a_command_that_is_a_flow_is_struck_while_it_waits(lab: Lab) -> None:
    replies = [["research", {"goal": "x"}]]
    report = lab(agents.Chief, "g", inputs={"replies": replies}, limit=25)
    assert report.undisturbed.answer == ["x, 1 deep"]
    assert "parked" in {boundary.place for boundary in report.boundaries}


def test_calls_at_once_are_played_and_their_run_is_struck(lab: Lab) -> None:
    agents.DONE.clear()
    replies = [[["look", {"what": "a"}], ["buy", {"what": "b"}], ["give_up", {"why": "late"}]]]
    report = lab(agents.Swarm, "g", inputs={"replies": replies}, limit=25)
    assert report.undisturbed.answer == "late"
    assert Counter(agents.DONE) == dict.fromkeys("ab", report.stories + 2), "once in each story"


def test_a_child_that_waits_is_an_error_that_names_it(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"the child run \w+ \(flow chore\) waits"):
        lab(child_runs.Errand, "g", inputs={"child": {"ask": True}})


class Listens(ControllerExecutorFlow):
    """Notes once, answers questions, and finishes with all messages."""

    def decide(self, context: RoundContext) -> Any:
        if context.questions:
            return Command("reply", {"answer": len(context.history)})
        return Finish(context.said) if len(context.history) else Command("note")

    @command(idempotent=True)
    def note(self) -> str:
        """Note it."""
        return "noted"


def test_what_is_said_in_the_moment_of_the_end_is_heard_in_every_story(lab: Lab) -> None:
    def heard(story: Story) -> None:
        assert sorted(story.run.answer) == ["look", "wait"]
        assert "unread" not in [event.type for event in story.events]

    report = lab(
        Listens,
        "g",
        signals={"say": ["look", "wait"], "ask": ["status?"]},
        check=heard,
        same_answer=False,
        limit=60,
    )
    assert report.undisturbed.run.answer == ["look", "wait"]
    told = [str(each) for each in report.undisturbed.trace.lines]
    assert any("has not heard say 1" in each for each in told)


class AskedByARule(CircularFlow):
    """Pays if a person does not refuse. A person is asked by a rule, and `looks_again` forgets the answer if the rule does not ask."""

    needs_goal = False
    topology = (Node("Pay", "pay"),)
    looks_again = False

    def __init__(self, bank: Bank) -> None:
        super().__init__()
        self.bank = bank

    def pay(self, state: Any, context: RoundContext) -> Any:
        is_needed = Approval(lambda args: True).is_needed({})
        if is_needed and not context.answered:
            return Interrupt("may I?")
        if (self.looks_again and not is_needed) or context.answer == "yes":
            context.once("pay", partial(self.bank.charge, 12, context.idempotency_key))
        return {"EARLY_EXIT": True, "answer": "done"}


class LooksAgain(AskedByARule):
    looks_again = True


def not_charged(story: Story) -> bool:
    return story.world.charges == []


def test_a_refusal_that_falls_through_when_the_rule_has_changed_is_found(lab: Lab) -> None:
    name = "each rule of an approval changed once a person has answered"
    for only in (name, None):
        lab(AskedByARule, world=Bank, check=not_charged, answers="no", only=only)
    error = found(lab, LooksAgain, world=Bank, check=not_charged, answers="no")
    assert error.story.name == name
