"""The real flow, context and store, changed so that they report a round's boundaries to the lab."""

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
    """Receiver of the reports of a watched flow and store.

    An exception of a method ends the round at that moment, like the death of the process.
    """

    def passed(self, place: Place, label: str = "") -> None:
        """Handle that a round has reached a boundary. The lab can inject a fault here.

        Args:
            place: The kind of boundary.
            label: The name of the ``point``, or of the part that ran.
        """

    def began(self, context: RoundContext) -> None:
        """Handle that a node is about to run."""

    def called(self, command: Command, key: str) -> None:
        """Handle that a command is about to be executed.

        Args:
            key: The command's idempotency key.
        """

    def key_read(self) -> None:
        """Handle that the current command read its idempotency key."""

    def played(self, node: str, outcome: Outcome) -> None:
        """Handle that a node has run, with its outcome."""

    def ending(self) -> None:
        """Handle that a round is about to commit the end of the run."""

    def settled(self, kind: str, word: str, detail: str, named: dict[str, Any]) -> None:
        """Handle the state server's reply to a commit.

        Args:
            kind: The kind of the commit, such as ``next`` or ``end``.
            word, detail: The first word of the reply, and the text after it.
            named: The arguments of the commit's script, by name.
        """


@dataclass(frozen=True)
class WatchedContext(RoundContext):
    """A round's context that reports the round's commands to ``watcher``.

    If ``watcher`` is None, nothing is reported.
    """

    watcher: Observer | None = None

    @classmethod
    def of(cls, context: RoundContext, watcher: Observer) -> Self:
        """Return a copy of a context that reports its commands to ``watcher``.

        Both contexts share the remembered values.
        """
        return cls(
            **{each.name: getattr(context, each.name) for each in fields(RoundContext)},
            watcher=watcher,
        )

    @property
    def idempotency_key(self) -> str:
        """The command's idempotency key. Each read of the key is reported to the crash lab."""
        if self.watcher is not None:
            self.watcher.key_read()
        return super().idempotency_key

    def carrying_out(self, command: Command) -> RoundContext:
        """Report that a command begins, and return the context for the command."""
        inside = super().carrying_out(command)
        if self.watcher is not None:
            self.watcher.called(command, RoundContext.idempotency_key.fget(inside))  # type: ignore[attr-defined]
        return inside


def watched(flow: Flow, watcher: Observer) -> Flow:
    """Make a flow report the start and end of each node to ``watcher``, and return the flow."""
    play = flow.play

    def watched_play(node: str, context: RoundContext) -> Outcome:
        """Run a node, and report its begin and end."""
        watcher.began(context)
        outcome = play(node, WatchedContext.of(context, watcher))
        watcher.played(node, outcome)
        return outcome

    flow.play = watched_play  # type: ignore[method-assign]
    return flow


class WatchedRounds(RoundTransitions):
    """The store's transitions of rounds. Each commit is reported to ``watcher``, if it is set."""

    watcher: Observer | None = None

    def commit_and_fetch(self, run_id: str, *, kind: str, **named: Any) -> CommitReply:
        """Commit a round. Report the commit and the state server's reply to ``watcher``."""
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
    """A store on the lab's clock that reports commits, and from which the lab takes messages."""

    @cached_property
    def rounds(self) -> WatchedRounds:
        """The transitions of rounds, with a report of each commit to the lab."""
        return WatchedRounds(self, self.reads)

    def take(self) -> str | None:
        """Remove the next Celery message from the queues, and return it.

        Returns:
            The message as a worker receives it, or None if all queues are empty.
        """
        with self._answered():
            popped: Any = self.redis.lmpop(2, *self.keys.queue_names, direction="RIGHT")
        return None if popped is None else str(popped[1][0])

    def due(self, run_id: str) -> int | None:
        """Return the time at which the run is due, in ms. None if the run is not in the due set."""
        with self._answered():
            score: Any = self.redis.zscore(self.keys.due, run_id)
        return None if score is None else int(score)

    def forget(self, run_id: str) -> None:
        """Delete a run and its child runs, and the sweeper's keys under the lab's prefix."""
        fields = self.reads.fields(run_id) or {}
        own = [*self.keys.of_run(run_id), self.keys.mailbox(run_id), self.keys.live_text(run_id)]
        own += [self.keys.group(run_id, group) for group in fields.get(GROUPS, "").split()]
        for child in self.family.children(run_id, fields.get("nonce", "")):
            self.forget(child)
        with self._answered():
            indexes = map(self.keys.index, CHILD_INDEXES)
            self.redis.delete(*own, *self.keys.of_sweep(), *indexes, self.keys.follow_ups)


class LabHeartbeat(Heartbeat):
    """A heartbeat without a thread: it extends leases only when ``beat`` is called."""

    def hold(self, run_id: str, token: str, claim: str, time_limit: float | None) -> Lease:
        """Register a round's lease without a heartbeat thread.

        The arguments are those of ``Heartbeat.hold``, but ``time_limit`` is ignored, because time
        stands still in a crash lab.
        """
        lease = Lease(run_id, token, claim)
        with self._changed:
            self._leases.add(lease)
        return lease
