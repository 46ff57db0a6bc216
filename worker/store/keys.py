"""The names of all Redis keys, each defined once, and what each key holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

#: The indexes, in the order in which every script expects them.
INDEXES = ("live", "interrupted", "stopped", "completed", "errored")

#: The last part of a flow set's queue name begins with this.
OF_SET = "flows-"

#: The roles. Each has a broker list of its own.
ROLES = ("controller", "executor")


def role_of(queue: str) -> str:
    """Return the role that a broker list is for."""
    return queue.rpartition(".")[2]


@dataclass(frozen=True)
class Keys:
    """The keys under one prefix. Two prefixes on one server are independent."""

    prefix: str = "perdure"

    def run(self, run_id: str) -> str:
        """Return the hash with the run's ExecutionState and all that the transitions store."""
        return f"{self.prefix}:run:{run_id}"

    def memory(self, run_id: str) -> str:
        """Return the append-only list of the run's turns, each as ``digest SPACE json``."""
        return f"{self.prefix}:run:{run_id}:memory"

    def events(self, run_id: str) -> str:
        """Return the stream with the run's commit log and its other events."""
        return f"{self.prefix}:run:{run_id}:events"

    def artifacts(self, run_id: str) -> str:
        """Return the hash of the run's artifacts: whole texts of its rounds, by name."""
        return f"{self.prefix}:run:{run_id}:artifacts"

    def mailbox(self, run_id: str) -> str:
        """Return the hash of the signals that were sent to the run (parts/waits.lua)."""
        return f"{self.prefix}:run:{run_id}:mailbox"

    def idempotency(self, key: str) -> str:
        """Return the string ``content-digest run-id`` of the submission with this key."""
        return f"{self.prefix}:idem:{key}"

    def index(self, name: str) -> str:
        """Return the sorted set of run ids in this index.

        The score is the run's creation, for ended runs the time of their end (ms).
        """
        return f"{self.prefix}:index:{name}"

    def submitted(self, name: str) -> str:
        """Return the sorted set of the ids of one submitter's runs, by creation (ms).

        Ids of deleted runs are removed when further runs are submitted or the list is read.
        """
        return f"{self.prefix}:submitted:{name}"

    def filters(self, name: str) -> str:
        """Return the hash of one person's saved filters of the runs table, by name.

        The value is the query of the page's address.
        """
        return f"{self.prefix}:filters:{name}"

    def queue(self, role: str) -> str:
        """Return the list that is Celery's queue of the role.

        kombu's Redis transport gives the list the queue's name.
        """
        return f"{self.prefix}.{role}"

    @cached_property
    def due(self) -> str:
        """Sorted set: every live run that must move, by the time (ms) when it must."""
        return f"{self.prefix}:due"

    @cached_property
    def endings(self) -> str:
        """Sorted set: ``ID EPOCH`` of each ended run whose ``on_end`` is not yet called.

        The score is the time (ms) at which the call was due. Scripts derive this name from that of
        the due set.
        """
        return f"{self.prefix}:endings"

    @cached_property
    def queues(self) -> str:
        """Hash: the counters that all runs share.

        For each list ``LIST:pushed`` and ``LIST:cursor``, and the newest token. For the sweep: its
        last time, the last silence, and how far it has searched for leases (``peeked``, a position
        in the due set). The transitions' counts are fields ``WHAT:WORD:FLOW`` (parts/counters.lua).
        """
        return f"{self.prefix}:queues"

    @cached_property
    def paused(self) -> str:
        """Hash: the name of each paused flow, to who paused it, when and why.

        The value is JSON: at, by, reason.
        """
        return f"{self.prefix}:paused"

    @property
    def tokens(self) -> str:
        """Hash: each access token's id, with its record.

        The record has the digest of the token's secret (worker/domain/token.py).
        """
        return f"{self.prefix}:tokens"

    @property
    def web_key(self) -> str:
        """String: the secret that signs the dashboard's cookies, shared by all its servers."""
        return f"{self.prefix}:web:key"

    @property
    def workers(self) -> str:
        """Sorted set: worker names by their last heartbeat (ms)."""
        return f"{self.prefix}:workers"

    @property
    def announcements(self) -> str:
        """Hash: each worker's name, with its announcement (JSON: host, pid, role, flows, ...)."""
        return f"{self.prefix}:workers:info"

    @property
    def metrics(self) -> str:
        """Hash: the workers' totals over their rounds, by name and labels (a JSON list)."""
        return f"{self.prefix}:metrics"

    @property
    def dead_letters(self) -> str:
        """List, bounded: messages that the guard refused (JSON: at, list, why, message).

        The newest is first.
        """
        return f"{self.prefix}:dead"

    @property
    def replicated(self) -> str:
        """Channel, not a key, without subscribers: the store publishes to it before a WAIT."""
        return f"{self.prefix}:replicated"

    @cached_property
    def queue_names(self) -> tuple[str, ...]:
        """The broker's lists, one per role."""
        return tuple(self.queue(role) for role in ROLES)

    def queue_of_set(self, role: str, flow_set: str) -> str:
        """Return the list that is Celery's queue of the workers of this role and flow set.

        Messages that other workers cannot play are moved to it.
        """
        return f"{self.queue(role)}.{OF_SET}{flow_set}"

    def is_of_rounds(self, queue: str) -> bool:
        """Return whether a broker queue is one of ours."""
        if queue in self.queue_names:
            return True
        base, _, last = queue.rpartition(".")
        return last.startswith(OF_SET) and base in self.queue_names

    def line(self, queue: str) -> str:
        """Return the sorted set of the runs that the sweep saw waiting in this list.

        The score is the number of the run's message.
        """
        return f"{self.prefix}:line:{role_of(queue)}"

    def of_sweep(self) -> list[str]:
        """Return the sweep's KEYS: the shared keys, and the line of each broker list."""
        return [*self.shared, *map(self.line, self.queue_names)]

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """The KEYS that all runs share.

        The due set, the queues hash, the indexes, the paused flows and the broker's lists.
        """
        return self.due, self.queues, *map(self.index, INDEXES), self.paused, *self.queue_names

    def of_run(self, run_id: str, idempotency_key: str | None = None) -> list[str]:
        """Return the KEYS of a transition of one run, in the order of parts/run.lua."""
        run = self.run(run_id)
        idem = self.idempotency(idempotency_key) if idempotency_key is not None else run
        return [
            run,
            self.memory(run_id),
            self.events(run_id),
            self.artifacts(run_id),
            idem,
            *self.shared,
        ]

    def of_stay(self, run_id: str) -> list[str]:
        """Return the KEYS of commit_and_continue."""
        return [
            self.run(run_id),
            self.memory(run_id),
            self.events(run_id),
            self.artifacts(run_id),
            self.due,
            self.queues,
            self.paused,
        ]
