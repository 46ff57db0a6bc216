"""Laws of families: a parent's children, their ends as it read them, and its signal.

They register beside those of laws.py.
"""

from __future__ import annotations

from tests.soak.history import History
from tests.soak.laws import Found, grouped, law, streams_of


@law("each place of a group has one child run (decision 45)")
def one_child_a_place(history: History) -> Found:
    made = grouped(history.children, lambda child: child.parent)
    streams = streams_of(history)
    for family in history.families:
        places = grouped(made.get(family.parent, ()), lambda child: child.place)
        for place, children in places.items():
            if len(children) > 1:
                yield family.parent, f"place {place} has {len(children)} child runs", children[:2]
        if family.answers is not None and set(places) != set(range(family.children)):
            yield (
                family.parent,
                f"it completed, and has child runs at the places {sorted(places)} of {family.children}",
                [family],
            )
        told = [event for event in streams.get(family.parent, ()) if event.type == "started"]
        started = [
            place
            for event in told
            for place in range(int(event.data["from"]), int(event.data["to"]))
        ]
        if len(started) != len(set(started)):
            yield family.parent, f"it started the places {started}", told[:3]


@law("a parent that completed has its children's answers, in their order (decision 45)")
def answers_are_the_childrens(history: History) -> Found:
    made = grouped(history.children, lambda child: child.parent)
    ends = {end.run: end for end in history.ends}
    for family in history.families:
        if family.answers is None:
            continue
        told = [(answer["place"], list(answer["seen"])) for answer in family.answers]
        children = sorted(made.get(family.parent, ()), key=lambda child: child.place)
        theirs = [(child.place, list(ends[child.run].answer or ())) for child in children]
        if told != theirs:
            yield family.parent, f"it heard {told}, and its children answered {theirs}", [family]


@law("an acknowledged signal is stored once, and taken once (decision 46)")
def signal_taken_once(history: History) -> Found:
    sent = grouped([call for call in history.calls if call.name == "signal"], lambda call: call.run)
    streams = streams_of(history)
    for family in history.families:
        calls = sent.get(family.parent, [])
        known = [call for call in calls if call.outcome == "acknowledged"]
        stored = [event for event in streams.get(family.parent, ()) if event.type == "signalled"]
        if len(stored) > len({call.key for call in calls}):
            yield family.parent, f"its signal was stored {len(stored)} times", stored[:2]
        if known and not stored:
            yield family.parent, "its signal was acknowledged, and is not there", known[:1]
        if family.answers is None:
            continue
        if family.signal not in {call.key for call in calls}:
            yield (
                family.parent,
                f"it took {family.signal!r}, which nobody sent",
                [family, *calls[:1]],
            )
        if family.again is not None:
            yield family.parent, f"it took {family.again!r} once more", [family, *stored[:1]]
