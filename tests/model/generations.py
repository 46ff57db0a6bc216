"""Families of three generations, and runs that have two groups of children at a time.

A small world of its own, searched whole.

The big model's rules of claims, leases, messages, limits and held ends are taken for granted here.
So a run that waits is queued, and the death of a worker leaves its run queued. Each move is one
script, or one thing that happens to a process. A run without children is played in one move: only a
stop asks whether a worker has it. The requests of a caller that looks after children may arrive
late, again, or never.

C1, C2, C3, C7, V1 and V7 are the laws of the big model, and these are added:

- C4: a step that has joined a group leaves it, so that no end arrives twice.
- G1: no script continues a run that a person stopped.
- G2: no script stops a run that a person continued by itself, or whose parent alone was stopped.
- G3: a client's retry of a tree retries no run that still has the failure of a child from before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple

from tests.model.laws import ENDED, RESTING, Violation, law


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the scripts and the client for families; each is off in one mutant."""

    # The end of a child, and of its parent's wait
    end_wakes_the_parent: bool = True
    park_asks_whether_the_wait_is_over: bool = True
    stop_with_the_tree_tells_nobody: bool = True
    taking_up_takes_the_end_back: bool = True
    join_drops_its_group: bool = True
    join_keeps_other_groups: bool = True
    # Starts
    plan_makes_follow_up: bool = True
    start_checks_phase: bool = True
    start_names_its_place: bool = True
    start_comes_to_every_group: bool = True
    start_leaves_other_groups: bool = True
    start_leaves_a_newer_walk: bool = True
    # Follow-ups, from one generation to the next
    rest_makes_follow_up: bool = True
    drop_makes_follow_up: bool = True
    going_on_makes_follow_up: bool = True
    late_stop_makes_follow_up: bool = True
    walks_are_numbered: bool = True
    walk_comes_to_every_group: bool = True
    walk_goes_on_behind_a_group_that_is_gone: bool = True
    # Stops by the tree, and stops or continuations by a person
    tree_says_what_it_stopped: bool = True
    person_s_stop_is_not_the_tree_s: bool = True  # a person asks, then the tree
    person_s_stop_beats_the_tree_s: bool = True  # the tree asks, then a person
    walk_leaves_what_a_person_continued: bool = True
    going_on_takes_children_back: bool = True  # resume of a child, resume of its parent, stop
    walk_spares_children_of_one_alone: bool = True
    # The client's retry of a tree
    retry_reaches_every_generation: bool = True
    retry_comes_to_children_first: bool = True


@dataclass(frozen=True, slots=True)
class Shape:
    """A family. Run 0 is the root.

    Attributes:
        groups: of each run its groups, each the numbers of its children.
        first: Whether the first success of several children ends the wait for them.
        people: the runs that people stop, resume and retry by themselves.
        modes: Whether people also stop at once.
        fails: Whether a round of a parent may fail by itself.
        tree_retries: Whether clients retry the whole tree.
    """

    groups: tuple[tuple[tuple[int, ...], ...], ...]
    first: bool = False
    people: tuple[int, ...] = (0,)
    modes: bool = False
    fails: bool = False
    tree_retries: bool = False


