"""A parent and the group of child runs that it waits for.

Run 0 is the parent; of a child only its life is modelled, since its own rounds are those of any
run.

A child is none, live (asked for nothing), asked (in a round, and asked to stop with its tree), tree
(stopped with its tree), stopped (by a person), own (taken up by a person while its parent wants
nothing of it), ok or bad (ended). A caller is a process that got the follow-up from a script or a
sweep. It either looks at one child at a time, or starts the next one; ``fresh`` is false where
another walk was asked for since it began to look.
"""

from __future__ import annotations

from typing import Any

from tests.model.laws import RESTING, is_over, joined, law
from tests.model.moving import due_at, fresh_message, push
from tests.model.state import Family, World

Move = tuple[Any, ...]
#: The states in which a child can still be stopped, and the states before its end.
LIVE, UNENDED = ("live",), ("live", "asked", "own")
ENDS = ("ok", "bad")


def with_place(of: tuple[str, ...], place: int, word: str) -> tuple[str, ...]:
    return (*of[:place], word, *of[place + 1 :])


def has_room(w: World, family: Family) -> bool:
    """Return whether a child may be started: one is left, and fewer run than the limit."""
    ends = [end for end in family.ends if end]
    if not w.rules.held_children_make_room:
        ends = [end for end in ends if end != "held"]
    running = family.started - len(ends)
    return family.started < w.config.children and running < w.config.limit


def possible(w: World) -> list[Move]:
    """Return the moves of children, callers, and people who look after children."""
    family, config = w.family, w.config
    assert family is not None
    moves: list[Move] = []
    if family.follow_up and len(family.callers) < config.callers:
        moves.append(("tell",))
    for number, (does, _, _) in enumerate(family.callers):
        moves += [
            ("call", number, again) for again in ((False, True) if does == "starts" else (False,))
        ]
        moves.append(("caller_dies", number))
    for place, life in enumerate(family.children):
        if life in UNENDED:
            # A requested stop beats every end but the good one.
            moves += [
                ("child_ends", place, word) for word in ENDS if (life, word) != ("asked", "bad")
            ]
        if life == "asked":
            moves.append(("child_stops", place))
        if family.callers and life == "live":
            moves += [
                ("reach", number, place)
                for number, caller in enumerate(family.callers)
                if caller[:2] == ("looks", place)
            ]
        if config.operations and len(w.clients) == 0 and not family.taken_up:
            if life == "live":
                moves.append(("stop_child", place))
            if life in ("bad", "stopped", "tree"):
                moves.append(("take_up_child", place))
    return moves


def open_group(w: World) -> None:
    """Write the group at a park, unless it exists."""
    family = w.family
    assert family is not None
    if family.group:
        return
    w.family = family._replace(group="open", ends=("",) * w.config.children)
    if w.rules.plan_makes_follow_up:
        w.make_follow_up(walk=False)


def drop_group(w: World, joins: bool = True) -> None:
    """Drop the group, as the step is done.

    A kept group is dropped by the step that joins it, or at the end.
    """
    family = w.family
    assert family is not None
    if w.config.outlives and not joins:
        return
    if family.group == "open":
        w.family = family._replace(group="dropped")
        has_living = family.started > sum(1 for end in family.ends if end)
        if w.rules.drop_makes_follow_up and has_living:
            w.make_follow_up(walk=w.rules.drop_walks)


def deliver(w: World, place: int, word: str) -> None:
    """Deliver the end of a child in the script that ends it: deliver_end in parts/family.lua."""
    family, run, rules = w.family, w.runs[0], w.rules
    assert family is not None
    if run is None or family.group != "open" or family.ends[place]:
        return
    if word == "bad" and w.config.holds:
        word = "held"
    family = w.family = family._replace(ends=with_place(family.ends, place, word))
    if has_room(w, family) and run.phase not in RESTING and rules.end_makes_follow_up:
        w.make_follow_up(walk=False)
    if run.phase == "parked" and is_over(w, run) and rules.end_wakes_the_parent:
        fresh_message(w, run, run.message)
        if w.config.outbox:
            due_at(w, run, 0)
        else:
            push(w, 0, run)


