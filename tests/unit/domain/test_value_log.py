"""The fold of a run's log is the run's knowledge before each step, or it says that this is not
recorded. It is never something else.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.flows.core.json_values import canonical
from perdure.worker.domain.event import Event
from perdure.worker.domain.record import VALUE, Record
from perdure.worker.domain.value_log import LEFT_OUT, changes_of, values_before

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = st.sampled_from(["page", "total", "is-done", "own", "_private"])
VALUES = st.one_of(st.integers(0, 2), st.text('ä"\\\n ', max_size=3), st.just("long" * 30))
#: A round's possible effects: change values (none, some; large ones), renew the run with the rest
#: of its values, or be one of an earlier release, which records nothing.
ROUNDS = st.lists(
    st.tuples(
        st.sampled_from(["plain", "plain", "plain", "renewed", "older"]),
        st.dictionaries(NAMES, VALUES, max_size=3),
    ),
    max_size=12,
)
OWN = ["own"]
MOST = 60


def user(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if not name.startswith("_") and name not in OWN
    }


def event(kind: str, step: int, data: dict[str, Any]) -> Event:
    return Event("1-0", kind, NOW, step, 1, "Node", data)


def data_of(told: str, changed: dict[str, Any]) -> dict[str, Any]:
    """Return the script's event data for the option ``record``, as the event is read."""
    digest, *words = told.split(" ") if told else [""]
    kept = {word: changed[word] for word in words if word[0] != "!"}
    left_out = " ".join(word[1:] for word in words if word[0] == "!")
    return {
        **({} if not told else {"values": kept}),
        **({} if digest in ("", "-") else {"before": digest}),
        **({LEFT_OUT: left_out} if left_out else {}),
    }


def played(
    rounds: list[tuple[str, dict[str, Any]]], first: dict[str, Any]
) -> tuple[list[Event], list[dict[str, Any]]]:
    """Return the events of such a run, and its values before each step and at last."""
    values, known = dict(first), []
    events = [event("submitted", 0, {"values": user(first)} if user(first) else {})]
    for step, (kind, changed) in enumerate(rounds):
        known.append(user(values))
        texts = {VALUE + name: canonical(value) for name, value in values.items()}
        written = {VALUE + name: canonical(value) for name, value in changed.items()}
        data: dict[str, Any] = {}
        if kind != "older":
            record = Record({"id": "r", **texts})
            told = changes_of(record, written, OWN, MOST, kind == "renewed")
            data = data_of(told, changed)
        events.append(event("committed", step, data))
        if kind == "renewed":
            events.append(event("renewed", step, {}))
            values = dict(changed)
        else:
            values |= changed
    known.append(user(values))
    return events, known


@settings(max_examples=300, deadline=None)
@example(rounds=[("older", {"total": 1}), ("older", {"total": 0})], first={"total": 0}, gone=0)
@given(rounds=ROUNDS, first=st.dictionaries(NAMES, VALUES, max_size=2), gone=st.integers(0, 4))
def test_the_fold_is_what_was_known_or_says_that_it_is_not_recorded(
    rounds: list[tuple[str, dict[str, Any]]], first: dict[str, Any], gone: int
) -> None:
    events, known = played(rounds, first)
    is_whole = all(
        kind != "older" and all(len(str(value)) < 20 for value in changed.values())
        for kind, changed in rounds
    )
    for step, truth in enumerate(known[:-1]):
        assert values_before(events, step, known[-1]) == truth or not is_whole
        found = values_before(events[gone:], step, known[-1])
        assert found is None or found == truth


def test_a_value_that_is_too_large_is_named_and_not_recorded_until_it_is_written_again() -> None:
    rounds = [
        ("plain", {"page": "long" * 30}),
        ("plain", {"total": 1}),
        ("plain", {"page": 1}),
        ("plain", {"total": 2}),
    ]
    events, known = played(rounds, {})
    assert events[1].data[LEFT_OUT] == "page"
    found = [values_before(events, step, known[-1]) for step in range(4)]
    assert found == [{}, None, None, {"page": 1, "total": 1}]
