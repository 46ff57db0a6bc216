"""Budgets above: a parent with a limit, and two children that spend of it.

A small world of its own, searched whole.

A child's rounds are one request each, which costs one. The big model's rules of claims, leases and
fences are taken for granted here, and so is the start of the children. Each move is one script, or
one thing that happens to a process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from tests.model.laws import Violation, law

NAME = "budgets above"
CHILDREN, LIMIT, ROUNDS, DEATHS, ADDS, PEOPLE = 2, 1, 2, 1, 2, 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules under a tree's budget; each is off in one mutant."""

    charge_is_in_the_commit: bool = True
    repeats_charge_nothing: bool = True
    late_commits_charge_nothing: bool = True
    lost_attempts_are_charged_above: bool = True
    look_counts_own_lost_attempts: bool = True
    hold_compares_what_was_added: bool = True
    hold_checks_that_another_asks: bool = True
    one_asks: bool = True
    add_makes_follow_up: bool = True
    add_is_done_once: bool = True
    walk_wakes_who_waits: bool = True
    add_answers_who_asks: bool = True
    walk_of_an_add_is_numbered: bool = True


#: The law that each rule's absence breaks.
MUTANTS = {
    "charge_is_in_the_commit": "B1",
    "repeats_charge_nothing": "B1",
    "late_commits_charge_nothing": "B1",
    "lost_attempts_are_charged_above": "B1",
    "look_counts_own_lost_attempts": "B2",
    "hold_compares_what_was_added": "B3",
    "hold_checks_that_another_asks": "B4",
    "one_asks": "B5",
    "add_makes_follow_up": "B3",
    "add_is_done_once": "B6",
    "walk_wakes_who_waits": "B3",
    "add_answers_who_asks": "B3",
    "walk_of_an_add_is_numbered": "B3",
}


class Child(NamedTuple):
    """A child run, and the process with its round.

    ``phase``: queued · leased · waits (for the parent's budget) · asks (a person, for it) · stopped
    · done. ``does``, of its process: looks · plays · holds (it is about to commit that the round
    may not begin) · sent (the reply to its commit is lost) · owes (of a mutant: its charge comes in
    a call of its own). ``saw``: the additions to the parent's limit when the process looked.
    ``late``: a process that lost the round before its commit is still there.
    """

    phase: str = "queued"
    does: str = ""
    saw: int = 0
    spent: int = 0
    lost: int = 0
    rounds: int = 0
    late: bool = False


class Tree(NamedTuple):
    """The parent's hash, its children, and who adds and walks.

    ``follow_up``: whether the children have to be looked at. ``walks``: the place that a caller
    looks at next, and whether its walk is the newest.
    """

    children: tuple[Child, ...] = (Child(),) * CHILDREN
    tree: int = 0
    added: int = 0
    asker: int = -1
    follow_up: bool = False
    walk: tuple[int, bool] | None = None
    adding: bool = False
    adds: int = 0
    deaths: int = 0
    people: int = 0


Move = tuple[Any, ...]
GOOD = ("claim", "look", "commit", "hold", "charge", "walk", "timer")


def possible(t: Tree) -> Iterator[Move]:
    """Yield the moves from here."""
    for place, child in enumerate(t.children):
        if child.phase == "queued":
            yield ("claim", place)
        if child.phase == "waits":
            yield ("timer", place)
        if child.phase == "asks" and t.people < PEOPLE:
            yield ("stop", place)
            yield ("resume", place)
        if child.late:
            yield ("late", place)
        if child.does in ("sent", "owes"):
            yield ("again" if child.does == "sent" else "charge", place)
            yield ("forget", place)
        if child.phase == "leased":
            yield {"looks": "look", "plays": "commit", "holds": "hold"}[child.does], place
            if child.does == "plays":
                yield ("mute", place)
            if t.deaths < DEATHS:
                yield ("die", place)
                yield ("stall", place)
    if t.adding:
        yield ("add again",)
    elif t.adds < ADDS:
        yield ("add",)
        yield ("add unheard",)
    if t.follow_up:
        yield ("walk",)


def act(t: Tree, move: Move, rules: Rules) -> Tree:
    """Make a move.

    Raises:
        Violation: It breaks a law.
    """
    name = move[0]
    if name in ("add", "add unheard", "add again"):
        return _add(t, name, rules)
    if name == "walk":
        return _walk(t, rules)
    place = move[1]
    child = t.children[place]

    def changed(**more: Any) -> Tree:
        children = list(t.children)
        children[place] = child._replace(**more)
        return t._replace(children=tuple(children))

    match name:
        case "claim":
            return changed(phase="leased", does="looks")
        case "look":
            known = t.tree + (child.lost if rules.look_counts_own_lost_attempts else 0)
            if known >= LIMIT + t.added:
                return changed(does="holds", saw=t.added)
            law("B2", t.tree + child.lost < LIMIT + t.added, "a request is made of what is spent")
            return changed(does="plays")
        case "commit" | "mute":
            cost = 1 + child.lost
            above = cost if rules.lost_attempts_are_charged_above else 1
            done = child.rounds + 1 == ROUNDS
            t = changed(
                phase="done" if done else "queued", spent=child.spent + cost, lost=0, rounds=child.rounds + 1,
                does="sent" if name == "mute" else "",
            )  # fmt: skip
            if rules.charge_is_in_the_commit:
                return t._replace(tree=t.tree + above)
            return _with(t, place, does="owes")
        case "charge":
            return changed(does="")._replace(tree=t.tree + 1)
        case "again":
            return changed(does="")._replace(tree=t.tree + (not rules.repeats_charge_nothing))
        case "forget":
            return changed(does="")
        case "late":
            return changed(late=False)._replace(
                tree=t.tree + (not rules.late_commits_charge_nothing)
            )
        case "die" | "stall":
            # Without a report, an attempt is charged its expected spending.
            return changed(
                phase="queued", does="", lost=child.lost + 1, late=child.late or name == "stall"
            )._replace(deaths=t.deaths + 1)
        case "hold":
            return _hold(t, place, rules)
        case "timer":
            return changed(phase="queued")
        case "resume":
            return changed(phase="queued")._replace(people=t.people + 1)
        case "stop":
            return changed(phase="stopped")._replace(people=t.people + 1)
    raise AssertionError(name)