def tell(w: World) -> None:
    """Notify a process of the follow-up, as a sweep or the script that made it does."""
    assert w.family is not None
    w.family = w.family._replace(callers=tuple(sorted((*w.family.callers, ("looks", 0, True)))))


def caller_dies(w: World, number: int) -> None:
    assert w.family is not None
    callers = w.family.callers
    w.family = w.family._replace(callers=callers[:number] + callers[number + 1 :])


def _goes_on(w: World, *callers: tuple[str, int, bool]) -> None:
    assert w.family is not None
    w.family = w.family._replace(callers=tuple(sorted((*w.family.callers, *callers))))


def call(w: World, number: int, again: bool) -> str:
    """Make the next request of a caller: reconcile_children.lua, or start_children.lua."""
    family = w.family
    assert family is not None
    caller = family.callers[number]
    caller_dies(w, number)
    if caller[0] == "starts":
        return _start(w, caller, again)
    return _reconcile(w, caller, in_round=False)


def reach(w: World, number: int, place: int) -> str:
    """Make the same request, reaching a child that is in a round."""
    family = w.family
    assert family is not None
    caller = family.callers[number]
    caller_dies(w, number)
    return _reconcile(w, caller, in_round=True)


def _reconcile(w: World, caller: tuple[str, int, bool], in_round: bool) -> str:
    """Reconcile one child, as reconcile_children.lua does; then start the next one, or end the
    follow-up.
    """
    family, run, rules = w.family, w.runs[0], w.rules
    assert family is not None and run is not None
    _, place, fresh = caller
    if family.walk and not fresh and rules.follow_up_is_numbered:
        _goes_on(w, ("looks", 0, True))
        return "moved"
    at_rest = run.phase in RESTING
    if family.walk and place < family.started:
        life = family.children[place]
        alone = run.phase == "stopped" and family.spared and rules.walk_spares
        if ((at_rest and not alone) or family.group == "dropped") and life == "live":
            law(
                "C7",
                run.phase != "stopped" or not family.alone or family.group == "dropped",
                "a child is stopped whose parent was stopped alone",
            )
            w.family = family._replace(
                children=with_place(family.children, place, "asked" if in_round else "tree")
            )
        elif not at_rest and family.group == "open" and life == "tree":
            w.family = family._replace(children=with_place(family.children, place, "live"))
        family = w.family
        if place + 1 < family.started:
            _goes_on(w, ("looks", place + 1, fresh))
            return "more"
    # Every child has been looked at since the last follow-up that asked for it.
    family = w.family = family._replace(walk=False)
    if not at_rest and family.group == "open" and has_room(w, family):
        _goes_on(w, ("starts", family.started, True))
        return f"start {family.started}"
    w.family = family._replace(follow_up=False)
    return "done"


def _start(w: World, caller: tuple[str, int, bool], again: bool) -> str:
    """Start children as start_children.lua does.

    ``again``: its reply is lost, and the request is repeated.
    """
    word = _started(w, caller[1])
    if again:
        _goes_on(w, caller)
    elif word != "over":
        _goes_on(w, ("looks", 0, True))
    return word


def _started(w: World, from_place: int) -> str:
    family, run, rules = w.family, w.runs[0], w.rules
    assert family is not None and run is not None
    if run.phase in RESTING and rules.start_checks_phase:
        return "ended"
    if family.group != "open" and rules.start_checks_group:
        return "gone"
    if from_place != family.started and rules.start_names_its_place:
        return f"stale {family.started}"
    if not has_room(w, family) and rules.start_checks_room:
        return "full"
    law("C1", family.children[from_place] == "none", "place {} is started twice", from_place)
    children = with_place(family.children, from_place, "live")
    family = w.family = family._replace(started=from_place + 1, children=children)
    running = sum(life in UNENDED for life in children)
    law("C8", running <= w.config.limit, "{} children run", running)
    law("C7", run.phase not in RESTING, "a child of a run that is {} is started", run.phase)
    law("C7", family.group == "open", "a child of a dropped group is started")
    if (has_room(w, family) and rules.start_leaves_what_is_left) or (
        family.walk and rules.start_leaves_a_newer_walk
    ):
        return "ok"
    w.family = family._replace(follow_up=False)
    return "over"


