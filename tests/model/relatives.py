"""The children of run r0 on the real side of a walk, and the callers who look after them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perdure.flows.rounds.children import Need
from perdure.worker.store import Claim, Store
from perdure.worker.store.replies import ChildrenStep
from tests.model.configurations import Config
from tests.model.state import Family
from tests.support import runs
from tests.support.child_runs import child_id, group_of, park_on_children, start_reply

PARENT, GROUP = "r0", "0.0"
COUNTED = ("ok", "bad", "held")
#: Milliseconds. A walk ends long before.
NEVER = 10**10


@dataclass
class Caller:
    """A process with the follow-up; ``key`` is its state in the model."""

    key: tuple[str, int, bool] = ("looks", 0, True)
    walk: str | None = None
    start: str | None = None
    step: ChildrenStep = field(default_factory=lambda: ChildrenStep("done"))


class Relatives:
    """The work of walks on the children of their parent."""

    def __init__(self, store: Store, config: Config) -> None:
        self.store, self.config = store, config
        self.callers: list[Caller] = []
        self.claims: dict[int, Claim] = {}
        self.walk = self._walk()

    def _walk(self) -> str | None:
        return (self.store.reads.fields(PARENT) or {}).get("walk")

    def _epoch(self) -> str:
        return (self.store.reads.fields(PARENT) or {}).get("epoch", "")

    def _id(self, place: int) -> str:
        return child_id(self.store, place, GROUP, PARENT)

    def _need(self, step: int) -> tuple[int, int, int]:
        need = Need.of(self.config.join, self.config.children)  # type: ignore[arg-type]
        if self.config.outlives and step == 0:
            need = Need.of_nothing(self.config.children)
        return need.good, need.bad, need.ended

    def park(self, granted: Claim) -> tuple[str, str]:
        config = self.config
        return park_on_children(
            self.store,
            granted,
            self._need(int(granted.fields["step"])),
            config.children,
            config.limit,
            look=NEVER,
            group=GROUP,
            hold=1 if config.holds else None,
            kept=1 if config.outlives else None,
        )

    def is_joined(self, step: int) -> bool:
        """Return whether the wait is over for a context."""
        group = group_of(self.store, GROUP, PARENT)
        if not group:
            return False
        good, bad = int(group.get("ok", 0)), int(group.get("bad", 0))
        enough, too_many, ended = self._need(step)
        return good >= enough or bad >= too_many or good + bad >= ended

    def align(self, family: Family) -> None:
        """Put the callers in the model's order.

        A caller in a walk has to begin again if another walk was requested.
        """
        walk = self._walk()
        for caller in self.callers:
            does, place, fresh = caller.key
            stale = walk != self.walk and does == "looks" and place > 0
            caller.key = (does, place, fresh and not stale)
        self.walk = walk
        self.callers.sort(key=lambda caller: caller.key)
        assert [caller.key for caller in self.callers] == list(family.callers)

    def tell(self) -> None:
        self.callers.append(Caller())

    def call(self, number: int, again: bool) -> str:
        caller = self.callers.pop(number)
        if caller.key[0] == "starts":
            first = caller.step.first
            reply = start_reply(self.store, run_id=PARENT, group=GROUP, first=first)
            if again:
                self.callers.append(caller)
            elif not reply.has_ended_follow_up:
                self.callers.append(Caller())
            if reply.word == "stale":
                return f"stale {reply.detail}"
            return "over" if reply.has_ended_follow_up else reply.word
        step = self.store.family.reconcile(PARENT, caller.walk, caller.start, most=1)
        if step.word == "start":
            self.callers.append(Caller(("starts", step.first, True), step=step))
            return f"start {step.first}"
        if step.word == "more":
            place = int(str(step.start).split()[1])
            self.callers.append(Caller(("looks", place, True), step.walk, step.start))
        if step.word == "moved":
            self.callers.append(Caller())
        return step.word

    def reach(self, number: int, place: int) -> str:
        """Make a call that may reach a child in a round; a child that is not asked to stop leaves
        it again.
        """
        self.claim(place)
        reply = self.call(number, again=False)
        if self.life(place) != "asked":
            assert runs.commit(self.store, self.claims.pop(place), "give_back") == ("ok", "queued")
        return reply

    def claim(self, place: int) -> Claim:
        """Claim a round of the child."""
        run_id = self._id(place)
        fields = runs.hash_of(self.store, run_id)
        if (
            fields["phase"] == "waiting"
        ):  # it goes on with its parent: a sweep would bring its message
            message = runs.named(run_id, int(fields["epoch"]), int(fields["step"]))
            self.store.redis.hset(
                self.store.keys.run(run_id), mapping={"message": message, "phase": "queued"}
            )
            self.store.redis.hdel(self.store.keys.run(run_id), "waiting_for", "waiting_until")
        claim = self.claims[place] = runs.claim(self.store, run_id, lease=NEVER)
        return claim

    def end(self, place: int, word: str) -> None:
        """End the child's round, and with it the child, or stop the child as requested."""
        claim = self.claims.pop(place, None) or self.claim(place)
        self.claims.pop(place, None)
        told: dict[str, Any] = {
            "ok": lambda: runs.commit_end(self.store, claim),
            "bad": lambda: runs.fail_round(self.store, claim, fatal=1),
            "stopped": lambda: runs.commit_next(self.store, claim),
        }
        expected = {"ok": "completed", "bad": "errored", "stopped": "stopped"}
        assert told[word]() in (("ok", expected[word]), ("ok", "stopped"))

    def stop(self, place: int) -> None:
        assert runs.stop(self.store, run_id=self._id(place))[0] == "stopped"

    def take_up(self, place: int) -> None:
        run_id = self._id(place)
        does = runs.retry if runs.phase(self.store, run_id) == "errored" else runs.resume
        assert does(self.store, f"up-{place}", run_id)[0] == "queued"

    def life(self, place: int) -> str:
        """Return a child's state in the model's words."""
        fields = self.store.reads.fields(self._id(place))
        if fields is None:
            return "none"
        phase = fields["phase"]
        if phase in ("completed", "errored"):
            return "ok" if phase == "completed" else "bad"
        if phase == "stopped":
            return "tree" if "stop_tree" in fields else "stopped"
        if fields["stop_current_execution"] == "stop_requested":
            return "asked"
        return "own" if fields.get("own") in ("-", self._epoch()) else "live"

    def difference(self, family: Family) -> str:
        """Describe the first difference of the children from the model's; return "" if there is
        none.
        """
        store = self.store
        fields, group = store.reads.fields(PARENT) or {}, group_of(store, GROUP, PARENT)
        ends = [
            "held" if f"held:{place}" in group else group.get(f"end:{place}", "").partition(" ")[0]
            for place in range(self.config.children)
        ]
        is_open = bool(group) and "dropped" not in group
        real: dict[str, Any] = {
            "group": is_open,
            "children": tuple(self.life(place) for place in range(self.config.children)),
            "follow-up": store.redis.zscore(store.keys.follow_ups, PARENT) is not None,
            "walk": fields.get("walk") != fields.get("walked"),
            "started": int(group["started"]) if is_open else family.started,
            "ends": tuple(ends) if is_open else family.ends,
            "spared": "stop_only" in fields,
            "counts": tuple(int(group.get(name, 0)) for name in COUNTED) if is_open else None,
        }
        model = {
            "group": family.group == "open",
            "children": family.children,
            "follow-up": family.follow_up,
            "walk": family.walk,
            "started": family.started,
            "ends": family.ends,
            "counts": tuple(family.ends.count(name) for name in COUNTED) if is_open else None,
            "spared": family.spared,
        }
        wrong = {name: (real[name], model[name]) for name in model if real[name] != model[name]}
        return f"children, (real, model): {wrong}" if wrong else ""