#: The family in which each rule's absence shows, and the law that it breaks.
MUTANTS = {
    "end_wakes_the_parent": ("generations", "C3"),
    "park_asks_whether_the_wait_is_over": ("generations", "C3"),
    "stop_with_the_tree_tells_nobody": ("generations", "C2"),
    "taking_up_takes_the_end_back": ("generations", "C2"),
    "join_drops_its_group": ("two groups", "C4"),
    "join_keeps_other_groups": ("two groups of a run that fails", "V1"),
    "plan_makes_follow_up": ("generations", "V7"),
    "start_checks_phase": ("generations", "C7"),
    "start_names_its_place": ("generations", "C1"),
    "start_comes_to_every_group": ("two groups", "V7"),
    "start_leaves_other_groups": ("two groups", "V7"),
    "start_leaves_a_newer_walk": ("two groups", "V7"),
    "rest_makes_follow_up": ("generations", "C7"),
    "drop_makes_follow_up": ("generations", "C7"),
    "going_on_makes_follow_up": ("generations", "V7"),
    "late_stop_makes_follow_up": ("generations", "V7"),
    "walks_are_numbered": ("two groups", "V7"),
    "walk_comes_to_every_group": ("two groups", "C7"),
    "walk_goes_on_behind_a_group_that_is_gone": ("two groups of a run that fails", "V7"),
    "tree_says_what_it_stopped": ("generations", "C2"),
    "person_s_stop_is_not_the_tree_s": ("generations", "C2"),
    "person_s_stop_beats_the_tree_s": ("generations", "C2"),
    "walk_leaves_what_a_person_continued": ("generations", "G2"),
    "going_on_takes_children_back": ("generations", "C7"),
    "walk_spares_children_of_one_alone": ("generations", "G2"),
    "retry_reaches_every_generation": ("generations that fail", "G3"),
    "retry_comes_to_children_first": ("generations that fail", "G3"),
}


@cache
def parents(shape: Shape) -> tuple[tuple[int, int, int] | None, ...]:
    """Return of each run its parent, its group and its place there; None for the root."""
    above: dict[int, tuple[int, int, int]] = {
        child: (parent, group, place)
        for parent, groups in enumerate(shape.groups)
        for group, children in enumerate(groups)
        for place, child in enumerate(children)
    }
    return tuple(above.get(run) for run in range(len(shape.groups)))


THREE = (((1,),), ((2,),), ())
TWO_GROUPS = (((1, 2), (3,)), (), (), ())
SHAPES = {
    "generations": Shape(THREE, people=(0, 1, 2)),
    "generations that fail": Shape(THREE, fails=True, modes=True, tree_retries=True),
    "two groups": Shape(TWO_GROUPS, first=True, people=(0, 3)),
    "two groups of a run that fails": Shape(TWO_GROUPS, first=True, fails=True),
}


class Group(NamedTuple):
    """A group. ``state``: none · open · dropped · gone. ``ends``: per place: "", ok or bad."""

    state: str = "none"
    started: int = 0
    ends: tuple[str, ...] = ()


class Run(NamedTuple):
    """A run.

    ``does``: the coming commit of the round in flight, by the input that its node found: parks ·
    opens · next · ends · fails. ``now``: its stop is at once. ``tree``: it is stopped with its
    parent. ``only``: it is stopped alone. ``own``: a person continued it while its parent did not
    want it, and the parent has not gone on since. Ghosts: ``person``, a person stopped it, and has
    not continued it since; ``free``, as ``own``, even if the scripts do not know it.
    """

    phase: str = "none"
    does: str = ""
    step: int = 0
    asked: bool = False
    now: bool = False
    tree: bool = False
    only: bool = False
    own: bool = False
    follow_up: bool = False
    walk: bool = False
    groups: tuple[Group, ...] = ()
    person: bool = False
    free: bool = False


class Tree(NamedTuple):
    """The family, and the processes that look after it.

    ``starters``: requests to start children that may still come, as run, group and place.
    ``walkers``: requests to go on with a walk, as run, group, place, and whether this walk is the
    newest. ``client``: a client that retries the tree, as the next run, and the runs with a failure
    that it has still to retry.
    """

    runs: tuple[Run, ...]
    starters: frozenset[tuple[int, int, int]] = frozenset()
    walkers: frozenset[tuple[int, int, int, bool]] = frozenset()
    client: tuple[int, frozenset[int]] | None = None


Move = tuple[Any, ...]
GOOD = ("claim", "commit", "ok", "end_round", "call", "go_on", "start", "retry_next")
#: The moves.
NAMES = (
    *GOOD, "bad", "break", "die", "stop", "take_up", "retry_tree", "forget",
)  # fmt: skip
#: Requests in the middle of a walk that may still come. More are lost.
WALKERS = 1


def first(shape: Shape) -> Tree:
    runs = [
        Run(groups=tuple(Group(ends=("",) * len(group)) for group in groups))
        for groups in shape.groups
    ]
    runs[0] = runs[0]._replace(phase="queued")
    return Tree(tuple(runs))