def _with(t: Tree, place: int, **more: Any) -> Tree:
    children = list(t.children)
    children[place] = children[place]._replace(**more)
    return t._replace(children=tuple(children))


def _hold(t: Tree, place: int, rules: Rules) -> Tree:
    """Commit as commit_round.lua does, kind ``short``: the round may not begin.

    Its lost attempts are charged with it.
    """
    child = t.children[place]
    above = child.lost if rules.lost_attempts_are_charged_above else 0
    t = _with(t, place, spent=child.spent + child.lost, lost=0, does="")
    t = t._replace(tree=t.tree + above)
    if child.saw != t.added and rules.hold_compares_what_was_added:
        return _with(t, place, phase="queued")
    asks = t.asker >= 0 and t.asker != place
    if rules.hold_checks_that_another_asks:
        asks = asks and t.children[t.asker].phase == "asks"
    if asks and rules.one_asks:
        law("B4", t.children[t.asker].phase == "asks", "it waits for an answer to no question")
        return _with(t, place, phase="waits")
    return _with(t, place, phase="asks")._replace(asker=place)


def _add(t: Tree, name: str, rules: Rules) -> Tree:
    """Call raise_limit.lua. Its reply may be lost, and the request is repeated."""
    if name == "add again" and rules.add_is_done_once:
        return t._replace(adding=False)
    if name != "add again":
        t = t._replace(adds=t.adds + 1, adding=name == "add unheard")
    else:
        t = t._replace(adding=False)
    t = t._replace(added=t.added + 1)
    if t.asker >= 0 and t.children[t.asker].phase == "asks" and rules.add_answers_who_asks:
        t = _with(t, t.asker, phase="queued")
    if not rules.add_makes_follow_up:
        return t
    walk = t.walk and (t.walk[0], False)
    return t._replace(follow_up=True, walk=walk)


def _walk(t: Tree, rules: Rules) -> Tree:
    """Reconcile one child, as reconcile_children.lua does; behind the last child, end the
    follow-up.
    """
    place, fresh = t.walk or (0, True)
    if not fresh and rules.walk_of_an_add_is_numbered:
        return t._replace(walk=(0, True))
    child = t.children[place]
    if child.phase == "waits" and rules.walk_wakes_who_waits:
        t = _with(t, place, phase="queued")
    if place + 1 < CHILDREN:
        return t._replace(walk=(place + 1, fresh))
    return t._replace(walk=None, follow_up=False)


def lawful(t: Tree) -> None:
    """Check the laws that always hold."""
    spent = sum(child.spent for child in t.children)
    law("B1", t.tree == spent, "the tree has spent {}, and its parent knows of {}", spent, t.tree)
    place, fresh = t.walk or (0, True)
    for number, child in enumerate(t.children):
        held = child.phase in ("waits", "asks") and child.saw != t.added
        seen = child.phase == "waits" and t.follow_up and (number >= place or not fresh)
        law("B3", not held or seen, "child {} is held up though more was added", number)
    asking = sum(child.phase == "asks" for child in t.children)
    law("B5", asking <= 1, "{} questions for one budget", asking)
    law("B6", t.added == t.adds, "{} was added {} times", t.adds, t.added)


@dataclass
class Found:
    """The result of a search; ``trace``: the shortest way to the violation."""

    states: int
    moves: int
    violation: Violation | None = None
    trace: tuple[Move, ...] = ()


def search(rules: Rules | None = None) -> Found:
    """Search every state that can be reached, and from each a way to rest: each child is done,
    stopped, or held up with a question open.
    """
    rules = rules or Rules()
    came: dict[Tree, tuple[Tree | None, Move]] = {Tree(): (None, ())}
    back: dict[Tree, list[Tree]] = {}
    todo, moves = deque(came), 0
    while todo:
        before = todo.popleft()
        for move in possible(before):
            moves += 1
            try:
                after = act(before, move, rules)
                lawful(after)
            except Violation as violation:
                return Found(len(came), moves, violation, (*_trace(came, before), move))
            if move[0] in GOOD:
                back.setdefault(after, []).append(before)
            if after not in came:
                came[after] = before, move
                todo.append(after)
    settled = {t for t in came if _rests(t)}
    todo = deque(settled)
    while todo:
        for before in back.get(todo.popleft(), ()):
            if before not in settled:
                settled.add(before)
                todo.append(before)
    for t in came:
        if t not in settled:
            lost = Violation("V1", "nothing brings these runs to rest")
            return Found(len(came), moves, lost, _trace(came, t))
    return Found(len(came), moves)


def _rests(t: Tree) -> bool:
    phases = {child.phase for child in t.children}
    return not t.follow_up and (
        phases <= {"done", "stopped"}
        or ("asks" in phases and phases <= {"done", "stopped", "asks", "waits"})
    )


def _trace(came: dict[Tree, tuple[Tree | None, Move]], state: Tree) -> tuple[Move, ...]:
    moves: list[Move] = []
    before, move = came[state]
    while before is not None:
        moves.append(move)
        before, move = came[before]
    return tuple(reversed(moves))


def names() -> list[str]:
    return [each.name for each in fields(Rules)]


def without(rule: str) -> Rules:
    """Return the rules without this one."""
    return replace(Rules(), **{rule: False})
