"""Watched flow, contexts and store: the real ones, which report the boundaries of a round."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol, Self

from perdure.flows.core.outcomes import Command, Outcome
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.flow import Flow
from perdure.worker.domain.record import GROUPS
from perdure.worker.engine.heartbeat import Heartbeat, Lease
from perdure.worker.store import CommitReply, Store
from perdure.worker.store.keys import CHILD_INDEXES
from perdure.worker.store.rounds import RoundTransitions
from perdure.worker.testing.faults import Place


class Observer(Protocol):
    """The receiver of what a watched flow and a watched store report in the crash lab.

    An exception from it ends the round there, like the process's death.
    """

    def passed(self, place: Place, label: str = "") -> None:
        """Handle that a round has reached a boundary, where a fault can be injected."""

    def began(self, context: RoundContext) -> None:
        """Handle that a flow in the crash lab is about to run a node."""

    def called(self, command: Command, key: str) -> None:
        """Handle that a command with this idempotency key is about to be executed."""

    def key_read(self) -> None:
        """Handle that the command that is being executed has read its idempotency key."""

    def played(self, node: str, outcome: Outcome) -> None:
        """Handle that a flow in the crash lab has run a node, with this outcome."""

    def ending(self) -> None:
        """Handle that the state server is about to be asked to end the run."""

    def settled(self, kind: str, word: str, detail: str, named: dict[str, Any]) -> None:
        """Handle the state server's reply to the commit of a round."""


@dataclass(frozen=True)
class WatchedContext(RoundContext):
    """A round's context that reports the commands executed with it."""

    watcher: Observer | None = None

    @classmethod
    def of(cls, context: RoundContext, watcher: Observer) -> Self:
        """Return a copy of a round's context that reports its commands to the crash lab.

        The copy shares with the original what the round remembers.
        """
        return cls(
            **{each.name: getattr(context, each.name) for each in fields(RoundContext)},
            watcher=watcher,
        )

    @property
    def idempotency_key(self) -> str:
        """The command's idempotency key. Reading it is reported to the crash lab."""
        if self.watcher is not None:
            self.watcher.key_read()
        return super().idempotency_key

    def carrying_out(self, command: Command) -> RoundContext:
        """Report to the crash lab that a command begins, and return the command's context."""
        inside = super().carrying_out(command)
        if self.watcher is not None:
            self.watcher.called(command, RoundContext.idempotency_key.fget(inside))  # type: ignore[attr-defined]
        return inside


def watched(flow: Flow, watcher: Observer) -> Flow:
    """Make a fresh flow object report the begin and end of its nodes, and return it.

    The reports go to ``watcher``, a part of the crash lab.
    """
    play = flow.play

    def watched_play(node: str, context: RoundContext) -> Outcome:
        """Run a node of the flow, and report its begin and its end to the crash lab."""
        watcher.began(context)
        outcome = play(node, WatchedContext.of(context, watcher))
        watcher.played(node, outcome)
        return outcome

    flow.play = watched_play  # type: ignore[method-assign]
    return flow


class WatchedRounds(RoundTransitions):
    """The transitions of rounds, which report commits to the crash lab."""

    watcher: Observer | None = None

    def commit_and_fetch(self, run_id: str, *, kind: str, **named: Any) -> CommitReply:
        """Commit a round, and report the commit and its reply to the crash lab."""
        if self.watcher is None:
            return super().commit_and_fetch(run_id, kind=kind, **named)
        self.watcher.passed("committing")
        if kind == "end":
            self.watcher.ending()
        reply = super().commit_and_fetch(run_id, kind=kind, **named)
        self.watcher.settled(kind, reply.word, reply.detail, named)
        self.watcher.passed("committed")
        return reply


class WatchedStore(Store):
    """A store on the lab's clock that reports commits and lets the lab take messages."""

    @cached_property
    def rounds(self) -> WatchedRounds:
        """The transitions of rounds, which report commits to the crash lab."""
        return WatchedRounds(self, self.reads)

    def take(self) -> str | None:
        """Take the next Celery message from the queues and return it, as a worker receives it.

        The result is None if all queues are empty.
        """
        with self._answered():
            popped: Any = self.redis.lmpop(2, *self.keys.queue_names, direction="RIGHT")
        return None if popped is None else str(popped[1][0])

    def due(self, run_id: str) -> int | None:
        """Return the time in ms at which the run stands in the due set, or None if it does not."""
        with self._answered():
            score: Any = self.redis.zscore(self.keys.due, run_id)
        return None if score is None else int(score)

    def forget(self, run_id: str) -> None:
        """Delete the crash lab's run from the server, and all else under the lab's prefix."""
        fields = self.reads.fields(run_id) or {}
        own = [*self.keys.of_run(run_id), self.keys.mailbox(run_id), self.keys.live_text(run_id)]
        own += [self.keys.group(run_id, group) for group in fields.get(GROUPS, "").split()]
        for child in self.family.children(run_id, fields.get("nonce", "")):
            self.forget(child)
        with self._answered():
            indexes = map(self.keys.index, CHILD_INDEXES)
            self.redis.delete(*own, *self.keys.of_sweep(), *indexes, self.keys.follow_ups)


class LabHeartbeat(Heartbeat):
    """A heartbeat without a thread: it sends one only when ``beat`` is called."""

    def hold(self, run_id: str, token: str, claim: str, time_limit: float | None) -> Lease:
        """Register the lease of a round without starting the heartbeat's thread; see Heartbeat.

        Time stands still in a crash lab, so no round exceeds its time limit.
        """
        lease = Lease(run_id, token, claim)
        with self._changed:
            self._leases.add(lease)
        return lease