class World:
    """One state while a move changes it.

    The methods are the functions of the scripts, in their order.
    """

    def __init__(self, shape: Shape, rules: Rules, t: Tree) -> None:
        self.shape, self.rules = shape, rules
        self.runs = list(t.runs)
        self.starters, self.walkers, self.client = set(t.starters), set(t.walkers), t.client
        self.parents = parents(shape)

    def frozen(self) -> Tree:
        """Return the state, without callers whose every request is refused for ever."""
        if self.rules.start_names_its_place:
            self.starters = {each for each in self.starters if self._may_start(*each)}
        if self.rules.walks_are_numbered:
            self.walkers = {each for each in self.walkers if each[3] and self.runs[each[0]].walk}
        return Tree(
            tuple(self.runs), frozenset(self.starters), frozenset(self.walkers), self.client
        )

    def _may_start(self, run: int, number: int, place: int) -> bool:
        group = self.runs[run].groups[number]
        return group.state == "open" and group.started == place

    def change(self, run: int, **more: Any) -> None:
        self.runs[run] = self.runs[run]._replace(**more)

    def change_group(self, run: int, group: int, **more: Any) -> None:
        groups = list(self.runs[run].groups)
        groups[group] = groups[group]._replace(**more)
        self.change(run, groups=tuple(groups))

    # parts/family.lua

    def make_follow_up(self, run: int, walk: bool) -> None:
        self.change(run, follow_up=True, walk=self.runs[run].walk or walk)
        if walk:
            self.walkers = {(*each[:3], each[3] and each[0] != run) for each in self.walkers}

    def written(self, run: int) -> list[int]:
        """Return the groups that the run has, in the order in which they were opened."""
        return [
            number
            for number, group in enumerate(self.runs[run].groups)
            if group.state in ("open", "dropped")
        ]

    def drop_groups(self, run: int, joined: tuple[int, ...], all_of_them: bool) -> None:
        lives = False
        is_kept = len(self.shape.groups[run]) > 1
        for number in self.written(run):
            group = self.runs[run].groups[number]
            keeps = is_kept and not all_of_them and number not in joined
            if keeps and self.rules.join_keeps_other_groups:
                continue
            if number in joined and not self.rules.join_drops_its_group:
                continue
            if group.started > sum(map(bool, group.ends)):
                self.change_group(run, number, state="dropped")
                lives = True
            else:
                self.change_group(run, number, state="gone")
        if lives and self.rules.drop_makes_follow_up:
            self.make_follow_up(run, walk=True)

    def end_family(self, run: int) -> None:
        for number in self.written(run):
            group = self.runs[run].groups[number]
            if group.started > sum(map(bool, group.ends)) and self.rules.rest_makes_follow_up:
                self.make_follow_up(run, walk=True)
                return

    def is_over(self, run: int, number: int) -> bool:
        group = self.runs[run].groups[number]
        if self.shape.first and number == 0 and len(group.ends) > 1:
            return "ok" in group.ends or all(group.ends)
        return all(group.ends)

    def waits_for(self, run: int) -> int:
        """Return the group that the run's step waits for."""
        return 0 if len(self.shape.groups[run]) == 1 else self.runs[run].step - 1

    def record_end(self, run: int, number: int, place: int, word: str) -> None:
        group = self.runs[run].groups[number]
        if group.ends[place]:
            return
        ends = (*group.ends[:place], word, *group.ends[place + 1 :])
        self.change_group(run, number, ends=ends)
        parked = self.runs[run].phase == "parked" and self.rules.end_wakes_the_parent
        if parked and self.is_over(run, self.waits_for(run)):
            self.change(run, phase="queued")

    def above(self, run: int) -> tuple[int, int, int] | None:
        """Return the parent and the group awaiting the run."""
        above = self.parents[run]
        if above is None or self.runs[above[0]].groups[above[1]].state != "open":
            return None
        return above

    def deliver_end(self, run: int, word: str) -> None:
        above = self.above(run)
        if above is None:
            return
        child = self.runs[run]
        if child.phase == "stopped" and child.tree and self.rules.stop_with_the_tree_tells_nobody:
            if self.runs[above[0]].phase not in RESTING and self.rules.late_stop_makes_follow_up:
                self.make_follow_up(above[0], walk=True)
            return
        self.record_end(*above, word)

    def take_up(self, run: int) -> None:
        if self.parents[run] is None:
            return
        self.change(run, tree=False)
        above = self.above(run)
        own = True
        if above is not None:
            parent, number, place = above
            group = self.runs[parent].groups[number]
            if group.ends[place] == "bad" and self.rules.taking_up_takes_the_end_back:
                ends = (*group.ends[:place], "", *group.ends[place + 1 :])
                self.change_group(parent, number, ends=ends)
            own = self.runs[parent].phase in RESTING
        self.change(run, own=own, free=own, person=False)

    # parts/ends.lua, parts/stopping.lua

    def complete(self, run: int) -> None:
        self.change(run, phase="completed", does="", asked=False)
        self.drop_groups(run, (), True)
        self.deliver_end(run, "ok")

    def fail(self, run: int) -> None:
        self.change(run, phase="errored", does="", asked=False)
        self.end_family(run)
        self.deliver_end(run, "bad")

    def stop_here(self, run: int) -> None:
        self.change(run, phase="stopped", does="", asked=False)
        if not self.runs[run].only:
            self.end_family(run)
        self.deliver_end(run, "bad")

    def ask_to_stop(self, run: int, now: bool, only: bool, in_round: bool) -> None:
        before = self.runs[run]
        self.change(run, asked=True, now=now or (before.asked and before.now))
        if only and not before.asked:
            self.change(run, only=True)
        elif before.only and not only:
            self.change(run, only=False)
        if (before.phase == "leased" or in_round) and not now:
            self.change(run, phase="leased")
        else:
            self.stop_here(run)

    def start_again(self, run: int) -> None:
        self.change(run, phase="queued", asked=False, only=False, now=False)
        for number, group in enumerate(self.shape.groups[run]):
            for child in group if self.runs[run].groups[number].state == "open" else ():
                own = self.runs[child].own and not self.rules.going_on_takes_children_back
                self.change(child, free=False, own=own)
        if self.written(run) and self.rules.going_on_makes_follow_up:
            self.make_follow_up(run, walk=True)

    # reconcile_children.lua, start_children.lua

    def look_at(self, run: int, number: int, place: int, in_round: bool) -> None:
        parent = self.runs[run]
        group = parent.groups[number]
        unwanted = parent.phase in RESTING or group.state == "dropped"
        if group.ends[place] and not unwanted:
            return
        child = self.shape.groups[run][number][place]
        found = self.runs[child]
        if found.phase in RESTING:
            if unwanted:
                return
            if found.phase == "stopped" and found.tree:
                law("G1", not found.person, "run {}, which a person stopped, is continued", child)
                self.change(child, tree=False)
                self.start_again(child)
            else:
                self.deliver_end(child, "ok" if found.phase == "completed" else "bad")
        elif unwanted:
            if found.own and self.rules.walk_leaves_what_a_person_continued:
                return
            law("G2", not found.free, "run {}, which a person continued, is stopped", child)
            alone = parent.phase == "stopped" and parent.only and group.state == "open"
            law("G2", not alone, "child {} of a run stopped alone is stopped", child)
            asked = found.asked and self.rules.person_s_stop_is_not_the_tree_s
            if not asked and self.rules.tree_says_what_it_stopped:
                self.change(child, tree=True)
            self.ask_to_stop(child, parent.now, False, in_round)

    def reconcile(self, run: int, walker: tuple[int, int, int, bool] | None, in_round: bool) -> str:
        rules = self.rules
        if self.runs[run].walk:
            if walker is not None and not walker[3] and rules.walks_are_numbered:
                return "moved"
            written = self.written(run)
            begin, place = (walker[1], walker[2]) if walker else (None, 0)
            if begin is not None and begin not in written:
                if rules.walk_goes_on_behind_a_group_that_is_gone:
                    begin, place = None, 0
                else:
                    written = []
            left = 1
            for number in written[: None if rules.walk_comes_to_every_group else 1]:
                if begin is not None and number != begin:
                    continue
                begin, from_place, place = None, place, 0
                at_rest = self.runs[run].phase in RESTING
                alone = at_rest and self.runs[run].only and rules.walk_spares_children_of_one_alone
                if self.runs[run].groups[number].state != "dropped" and alone:
                    continue
                for each in range(from_place, self.runs[run].groups[number].started):
                    if not left:
                        if len(self.walkers) < WALKERS:
                            self.walkers.add((run, number, each, True))
                        return "more"
                    left -= 1
                    self.look_at(run, number, each, in_round)
            for number in self.written(run):
                if self.runs[run].groups[number].state == "dropped":
                    self.change_group(run, number, state="gone")
            self.change(run, walk=False)
        if self.runs[run].phase not in RESTING:
            for number in self.written(run)[: None if rules.start_comes_to_every_group else 1]:
                group = self.runs[run].groups[number]
                if group.started < len(group.ends):
                    self.starters.add((run, number, group.started))
                    return "start"
        self.change(run, follow_up=False)
        return "done"

    def start(self, run: int, number: int, place: int) -> str:
        group, rules = self.runs[run].groups[number], self.rules
        if self.runs[run].phase in RESTING and rules.start_checks_phase:
            return "ended"
        if group.state != "open":
            return "gone"
        if group.started != place and rules.start_names_its_place:
            return "stale"
        for child in self.shape.groups[run][number][place:]:
            law("C1", self.runs[child].phase == "none", "run {} is started twice", child)
            law("C7", self.runs[run].phase not in RESTING, "run {} is started below a stop", child)
            self.change(child, phase="queued")
        self.change_group(run, number, started=len(group.ends))
        others = [self.runs[run].groups[other] for other in self.written(run)]
        if rules.start_leaves_other_groups and any(
            each.started < len(each.ends) for each in others
        ):
            return "ok"
        if self.runs[run].walk and rules.start_leaves_a_newer_walk:
            return "ok"
        self.change(run, follow_up=False)
        return "over"

    # Rounds of parents

    def found(self, run: int) -> list[str]:
        """Return the possible outcomes of a round, by the input that its node finds now."""
        now = self.runs[run]
        kept = len(now.groups) > 1
        if kept and now.step == 0:
            return ["opens" if any(group.state == "none" for group in now.groups) else "next"]
        number = self.waits_for(run)
        group = now.groups[number]
        if group.state == "none" or not self.is_over(run, number):
            return ["parks"]
        last = number == len(now.groups) - 1
        words = ["ends" if last else "next"]
        enough = group.ends.count("ok")
        done = enough > 0 if self.shape.first and len(group.ends) > 1 else enough == len(group.ends)
        return words if done else [*words, "fails"]

    def commit(self, run: int) -> None:
        before = self.runs[run]
        does, number = before.does, self.waits_for(run)
        self.change(run, does="")
        if does in ("parks", "opens"):
            if does == "opens":
                number = next(i for i, group in enumerate(before.groups) if group.state == "none")
            if before.groups[number].state == "none":
                self.change_group(run, number, state="open")
                if self.rules.plan_makes_follow_up:
                    self.make_follow_up(run, walk=False)
        if does == "next":
            self.change(run, step=before.step + 1)
            self.drop_groups(run, (number,) if before.step else (), False)
        if does == "ends":
            self.complete(run)
        elif before.asked:
            self.stop_here(run)
        elif does == "fails":
            self.fail(run)
        elif does == "parks" and not (
            self.is_over(run, number) and self.rules.park_asks_whether_the_wait_is_over
        ):
            self.change(run, phase="parked")
        else:
            self.change(run, phase="queued")

    # The moves of people

    def stop(self, run: int, only: bool, now: bool, in_round: bool) -> None:
        before = self.runs[run]
        if before.phase == "stopped" and before.only and not only:
            self.change(run, only=False)
            self.end_family(run)
        if before.phase in RESTING:
            return
        if before.tree and self.rules.person_s_stop_beats_the_tree_s:
            self.change(run, tree=False)
        self.change(run, person=True)
        self.ask_to_stop(run, now, only, in_round)

    def take_up_again(self, run: int) -> None:
        """Resume or retry the run: resume_run.lua, retry_run.lua."""
        self.change(run, person=False)
        self.take_up(run)
        self.start_again(run)

    # The client's retry of a tree

    def failed_child(self, run: int) -> int | None:
        for number in self.written(run):
            group = self.runs[run].groups[number]
            for place, end in enumerate(group.ends):
                child = self.shape.groups[run][number][place]
                if end == "bad" and self.runs[child].phase == "errored":
                    return child
        return None

    def begin_retry(self, run: int) -> None:
        path = [run]
        while (child := self.failed_child(path[-1])) is not None:
            path.append(child)
        order = path[::-1]
        if not self.rules.retry_reaches_every_generation:
            order = path[1::-1]
        if not self.rules.retry_comes_to_children_first:
            order = path
        self.client = (order[0], frozenset(path))

    def retry_next(self) -> None:
        assert self.client is not None
        run, failed = self.client
        if self.runs[run].phase == "errored":
            for group in self.shape.groups[run]:
                for child in group:
                    law("G3", child not in failed, "run {} finds the old failure of {}", run, child)
            self.take_up_again(run)
        failed -= {run}
        above = self.parents[run]
        if not self.rules.retry_comes_to_children_first:
            following = min((each for each in failed if each > run), default=None)
        else:
            following = above[0] if above else None
        self.client = None if following is None else (following, failed)


