"""Marks of a workflow's journal: the time, patches and topics, and the items of a map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest

from perdure import (
    Advance,
    Diverged,
    End,
    InvalidFlow,
    RoundContext,
    Steps,
    TopicTaken,
    Turn,
)
from perdure.flows.core.round_journal import Journal
from perdure.flows.rounds.waits import Mailbox
from perdure.flows.workflows.begun import Begun
from perdure.flows.workflows.scripts import PlainScript
from tests.support.flow_registry import own_registry
from tests.support.tried_workflows import context_after, play_round

#: The finished steps of a test.
DONE: list[str] = []


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    own_registry(monkeypatch)
    DONE.clear()


def did(what: str) -> str:
    DONE.append(what)
    return what


def play(function: Callable[..., Any], turns: Sequence[Turn] = (), **fields: Any) -> Any:
    """Play one round of a workflow with this function, in a process that has not seen it before."""
    return play_round(function, context_after(turns, **fields))


# The time


def receipt(context: RoundContext) -> str:
    return str(context.once("now", lambda: did("receipt")))


def with_the_time(steps: Steps) -> list[str]:
    return [steps.now().isoformat(), steps.step(receipt)]


def test_a_step_may_record_a_result_under_the_name_of_a_mark() -> None:
    time, result = play(with_the_time).answer
    assert result == "receipt" and DONE == ["receipt"]
    assert datetime.fromisoformat(time).tzinfo is not None


def test_an_attempt_gets_the_time_that_an_earlier_attempt_recorded() -> None:
    journal = Journal()
    first, again = (play(with_the_time, journal=journal, attempt=each).answer for each in (1, 2))
    assert first == again and DONE == ["receipt"]


def test_an_attempt_gets_the_time_that_an_older_release_recorded() -> None:
    def times(steps: Steps) -> list[str]:
        return [steps.now().isoformat(), steps.now().isoformat()]

    told = "2026-01-02T03:04:05.678901+00:00"
    first, second = play(times, journal=Journal("", {"now": f'"{told}"'}), attempt=2).answer
    assert first == told != second


def test_what_a_step_has_recorded_is_no_time() -> None:
    def times(steps: Steps) -> list[str]:
        return [steps.step(receipt), steps.now().isoformat()]

    journal = Journal()
    assert play(times, journal=journal, attempt=2).answer[1] != "receipt"


def test_the_times_of_a_round_are_not_limited_by_the_results_that_a_step_may_record() -> None:
    def times(steps: Steps) -> int:
        for _ in range(70):
            steps.now()
        return int(steps.step(record))

    def record(context: RoundContext) -> int:
        return sum(context.once(f"part-{number}", lambda: 1) for number in range(64))

    assert play(times).answer == 64


# Topics


class OneTopic(Mailbox):
    """A mailbox whose run is refused the topic while another run holds it."""

    is_free = False

    def listen(self, topic: str) -> None:
        did(topic)
        if not self.is_free:
            raise TopicTaken(f"run other holds {topic}", topic, "other")


def takes(steps: Steps) -> str:
    try:
        steps.listen("order:1")
    except TopicTaken as error:
        first = steps.step(did, f"{error.topic} of {error.run_id}", name="duplicate")
        return str(first) + str(steps.step(did, "b", name="end"))
    return str(steps.step(did, "a", name="process"))


def test_a_refused_topic_is_refused_whenever_the_function_is_run_again() -> None:
    mailbox = OneTopic(Journal())
    turns = list(play(takes, mailbox=mailbox).turns)
    mailbox.is_free = True
    outcome = play(takes, turns, mailbox=mailbox)
    assert isinstance(outcome, End) and outcome.answer == "order:1 of otherb"
    assert DONE == ["order:1", "order:1 of other", "b"], "the topic was asked for once"


def test_the_next_attempt_of_a_round_takes_the_way_of_a_refused_topic_too() -> None:
    mailbox, journal = OneTopic(Journal()), Journal()
    play(takes, mailbox=mailbox, journal=journal)  # Its worker is lost before the commit.
    mailbox.is_free = True
    play(takes, mailbox=mailbox, journal=journal, attempt=2)
    assert "a" not in DONE


@pytest.mark.parametrize("wraps", [True, False])
def test_a_retry_of_the_run_asks_for_a_refused_topic_again(wraps: bool) -> None:
    def order(steps: Steps) -> str:
        first = steps.step(did, "a")
        try:
            steps.listen("order:1")
        except TopicTaken as error:
            if wraps:
                raise RuntimeError("busy") from error
            raise
        return str(first)

    mailbox, journal = OneTopic(Journal()), Journal()
    outcome = play(order, mailbox=mailbox)
    assert isinstance(outcome, Advance)
    with pytest.raises(Exception, match=r"busy|run other holds order:1"):
        play(order, outcome.turns, mailbox=mailbox, journal=journal)
    mailbox.is_free = True
    again = play(order, outcome.turns, mailbox=mailbox, journal=journal, retried="1", attempt=2)
    assert isinstance(again, End) and again.answer == "a"


# Items of a map


def mapping(items: Any) -> Callable[[Steps], None]:
    def maps(steps: Steps) -> None:
        steps.map("leaf", items)
        steps.step(did, "b")
        steps.step(did, "c")

    return maps


def turns_of_a_map(items: Any, of: Callable[[str], str] = str) -> list[Turn]:
    """Return the journal of a run that has mapped these items.

    Args:
        of: changes the digest of the items in the journal.
    """
    mailbox = Mailbox(Journal())
    mailbox.gather = lambda children, *rest: _group(children)  # type: ignore[assignment, method-assign]
    turns = list(play(mapping(items), mailbox=mailbox).turns)
    observation = turns[0].observation
    turns[0] = Turn(turns[0].command, {**observation, "of": of(observation["of"])})
    return turns


def _group(children: Sequence[Any]) -> Any:
    from perdure.flows.rounds.children import Ended, Group

    ended = [
        Ended(place, "id", "leaf", "completed", child.goal) for place, child in enumerate(children)
    ]
    return Group(tuple(ended), len(children))


@pytest.mark.parametrize("items", [{"a", "b"}, frozenset("ab"), {"a": 1}.keys() & {"a"}])
def test_a_map_over_a_set_is_refused(items: Any) -> None:
    with pytest.raises(InvalidFlow, match=r"steps\.map.* sorted\("):
        play(mapping(items))


@pytest.mark.parametrize("about", ["null", '["children","2:ab"]'])
def test_a_map_over_a_set_that_other_code_has_begun_has_diverged(about: str) -> None:
    journal = Journal()
    journal.wait = ("children", about)
    with pytest.raises(Diverged) as raised:
        play(mapping({"a", "b"}), journal=journal)
    assert raised.value.is_of_other_code, "the run waits for that code, and does not end"


def test_a_map_takes_the_keys_of_a_dict() -> None:
    turns = turns_of_a_map({"b": 1, "a": 2}.keys())
    assert turns[0].observation["result"] == ["b", "a"]


def test_a_map_whose_items_are_in_another_order_has_diverged() -> None:
    turns = turns_of_a_map(["a", "b", {"c": 1}])
    for items in (["b", "a", {"c": 1}], [{"c": 1}, "b", "a"]):
        with pytest.raises(Diverged, match="order"):
            play(mapping(items), turns)
    for items in (["a", "b"], ["a", "b", {"c": 2}]):
        outcome = play(mapping(items), turns)
        assert isinstance(outcome, Advance), "other items keep the result"
        assert outcome.summary["arguments"] == ["children"]


def test_a_map_of_an_older_release_keeps_its_answers() -> None:
    turns = turns_of_a_map(["a", "b"], of=lambda digest: digest.partition(".")[0])
    same = play(mapping(["a", "b"]), turns)
    assert isinstance(same, Advance) and "arguments" not in same.summary
    other = play(mapping(["b", "a"]), turns)
    assert isinstance(other, Advance) and other.summary["arguments"] == ["children"]


def test_a_step_that_the_round_has_begun_is_ahead_of_the_function() -> None:
    script = object.__new__(PlainScript)
    script._left, script.known = {}, {}
    script.begun = {"pay.2": Begun("pay.2", "was carried out", "step", "digest")}
    assert script.place_ahead("step", "pay", "digest") == 0
    assert script.place_ahead("step", "pay", "other") is None
    assert script.place_ahead("ask", "pay", "digest") is None
