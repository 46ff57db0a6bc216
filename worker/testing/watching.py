"""Watching: a flow, its contexts and the store, each as they are, with somebody told of the boundaries that a round passes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Protocol, Self

from flows.base import Flow
from flows.context import RoundContext
from flows.outcomes import Command, Outcome
from worker.heartbeat import Heartbeat, Lease
from worker.store import Fetched, Store
from worker.testing.boundaries import Place


class Watcher(Protocol):
    """Who is told. What it raises ends the round there, as a death of its process would."""

    def passed(self, place: Place, label: str = "") -> None:
        """The round in hand passed a boundary."""

    def began(self, context: RoundContext) -> None:
        """The flow is about to play a node."""

    def called(self, command: Command, key: str) -> None:
        """A command is about to be called."""

    def key_read(self) -> None:
        """The command in hand looked at its idempotency key."""

    def played(self, node: str, outcome: Outcome) -> None:
        """The flow has played a node."""

    def settled(self, kind: str, word: str, detail: str, named: dict[str, Any]) -> None:
        """The commit's answer."""


@dataclass(frozen=True)
class WatchedContext(RoundContext):
    """A round's context that tells of the commands carried out with it."""

    watcher: Watcher | None = None

    @classmethod
    def of(cls, context: RoundContext, watcher: Watcher) -> Self:
        """The same context, watched; it shares what the round remembers."""
        return cls(**{each.name: getattr(context, each.name) for each in fields(RoundContext)}, watcher=watcher)

    @property
    def idempotency_key(self) -> str:
        """See RoundContext."""
        if self.watcher is not None:
            self.watcher.key_read()
        return super().idempotency_key

    def carrying_out(self, command: Command) -> RoundContext:
        """See RoundContext."""
        inside = super().carrying_out(command)
        if self.watcher is not None:
            self.watcher.called(command, RoundContext.idempotency_key.fget(inside))  # type: ignore[attr-defined]
        return inside


def watched(flow: Flow, watcher: Watcher) -> Flow:
    """``flow``, a fresh object, telling ``watcher`` when it begins and ends a round."""
    play = flow.play

    def watched_play(node: str, context: RoundContext) -> Outcome:
        watcher.began(context)
        outcome = play(node, WatchedContext.of(context, watcher))
        watcher.played(node, outcome)
        return outcome

    flow.play = watched_play  # type: ignore[method-assign]
    return flow


class WatchedStore(Store):
    """A store on the lab's clock that tells of commits, and that the lab can take messages from."""

    watcher: Watcher | None = None

    def commit_and_fetch(self, run_id: str, *, kind: str, **named: Any) -> tuple[str, str, Fetched | None]:
        """See Store."""
        if self.watcher is None:
            return super().commit_and_fetch(run_id, kind=kind, **named)
        self.watcher.passed("committing")
        word, detail, fetched = super().commit_and_fetch(run_id, kind=kind, **named)
        self.watcher.settled(kind, word, detail, named)
        self.watcher.passed("committed")
        return word, detail, fetched

    def take(self) -> str | None:
        """The next message, as a worker receives it; None where there is none."""
        with self._answered():
            found: Any = self.redis.lmpop(2, *self.keys.queue_names, direction="RIGHT")
        return None if found is None else str(found[1][0])

    def due(self, run_id: str) -> int | None:
        """When somebody must have moved the run (ms); None for never."""
        with self._answered():
            score: Any = self.redis.zscore(self.keys.due, run_id)
        return None if score is None else int(score)

    def forget(self, run_id: str) -> None:
        """Remove the run and everything else under the prefix."""
        with self._answered():
            self.redis.delete(*self.keys.of_run(run_id), *self.keys.of_sweep())


class Pulse(Heartbeat):
    """A heartbeat without a thread: it beats when ``beat`` is called."""

    def hold(self, run_id: str, token: str, claim: str, time_limit: float | None) -> Lease:
        """See Heartbeat; time stands still in a lab, so no round's is ever over."""
        lease = Lease(run_id, token, claim)
        with self._changed:
            self._leases.add(lease)
        return lease