def possible(shape: Shape, t: Tree) -> Iterator[Move]:
    """Yield the moves from here."""
    for number, run in enumerate(t.runs):
        phase, leaf = run.phase, not shape.groups[number]
        if leaf:
            if phase in ("queued", "leased"):
                yield ("ok", number)
                yield ("end_round", number) if run.asked else ("bad", number)
        elif phase == "queued":
            yield from (("claim", number, word) for word in World(shape, Rules(), t).found(number))
            if shape.fails:
                yield ("break", number)
        elif phase == "leased":
            yield ("commit", number)
            yield ("die", number)
        if run.follow_up:
            yield from _variants(shape, t, ("call", number), number)
        if number not in shape.people:
            continue
        if phase in ("queued", "leased", "parked") or (phase == "stopped" and run.only):
            rounds = (False, True) if leaf and phase == "queued" else (False,)
            for in_round in rounds:
                for only in (False,) if leaf else (False, True):
                    yield ("stop", number, only, False, in_round)
            if shape.modes:
                yield ("stop", number, False, True, False)
        if phase in ("stopped", "errored"):
            yield ("take_up", number)
    for walker in t.walkers:
        yield from _variants(shape, t, ("go_on", walker), walker[0])
    for starter in t.starters:
        yield ("start", *starter, False)
        yield ("start", *starter, True)
    if t.client is not None:
        yield ("retry_next",)
        yield ("forget",)
    elif shape.tree_retries and t.runs[0].phase == "errored":
        yield ("retry_tree",)