def child_ends(w: World, place: int, word: str) -> None:
    """Commit a child's last round, or fail it finally."""
    assert w.family is not None
    w.family = w.family._replace(children=with_place(w.family.children, place, word))
    deliver(w, place, word)


def child_stops(w: World, place: int) -> None:
    """End the round of a child that was asked to stop with its tree.

    Its parent may have been resumed meanwhile.
    """
    family, run, rules = w.family, w.runs[0], w.rules
    assert family is not None and run is not None
    w.family = family._replace(children=with_place(family.children, place, "tree"))
    if not rules.stop_with_the_tree_tells_nobody:
        deliver(w, place, "bad")
    if run.phase not in RESTING and family.group == "open" and rules.late_stop_makes_follow_up:
        w.make_follow_up(walk=rules.late_stop_walks)


def stop_child(w: World, place: int) -> None:
    """Stop a child by itself, as a person."""
    assert w.family is not None
    w.family = w.family._replace(children=with_place(w.family.children, place, "stopped"))
    deliver(w, place, "bad")


def take_up_child(w: World, place: int) -> None:
    """Resume or retry a child, as a person: its parent's record of its end is taken back."""
    family, run, rules = w.family, w.runs[0], w.rules
    assert family is not None and run is not None
    ends = family.ends
    taken_back = ("bad",) * rules.taking_up_takes_the_end_back + (
        "held",
    ) * rules.taking_up_releases
    if family.group == "open" and ends[place] in taken_back:
        ends = with_place(ends, place, "")
    life = "own" if run.phase in RESTING or family.group != "open" else "live"
    children = with_place(family.children, place, life)
    w.family = family._replace(ends=ends, children=children, taken_up=True)


def lawful(w: World) -> None:
    """Check the laws of the family that always hold."""
    family, run = w.family, w.runs[0]
    assert family is not None and run is not None
    if family.group == "open" and run.phase != "completed":
        for place, life in enumerate(family.children):
            end = family.ends[place]
            law(
                "C2",
                life not in ("ok", "bad", "stopped") or end,
                "child {} has ended, and its parent does not know",
                place,
            )
            law(
                "C2",
                life in ("ok", "bad", "stopped") or not end,
                "child {} is {}, and its parent knows of an end",
                place,
                life,
            )
    at_rest = run.phase in RESTING
    alone = run.phase == "stopped" and family.alone
    unwanted = ((at_rest and not alone) or family.group == "dropped") and "live" in family.children
    law(
        "C7",
        not unwanted or (family.follow_up and family.walk),
        "an unwanted child lives on, and no follow-up will stop it",
    )
    if at_rest or family.group != "open":
        return
    law(
        "V7",
        "tree" not in family.children or (family.follow_up and family.walk),
        "a child that was stopped with the tree is not resumed",
    )
    law(
        "V7",
        "own" not in family.children,
        "a stop of its parent will not reach a child, because a person continued it before",
    )
    running = sum(life in UNENDED for life in family.children)
    room = family.started < w.config.children and running < w.config.limit
    law(
        "V7",
        not room or family.follow_up or joined(w),
        "a child is to be started, and no follow-up will start it",
    )


def is_settled(frozen: Any) -> bool:
    """Return whether nothing is left to be done for this family; ``frozen`` is part of a state."""
    return frozen is None or not (
        frozen.follow_up or any(life in UNENDED for life in frozen.children)
    )


MOVES = {
    "tell": tell,
    "call": call,
    "reach": reach,
    "caller_dies": caller_dies,
    "child_ends": child_ends,
    "child_stops": child_stops,
    "stop_child": stop_child,
    "take_up_child": take_up_child,
}
GOOD = ("tell", "call", "child_ends", "child_stops")
