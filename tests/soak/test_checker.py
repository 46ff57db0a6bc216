"""The checker finds each anomaly that is planted in a good history, names its law, and needs few
records to show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.soak.checker import check
from tests.soak.history import Call, Child, Effect, End, Event, Family, Fault, History, Read
from tests.soak.laws import LAWS

ROUNDS = 3


def commit(run: str, step: int, at: float = 0.0) -> Event:
    return Event(run, "committed", at, step, 1)


def good() -> History:
    """Return three runs and a family: one goes through, one is stopped and resumed, one is stopped
    for good; a worker is killed on the way.

    The parent ``p`` of ``x`` and ``y`` was stopped and resumed, and ``y`` with it; its signal was
    sent twice.
    """
    a = [
        Event("a", "submitted", 0, 0, 0),
        *(commit("a", step) for step in range(ROUNDS)),
        Event("a", "completed", 9, ROUNDS, 0),
    ]
    b = [Event("b", "submitted", 0, 0, 0), Event("b", "stop_requested", 1, 0, 1), commit("b", 0), Event("b", "stopped", 2, 1, 0),
         Event("b", "resumed", 3, 1, 0), commit("b", 1), commit("b", 2), Event("b", "completed", 9, ROUNDS, 0)]  # fmt: skip
    c = [Event("c", "submitted", 0, 0, 0), commit("c", 0), Event("c", "stopped", 2, 1, 0)]
    p = [Event("p", "submitted", 0, 0, 0), Event("p", "signalled", 0, 0, 0), Event("p", "started", 1, 0, 1, {"from": "0", "to": "2"}),
         Event("p", "stopped", 2, 0, 0), Event("p", "resumed", 3, 0, 0), commit("p", 0), Event("p", "completed", 9, 1, 0)]  # fmt: skip
    x = [Event("x", "submitted", 1, 0, 0), commit("x", 0), Event("x", "completed", 2, 1, 0)]
    y = [Event("y", "submitted", 1, 0, 0), Event("y", "stopped", 2, 0, 0), Event("y", "resumed", 3, 0, 0), commit("y", 0),
         Event("y", "completed", 4, 1, 0)]  # fmt: skip
    played = [(run, step) for run in "ab" for step in range(ROUNDS)]
    played += [(run, 0) for run in "cpxy"]
    effects = [
        Effect(run, step, 1, f"{run}:{step}", what, float(step), 7)
        for run, step in played
        for what in ("tried", "applied")
    ]
    return History(
        calls=[
            *(Call("submit", run, 0, 0.1, "acknowledged", key=f"key-{run}") for run in "abc"),
            Call("stop", "b", 1, 1.1, "acknowledged", {"status": "stop_requested", "step": 0}),
            Call("resume", "b", 3, 3.1, "acknowledged"),
            Call("stop_now", "c", 2, 2.1, "acknowledged", {"status": "stopped", "step": 1}),
            Call("submit", "p", 0, 0.1, "acknowledged", key="key-p"),
            Call("signal", "p", 0, 0.1, "acknowledged", {"number": 1}, "key-p"),
            Call("stop_now", "p", 2, 2.1, "acknowledged", {"status": "stopped", "step": 0}),
            Call("resume", "p", 3, 3.1, "acknowledged"),
            Call("signal", "p", 5, 5.1, "acknowledged", {"number": 1}, "key-p"),
        ],
        reads=[Read("r1", "a", 1, "running", 0, 1), Read("r1", "a", 2, "running", 0, 2)],
        events=[*a, *b, *c, *p, *x, *y],
        effects=effects,
        faults=[Fault("kill", 1, True)],
        ends=[
            End("a", "completed", 0, ROUNDS, (0, 1, 2)),
            End("b", "completed", 1, ROUNDS, (0, 1, 2)),
            End("c", "stopped", 0, 1, None),
            *(End(run, "completed", 0, 1, (0,), rounds=1) for run in "pxy"),
        ],
        asked_faults=frozenset({"kill"}),
        rounds=ROUNDS,
        children=[Child("x", "p", "0.0", 0), Child("y", "p", "0.0", 1)],
        families=[Family("p", 2, [{"place": 0, "seen": [0]}, {"place": 1, "seen": [0]}], "key-p")],
        left={"live": 0},
    )  # fmt: skip


def with_events(
    history: History, run: str, change: Callable[[list[Event]], list[Event]]
) -> History:
    others = [event for event in history.events if event.run != run]
    return replace(
        history, events=[*others, *change([event for event in history.events if event.run == run])]
    )


def with_end(history: History, run: str, **changes: object) -> History:
    return replace(
        history, ends=[replace(end, **changes) if end.run == run else end for end in history.ends]
    )  # type: ignore[arg-type]


def with_family(history: History, **changes: object) -> History:
    return replace(history, families=[replace(history.families[0], **changes)])  # type: ignore[arg-type]


ANSWERS = ({"place": 0, "seen": [0]}, {"place": 1, "seen": [0]})

#: The planted fault -> the beginning of the law that it breaks.
PLANTED: dict[str, tuple[Callable[[History], History], str]] = {
    "a run that is gone": (lambda h: replace(h, ends=h.ends[1:], events=[e for e in h.events if e.run != "a"]), "an acknowledged submit"),
    "a second run of a key": (
        lambda h: replace(h, calls=[*h.calls, Call("submit", "b", 5, 5.1, "acknowledged", key="key-a")]), "one idempotency key",
    ),
    "submitted twice": (lambda h: with_events(h, "a", lambda events: [events[0], *events]), "a run is submitted once"),
    "a round committed twice": (lambda h: with_events(h, "a", lambda events: [*events[:2], events[1], *events[2:]]), "the commit log"),
    "a round left out": (lambda h: with_events(h, "a", lambda events: [*events[:2], *events[3:]]), "the commit log"),
    "rounds in another order": (lambda h: with_events(h, "a", lambda e: [e[0], e[2], e[1], *e[3:]]), "the commit log"),
    "a log longer than the state": (lambda h: with_end(h, "c", step=0), "the state is the log"),
    "an answer of other steps": (lambda h: with_end(h, "a", answer=(0, 1, 1)), "the state is the log"),
    "an end before the last round": (
        lambda h: with_end(with_events(h, "a", lambda e: [*e[:3], e[4]]), "a", step=2, answer=(0, 1)), "the state is the log",
    ),
    "a commit after the end": (lambda h: with_end(with_events(h, "a", lambda e: [*e, commit("a", 3)]), "a", step=4), "one end an epoch"),
    "two ends": (lambda h: with_events(h, "a", lambda events: [*events, events[-1]]), "one end an epoch"),
    "a commit after the stop": (lambda h: with_end(with_events(h, "c", lambda e: [*e, commit("c", 1)]), "c", step=2), "one end an epoch"),
    "two commits after a graceful stop": (
        lambda h: with_events(h, "b", lambda e: [*e[:3], commit("b", 1), e[3], e[4], *e[6:]]), "after a graceful stop",
    ),
    "a stop that was not kept": (
        lambda h: with_events(h, "c", lambda events: [event for event in events if event.type != "stopped"]), "stop against finish",
    ),
    "a resume that nobody asked for": (
        lambda h: replace(h, calls=[call for call in h.calls if (call.name, call.run) != ("resume", "b")]), "nothing is resumed",
    ),
    "a resume done twice": (lambda h: with_events(h, "b", lambda e: [*e[:5], e[4], *e[5:]]), "nothing is resumed"),
    "two workers in one attempt": (lambda h: replace(h, effects=[*h.effects, replace(h.effects[0], pid=8)]), "no attempt is played twice"),
    "another key at the second attempt": (
        lambda h: replace(h, effects=[*h.effects, replace(h.effects[0], attempt=2, key="other")]), "a step has one key",
    ),
    "an effect applied twice": (
        lambda h: replace(h, effects=[*h.effects, replace(h.effects[1], attempt=2)]), "a step has one key",
    ),
    "a commit without its effect": (
        lambda h: replace(h, effects=[e for e in h.effects if not (e.run == "a" and e.step == 1)]), "every committed step",
    ),
    "a round played ahead of the log": (
        lambda h: replace(h, effects=[*h.effects, Effect("c", 2, 1, "c:2", "tried", 3, 7)]), "every committed step",
    ),
    "a read that goes back": (lambda h: replace(h, reads=[*h.reads, Read("r1", "a", 3, "running", 0, 1)]), "a client never reads"),
    "a run that hangs": (lambda h: with_end(h, "c", status="running"), "after the quiet every run"),
    "an error of nobody's": (lambda h: with_end(h, "c", status="errored", error="workers died"), "after the quiet every run"),
    "a child's resume that nobody asked for": (
        lambda h: replace(h, calls=[call for call in h.calls if (call.name, call.run) != ("resume", "p")]), "nothing is resumed",
    ),
    "a child's stop of nobody's": (
        lambda h: with_end(replace(h, calls=[c for c in h.calls if (c.name, c.run) != ("stop_now", "p")]), "y", status="stopped"),
        "after the quiet every run",
    ),
    "a child that hangs": (lambda h: with_end(h, "x", status="running"), "after the quiet every run"),
    "a second child of a place": (
        lambda h: replace(h, children=[*h.children, Child("a", "p", "0.1", 1)]), "each place of a group",
    ),
    "a place without a child": (lambda h: replace(h, children=h.children[:1]), "each place of a group"),
    "a child of a place that is none": (
        lambda h: replace(h, children=[*h.children, Child("a", "p", "0.0", 2)]), "each place of a group",
    ),
    "a place started twice": (lambda h: with_events(h, "p", lambda e: [*e[:3], e[2], *e[3:]]), "each place of a group"),
    "answers in another order": (lambda h: with_family(h, answers=ANSWERS[::-1]), "a parent that completed"),
    "an answer left out": (lambda h: with_family(h, answers=ANSWERS[:1]), "a parent that completed"),
    "an answer that no child gave": (lambda h: with_family(h, answers=[ANSWERS[0], {"place": 1, "seen": [0, 1]}]), "a parent that completed"),
    "a parent ahead of its child": (lambda h: with_end(h, "y", status="stopped", answer=None), "a parent that completed"),
    "a signal stored twice": (lambda h: with_events(h, "p", lambda e: [*e[:2], e[1], *e[2:]]), "an acknowledged signal"),
    "a signal that is lost": (lambda h: with_events(h, "p", lambda e: [e[0], *e[2:]]), "an acknowledged signal"),
    "a signal taken twice": (lambda h: with_family(h, again="key-p"), "an acknowledged signal"),
    "a signal of nobody's": (lambda h: with_family(h, signal=None), "an acknowledged signal"),
    "a child left at work": (lambda h: replace(h, left={"live": 0, "live:children": 1}), "after the quiet nothing"),
    "a stop of nobody's": (lambda h: replace(h, calls=[c for c in h.calls if (c.name, c.run) != ("stop_now", "c")]), "after the quiet every run"),
}  # fmt: skip

#: The planted gap -> a word of why the history proves nothing.
LITTLE: dict[str, tuple[Callable[[History], History], str]] = {
    "a fault that never fired": (lambda h: replace(h, asked_faults=frozenset({"kill", "disk full"})), "'disk full' never fired (0 tries)"),
    "a fault that missed": (lambda h: replace(h, faults=[Fault("kill", 1, False)]), "'kill' never fired (1 tries)"),
    "nothing submitted": (lambda h: History([], h.reads, [], [], h.faults, [], h.asked_faults, ROUNDS), "0 of 0 submits"),
    "most submits unknown": (
        lambda h: replace(h, calls=[*h.calls, *(Call("submit", f"u{n}", 0, 1, "unknown") for n in range(9))]), "4 of 13 submits",
    ),
    "most runs stopped": (
        lambda h: replace(h, ends=[replace(e, status="stopped", answer=None) for e in h.ends]), "0 of 4 runs completed",
    ),
    "most families unfinished": (lambda h: with_family(h, answers=None), "0 of 1 families completed"),
    "nobody reads": (lambda h: replace(h, reads=[]), "nobody read"),
}  # fmt: skip


def test_a_good_history_is_valid() -> None:
    verdict = check(good())
    assert verdict.valid and str(verdict) == "valid: no law is broken"


@pytest.mark.parametrize("planted", PLANTED)
def test_each_planted_anomaly_is_found_by_its_law_with_a_small_witness(planted: str) -> None:
    plant, name = PLANTED[planted]
    verdict = check(plant(good()))
    found = [violation for violation in verdict.violations if violation.law.startswith(name)]
    assert found and not verdict.valid, (
        f"broken were: {[violation.law for violation in verdict.violations]}"
    )
    assert len(found[0].witness) <= 3 and found[0].run in "abcpxy"
    assert found[0].law in str(verdict) and found[0].text in str(verdict)


def test_every_law_has_an_anomaly_that_breaks_it() -> None:
    assert {
        law for law in LAWS if any(law.startswith(name) for _, name in PLANTED.values())
    } == set(LAWS)


@pytest.mark.parametrize("planted", LITTLE)
def test_it_does_not_say_valid_where_too_little_happened(planted: str) -> None:
    plant, words = LITTLE[planted]
    verdict = check(plant(good()))
    assert not verdict.valid and any(words in reason for reason in verdict.too_little), verdict
    assert "TOO LITTLE" in str(verdict)


def test_what_nobody_knows_to_have_happened_may_have_happened() -> None:
    history = good()
    unknown = [
        replace(call, outcome="unknown") if call.name in ("resume", "stop_now") else call
        for call in history.calls
    ]
    lost = [*unknown, Call("submit", "d", 0, 1, "unknown", key="key-d")]
    assert check(replace(history, calls=lost)).valid


def test_a_server_that_lost_its_memory_may_be_read_backwards() -> None:
    history = good()
    assert check(
        replace(history, reads=[*history.reads, Read("r1", "a", 3, "running", 0, 0, server=1)])
    ).valid