def _variants(shape: Shape, t: Tree, move: Move, run: int) -> Iterator[Move]:
    """Yield the call, and a second one if it may reach a leaf in a round."""
    yield (*move, False)
    leaves = [child for group in shape.groups[run] for child in group if not shape.groups[child]]
    if t.runs[run].walk and any(t.runs[leaf].phase == "queued" for leaf in leaves):
        yield (*move, True)


def act(shape: Shape, rules: Rules, t: Tree, move: Move) -> Tree:
    """Make a move.

    Raises:
        Violation: It breaks a law.
    """
    w = World(shape, rules, t)
    match move:
        case ("claim", run, word):
            w.change(run, phase="leased", does=word)
        case ("commit", run):
            w.commit(run)
        case ("die", run):
            w.change(run, phase="queued", does="")
            if t.runs[run].asked:
                w.stop_here(run)
        case ("ok", run):
            w.complete(run)
        case ("bad" | "break", run):
            w.fail(run)
        case ("end_round", run):
            w.stop_here(run)
        case ("call", run, in_round):
            w.reconcile(run, None, in_round)
        case ("go_on", walker, in_round):
            w.walkers.discard(walker)
            w.reconcile(walker[0], walker, in_round)
        case ("start", run, number, place, again):
            if not again:
                w.starters.discard((run, number, place))
            w.start(run, number, place)
        case ("stop", run, only, now, in_round):
            w.stop(run, only, now, in_round)
        case ("take_up", run):
            w.take_up_again(run)
        case ("retry_tree",):
            w.begin_retry(0)
        case ("retry_next",):
            w.retry_next()
        case ("forget",):
            w.client = None
        case _:
            raise AssertionError(move)
    return w.frozen()


