"""The history of a run whose oldest turns are gone: the remaining turns keep their numbers, and the
rest says so.
"""

from __future__ import annotations

import pytest

from perdure import (
    CircularFlow,
    Forgotten,
    History,
    InvalidFlow,
    Node,
    RoundContext,
    Turn,
)
from perdure.flows.core.errors import PerdureError
from perdure.flows.core.history import AT_ONCE

LENGTH = 3 * AT_ONCE
TURNS = [Turn(None, number) for number in range(LENGTH)]


def history(gone: int, reads: list[tuple[int, int]] | None = None) -> History:
    def load(start: int, stop: int) -> list[Turn]:
        if reads is not None:
            reads.append((start, stop))
        assert start >= gone, "a turn that is gone is read"
        return TURNS[start:stop]

    newest = TURNS[max(gone, LENGTH - 5) :]
    return History(LENGTH, newest, load, gone)


@pytest.mark.parametrize("gone", [0, 1, AT_ONCE - 1, AT_ONCE, LENGTH - 1, LENGTH])
def test_an_iteration_and_a_slice_have_what_is_left(gone: int) -> None:
    found = history(gone)
    assert len(found) == LENGTH and list(found) == TURNS[gone:] and found.forgotten == gone
    for part in (slice(None), slice(0, 2), slice(-3, None), slice(None, None, -1), slice(5, 250)):
        numbers = [number for number in range(LENGTH)[part] if number >= gone]
        assert [turn.observation for turn in history(gone)[part]] == numbers


@pytest.mark.parametrize("gone", [1, AT_ONCE, AT_ONCE + 50])
def test_a_turn_has_the_number_that_it_always_had(gone: int) -> None:
    for number in (gone, gone + 1, LENGTH - 1):
        assert history(gone)[number] == TURNS[number] == history(gone)[number - LENGTH]
    for number in (0, gone - 1, gone - 1 - LENGTH):
        with pytest.raises(Forgotten, match=rf"turns {gone} to {LENGTH - 1} are there") as caught:
            history(gone)[number]
        assert isinstance(caught.value, IndexError) and isinstance(caught.value, PerdureError)
    with pytest.raises(IndexError, match=f"turn {LENGTH} does not exist"):
        history(gone)[LENGTH]


def test_a_history_of_which_nothing_is_left_says_so() -> None:
    found = history(LENGTH)
    with pytest.raises(Forgotten, match="no turn is left"):
        found[-1]
    assert RoundContext("g", history=found).observation is None
    assert RoundContext("g", history=history(LENGTH - 1)).observation == LENGTH - 1


def test_older_turns_are_read_in_one_request_from_the_first_that_is_there() -> None:
    reads: list[tuple[int, int]] = []
    assert history(AT_ONCE + 50, reads)[AT_ONCE + 60] == TURNS[AT_ONCE + 60]
    assert reads == [(AT_ONCE + 50, 2 * AT_ONCE + 50)]


@pytest.mark.parametrize("setting", ["keep_turns", "keep_events"])
@pytest.mark.parametrize("value", [0, -1, True, "500", 1.5])
def test_a_bound_that_is_no_count_is_refused_by_name(setting: str, value: object) -> None:
    node = Node("One", lambda state, context: {})
    with pytest.raises(InvalidFlow, match=f"{setting} is {value!r}; expected a whole number"):
        CircularFlow(topology=[node], **{setting: value})
    assert getattr(CircularFlow(topology=[node], **{setting: 5}), setting) == 5
