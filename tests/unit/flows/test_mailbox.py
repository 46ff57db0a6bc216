"""The mailbox of a node's test: what it takes, and how a wait ends in it."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import InvalidFlow, Mailbox, Parked, RoundContext, UnstorableValue


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
    mailbox.let_time_pass("cool_down")
    RoundContext(goal="g", mailbox=mailbox).sleep("1h", name="cool_down")


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


def test_it_takes_what_a_run_takes() -> None:
    with pytest.raises(InvalidFlow):
        Mailbox().send("is paid")
    with pytest.raises(UnstorableValue):
        Mailbox().send("paid", {1, 2})