def lawful(shape: Shape, t: Tree) -> None:
    """Check the laws that always hold."""
    for number, run in enumerate(t.runs):
        above = parents(shape)[number]
        if above is not None:
            _lawful_child(shape, t, number, run, above)
    for number, run in enumerate(t.runs):
        for place, group in enumerate(run.groups):
            if group.state != "open" or run.phase in RESTING:
                continue
            joined = place + 1 < run.step if len(run.groups) > 1 else run.step > 0
            law("C4", not joined, "the step that joined group {} of run {} is over", place, number)
            law(
                "V7",
                group.started == len(group.ends) or run.follow_up,
                "children of group {} of run {} are never started",
                place,
                number,
            )
    w = World(shape, Rules(), t)
    for number, run in enumerate(t.runs):
        if run.phase == "parked":
            law("C3", not w.is_over(number, w.waits_for(number)), "run {} waits in vain", number)


def _lawful_child(
    shape: Shape, t: Tree, number: int, run: Run, above: tuple[int, int, int]
) -> None:
    parent_number, group_number, place = above
    parent = t.runs[parent_number]
    group = parent.groups[group_number]
    if run.phase == "none":
        return
    lives = run.phase not in RESTING
    has_ended = run.phase in ENDED or (run.phase == "stopped" and run.person)
    if group.state == "open":
        end = group.ends[place]
        law("C2", not has_ended or end, "run {} has ended, and its parent does not know", number)
        law(
            "C2",
            has_ended or not end,
            "run {} is {}, and its parent knows of an end",
            number,
            run.phase,
        )
    wanted = parent.phase not in RESTING and group.state == "open"
    if wanted:
        law(
            "V7",
            (parent.follow_up and parent.walk) or run.phase != "stopped" or run.person,
            "run {} was stopped with the tree, and is not continued",
            number,
        )
    if lives and not run.asked:
        _lawful_living(shape, t, number)


