"""The mailbox of a node's test: the signals that it takes, and how a wait ends in it."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import (
    Child,
    Ended,
    InvalidChild,
    InvalidFlow,
    Mailbox,
    Parked,
    RoundContext,
    UnstorableValue,
)


def test_a_wait_ends_by_its_time_and_the_next_by_a_signal() -> None:
    mailbox = Mailbox()
    mailbox.let_time_pass("1")
    mailbox.send("paid", {"amount": 12}, by="ann")
    context = RoundContext(goal="g", mailbox=mailbox)
    assert context.wait_for("paid", timeout="1d") is None
    signal = context.wait_for("paid", timeout="1d")
    assert signal is not None and (signal.number, signal.payload, signal.by) == (
        1,
        {"amount": 12},
        "ann",
    )


def test_a_named_wait_ends_by_its_name() -> None:
    mailbox = Mailbox()
    with pytest.raises(Parked, match="under the name 'cool_down'"):
        RoundContext(goal="g", mailbox=Mailbox()).sleep("1h", name="cool_down")
    mailbox.let_time_pass("cool_down")
    RoundContext(goal="g", mailbox=mailbox).sleep("1h", name="cool_down")
    assert mailbox.parked is None


@pytest.mark.parametrize(
    ("waits", "text"),
    [
        (lambda context: context.wait_for("paid", "cancelled"), "for the signal paid or cancelled"),
        (lambda context: context.sleep(5), "for a time"),
    ],
)
def test_a_park_says_for_what(waits: Any, text: str) -> None:
    with pytest.raises(Parked, match=text):
        waits(RoundContext(goal="g", mailbox=Mailbox()))


def test_a_wait_needs_the_signals_that_its_step_has_used_and_one_more() -> None:
    mailbox = Mailbox()
    mailbox.used = {"paid": 4}  # taken by earlier steps
    for _ in range(6):
        mailbox.send("paid")
    context = RoundContext(goal="g", mailbox=mailbox)
    for _ in range(2):
        context.wait_for("paid")
    with pytest.raises(Parked) as parked:
        context.wait_for("paid", "cancelled")
    assert parked.value.wait.signals == {"paid": 3, "cancelled": 1}


def test_it_takes_what_a_run_takes() -> None:
    with pytest.raises(InvalidFlow):
        Mailbox().send("is paid")
    with pytest.raises(UnstorableValue):
        Mailbox().send("paid", object())


def test_a_node_starts_children_and_a_later_one_joins_them() -> None:
    with pytest.raises(Parked, match="starts 2 child runs"):
        RoundContext(goal="g", mailbox=Mailbox()).start([Child("a"), Child("b")], name="scouts")
    mailbox = Mailbox()
    mailbox.let_children_end(wait="scouts", total=2)
    context = RoundContext(goal="g", mailbox=mailbox)
    group = context.start([Child("a"), Child("b")], name="scouts")
    with pytest.raises(Parked, match="for 2 child runs"):
        context.join(group)
    mailbox = Mailbox()
    mailbox.let_children_end(
        Ended(0, "id-a", "a", "completed", answer=1, order=2),
        Ended(1, "id-b", "b", "completed", answer=2, order=1),
        wait=group,
    )
    assert RoundContext(goal="g", mailbox=mailbox).join(group).answers == [1, 2]
    assert mailbox.joined == (group,)


def test_a_join_whose_time_is_over_leaves_its_group_to_be_joined_again() -> None:
    mailbox = Mailbox()
    mailbox.let_children_end(Ended(0, "id-a", "a", "completed", order=1), wait="scouts", total=2)
    mailbox.let_time_pass("1")
    context = RoundContext(goal="g", mailbox=mailbox)
    assert context.join("scouts", wait="settled", timeout="1h").missing == [1]
    assert mailbox.joined == ()


@pytest.mark.parametrize(
    ("does", "text"),
    [
        (lambda context: context.join("scouts"), r"join\('scouts'\): expected what context.start"),
        (lambda context: context.start([]), r"start\(\[\]\): expected at least one child"),
        (
            lambda context: context.start([Child("a")], on_failure="wait"),
            "on_failure='wait'; expected tell or hold",
        ),
    ],
)
def test_a_start_or_a_join_that_makes_no_sense_is_refused(does: Any, text: str) -> None:
    with pytest.raises(InvalidChild, match=text):
        does(RoundContext(goal="g", mailbox=Mailbox()))
