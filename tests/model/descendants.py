"""The moves of generations.py on the real Lua scripts, and walks that compare the two after each
move.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from perdure.worker.domain.children import child_of
from perdure.worker.store import Claim, Store
from tests.model.generations import (
    Group,
    Move,
    Rules,
    Run,
    Shape,
    Tree,
    act,
    first,
    parents,
    possible,
)
from tests.support import runs
from tests.support.child_runs import group_of, park_on_children, start_children

ROOT = "r"
#: Milliseconds. A walk ends long before.
NEVER = 10**10
#: People's moves are made less often than the family's own moves.
LIKELY = {"stop": 0.15, "break": 0.1, "take_up": 0.5, "call": 2.0, "start": 2.0, "go_on": 2.0}


class Descendants:
    """The family on the real side."""

    def __init__(self, store: Store, shape: Shape) -> None:
        self.store, self.shape = store, shape
        self.claims: dict[int, Claim] = {}
        #: The walk and the position of a request in the middle of a walk, by run, group and place.
        self.walks: dict[tuple[int, int, int], tuple[str | None, str | None]] = {}
        self.operations = 0
        runs.new_run(store, ROOT)

    def id(self, run: int) -> str:
        return self._id_and_nonce(run)[0]

    def _id_and_nonce(self, run: int) -> tuple[str, str]:
        """Return both also for a run that does not exist yet, below another that does not."""
        above = parents(self.shape)[run]
        if above is None:
            return ROOT, runs.hash_of(self.store, ROOT)["nonce"]
        parent, group, place = above
        return child_of(*self._id_and_nonce(parent), _name(group), place)

    def make(self, move: Move, before: Tree) -> None:
        getattr(self, f"_{move[0]}")(before, *move[1:])

    def _operation(self) -> str:
        self.operations += 1
        return f"op-{self.operations}"

    def _claim(self, before: Tree, run: int, word: str = "") -> Claim:
        run_id = self.id(run)
        fields = runs.hash_of(self.store, run_id)
        if fields["phase"] == "waiting":
            # A sweep would bring the message of a run that goes on with its parent, and end a hold.
            message = runs.named(run_id, int(fields["epoch"]), int(fields["step"]))
            key = self.store.keys.run(run_id)
            self.store.redis.hset(key, mapping={"message": message, "phase": "queued"})
            self.store.redis.hdel(key, "waiting_for", "waiting_until", "held_token", "held_until")
        claim = self.claims[run] = runs.claim(self.store, run_id, lease=NEVER)
        return claim

    def _commit(self, before: Tree, run: int) -> None:
        claim, now = self.claims.pop(run), before.runs[run]
        kept = len(now.groups) > 1
        number = max(now.step - 1, 0) if kept else 0
        if now.does == "opens":
            number = next(i for i, group in enumerate(now.groups) if group.state == "none")
        joined = _name(number) if kept and now.step else ""
        if now.does in ("parks", "opens"):
            total = len(now.groups[number].ends)
            need = (
                (1, total + 1, total)
                if self.shape.first and total > 1
                else (total + 1,) * 2 + (total,)
            )
            options: dict[str, Any] = {"group": _name(number), "kept": 1 if kept else None}
            if now.does == "opens":
                need = (0, 0, 0)
            park_on_children(self.store, claim, need, total, look=NEVER, **options)
        elif now.does == "next":
            runs.commit_next(self.store, claim, options={"take": "", "joined": joined})
        elif now.does == "ends":
            runs.commit_end(self.store, claim, options={"take": "", "joined": joined})
        else:
            runs.fail_round(self.store, claim, fatal=1)

    def _die(self, before: Tree, run: int) -> None:
        """Drop the claim, without the time that passes until a sweep finds it."""
        runs.commit(self.store, self.claims.pop(run), "give_back")

    def _break(self, before: Tree, run: int) -> None:
        runs.fail_round(self.store, self._claim(before, run), fatal=1)
        del self.claims[run]

    def _round_of(self, before: Tree, run: int) -> Claim:
        claim = self.claims.get(run) or self._claim(before, run)
        del self.claims[run]
        return claim

    def _ok(self, before: Tree, run: int) -> None:
        assert runs.commit_end(self.store, self._round_of(before, run)) == ("ok", "completed")

    def _bad(self, before: Tree, run: int) -> None:
        claim = self._round_of(before, run)
        assert runs.fail_round(self.store, claim, fatal=1) == ("ok", "errored")

    def _end_round(self, before: Tree, run: int) -> None:
        assert runs.commit_next(self.store, self._round_of(before, run)) == ("ok", "stopped")

    def _reconcile(
        self, before: Tree, run: int, position: tuple[str | None, str | None], in_round: bool
    ) -> None:
        leaves = [child for group in self.shape.groups[run] for child in group if in_round]
        leaves = [leaf for leaf in leaves if before.runs[leaf].phase == "queued"]
        for leaf in leaves:
            self._claim(before, leaf)
        walk, start = position
        step = self.store.family.reconcile(self.id(run), walk, start, most=1)
        if step.word == "more":
            group, place = str(step.start).split()
            self.walks.setdefault((run, int(group[2:]), int(place)), (step.walk, step.start))
        for leaf in leaves:
            fields = runs.hash_of(self.store, self.id(leaf))
            if fields["stop_current_execution"] != "stop_requested" and fields["phase"] == "leased":
                runs.commit(self.store, self.claims.pop(leaf), "give_back")

    def _call(self, before: Tree, run: int, in_round: bool) -> None:
        self._reconcile(before, run, (None, None), in_round)

    def _go_on(self, before: Tree, walker: tuple[int, int, int, bool], in_round: bool) -> None:
        self._reconcile(before, walker[0], self.walks.pop(walker[:3]), in_round)

    def _start(self, before: Tree, run: int, number: int, place: int, again: bool) -> None:
        count = len(self.shape.groups[run][number]) - place
        start_children(self.store, count, run_id=self.id(run), group=_name(number), first=place)

    def _stop(self, before: Tree, run: int, only: bool, now: bool, in_round: bool) -> None:
        if in_round:
            self._claim(before, run)
        mode = "now" if now else "graceful"
        self.store.runs.request_stop(self.id(run), op=self._operation(), mode=mode, only=only)

    def _take_up(self, before: Tree, run: int) -> None:
        does = runs.retry if before.runs[run].phase == "errored" else runs.resume
        assert does(self.store, self._operation(), self.id(run))[0] in ("queued", "waiting")

    def _retry_tree(self, before: Tree) -> None:
        """Do nothing: the client has read, and not yet sent."""

    def _retry_next(self, before: Tree) -> None:
        assert before.client is not None
        if before.runs[before.client[0]].phase == "errored":
            self._take_up(before, before.client[0])

    def _forget(self, before: Tree) -> None:
        """Do nothing: the client died."""

    def difference(self, after: Tree) -> str:
        """Describe the first difference of the real family from the model; return "" if there is
        none.
        """
        fresh = {each[:3] for each in after.walkers}
        self.walks = {key: walk for key, walk in self.walks.items() if key in fresh}
        for number, run in enumerate(after.runs):
            if run.phase != "leased":
                self.claims.pop(number, None)
            is_there = self.store.reads.fields(self.id(number)) is not None
            if is_there != (run.phase != "none"):
                return f"run {number} was {'' if is_there else 'not '}started"
            model = run._replace(does="", person=False, free=False)
            if is_there and (real := self._seen(number, model)) != model:
                return f"run {number}: {real} and not {model}"
        return "" if fresh == set(self.walks) else f"walks {sorted(self.walks)} and not {fresh}"

    def _seen(self, number: int, model: Run) -> Run:
        run_id = self.id(number)
        fields = runs.hash_of(self.store, run_id)
        above = parents(self.shape)[number]
        owners = ["-"]
        if above is not None:
            owners.append(runs.hash_of(self.store, self.id(above[0]))["epoch"])
        return Run(
            phase="queued" if fields["phase"] == "waiting" else fields["phase"],
            step=int(fields["step"])
            if model.groups and fields["phase"] != "completed"
            else model.step,
            asked=fields.get("stop_current_execution") == "stop_requested",
            now=fields.get("stop_mode") == "now",
            tree="stop_tree" in fields,
            only="stop_only" in fields,
            own=fields.get("own") in owners,
            follow_up=self.store.redis.zscore(self.store.keys.follow_ups, run_id) is not None,
            walk=fields.get("walk") != fields.get("walked"),
            groups=tuple(
                self._group(run_id, fields, place, group)
                for place, group in enumerate(model.groups)
            ),
        )

    def _group(self, run_id: str, fields: dict[str, str], number: int, model: Group) -> Group:
        group = group_of(self.store, _name(number), run_id)
        if not group or _name(number) not in fields.get("groups", "").split("\n"):
            return model if model.state in ("none", "gone") else Group("not there")
        ends = tuple(
            group.get(f"end:{place}", "").partition(" ")[0] for place in range(len(model.ends))
        )
        counted = tuple(int(group[word]) for word in ("ok", "bad"))
        state = "dropped" if "dropped" in group else "open"
        if counted != (ends.count("ok"), ends.count("bad")):
            state = f"counted {counted}"
        return Group(state, int(group["started"]), ends)


def _name(group: int) -> str:
    return f"0.{group}"


def walk(store: Store, shape: Shape, seed: int, length: int) -> list[Move]:
    """Make random moves on both sides, and return them.

    Raises:
        AssertionError: The two sides differ.
    """
    chance = random.Random(seed)
    state, real, made = first(shape), Descendants(store, shape), []
    while len(made) < length:
        moves = list(possible(shape, state))
        if not moves:
            break
        (move,) = chance.choices(moves, [LIKELY.get(each[0], 1.0) for each in moves])
        made.append(move)
        state = _both(real, shape, state, made)
    return made


def follow(store: Store, shape: Shape, trace: Iterable[Move]) -> int:
    """Make these moves on both sides until one is impossible, and return how many were made."""
    state, real, made = first(shape), Descendants(store, shape), []
    for move in trace:
        if move not in set(possible(shape, state)):
            break
        made.append(move)
        state = _both(real, shape, state, made)
    return len(made)


def _both(real: Descendants, shape: Shape, state: Tree, made: list[Move]) -> Tree:
    real.make(made[-1], state)
    after = act(shape, Rules(), state, made[-1])
    difference = real.difference(after)
    assert not difference, f"{made}: {difference}"
    return after