def _lawful_living(shape: Shape, t: Tree, number: int) -> None:
    """Check that a run below a run at rest does not go on, unless a walk will come or a person
    continued it.

    If a run was stopped alone, its children go on by themselves, whatever becomes of the runs above
    it.
    """
    run, pending = number, False
    while not t.runs[run].free and (above := parents(shape)[run]) is not None:
        parent = t.runs[above[0]]
        pending = pending or parent.asked or (parent.follow_up and parent.walk)
        is_open = parent.groups[above[1]].state == "open"
        alone = parent.phase == "stopped" and parent.only and is_open
        if alone:
            return
        stops = parent.phase in RESTING or not is_open
        text = "run {} goes on below run {}, which is {}"
        law("C7", pending or not stops, text, number, above[0], parent.phase)
        run = above[0]


@dataclass
class Found:
    """The result of a search; ``trace``: the shortest way to the violation."""

    states: int
    moves: int
    violation: Violation | None = None
    trace: tuple[Move, ...] = ()


def search(shape: Shape, rules: Rules | None = None) -> Found:
    """Search every state that can be reached, and from each a way to rest."""
    rules = rules or Rules()
    start = first(shape)
    came: dict[Tree, tuple[Tree | None, Move]] = {start: (None, ())}
    back: dict[Tree, list[Tree]] = {}
    todo, moves = deque(came), 0
    while todo:
        before = todo.popleft()
        for move in possible(shape, before):
            moves += 1
            try:
                after = act(shape, rules, before, move)
                lawful(shape, after)
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
    return all(run.phase in (*RESTING, "none") and not run.follow_up for run in t.runs)


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
