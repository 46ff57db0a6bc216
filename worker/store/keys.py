"""Every key of Holdfast in Redis: its name, once, and what lives there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

#: The indexes, in the order in which every script takes them.
INDEXES = ("live", "interrupted", "stopped", "completed", "errored")

#: How the last part of the name of a queue of one set of flows begins.
OF_SET = "flows-"

#: The roles, each with a broker list of its own.
ROLES = ("controller", "executor")


def role_of(queue: str) -> str:
    """The role that a broker's list is for."""
    return queue.rpartition(".")[2]


@dataclass(frozen=True)
class Keys:
    """The keys under one prefix; two prefixes on one server know nothing of each other."""

    prefix: str = "holdfast"

    def run(self, run_id: str) -> str:
        """Hash: the run's ExecutionState and everything the transitions keep about it."""
        return f"{self.prefix}:run:{run_id}"

    def memory(self, run_id: str) -> str:
        """List, append-only: the turns of the run, each as ``digest SPACE json``."""
        return f"{self.prefix}:run:{run_id}:memory"

    def events(self, run_id: str) -> str:
        """Stream: the commit log and everything else that happened to the run."""
        return f"{self.prefix}:run:{run_id}:events"

    def artifacts(self, run_id: str) -> str:
        """Hash: texts that rounds kept whole beside the history, by name."""
        return f"{self.prefix}:run:{run_id}:artifacts"

    def idempotency(self, key: str) -> str:
        """String: ``content-digest run-id`` of the submission that used this idempotency key."""
        return f"{self.prefix}:idem:{key}"

    def index(self, name: str) -> str:
        """Sorted set of run ids; by creation, ended ones by the time of their end (ms)."""
        return f"{self.prefix}:index:{name}"

    def submitted(self, name: str) -> str:
        """Sorted set of the ids of one submitter's runs, by creation (ms); runs that are gone leave it when others are submitted, or
        somebody looks."""
        return f"{self.prefix}:submitted:{name}"

    def filters(self, name: str) -> str:
        """Hash: the views of the table of runs that somebody has named, by their names (the query of the page's address)."""
        return f"{self.prefix}:filters:{name}"

    def queue(self, role: str) -> str:
        """List: Celery's queue of the role; kombu's Redis transport names the list like the queue."""
        return f"{self.prefix}.{role}"

    @cached_property
    def due(self) -> str:
        """Sorted set: every live run that somebody must move, at the time (ms) by which something must have happened."""
        return f"{self.prefix}:due"

    @cached_property
    def endings(self) -> str:
        """Sorted set: ``ID EPOCH`` of each run that has ended and whose ``on_end`` is still to be called, by when it was to be (ms).

        Scripts derive its name from that of the due set.
        """
        return f"{self.prefix}:endings"

    @cached_property
    def queues(self) -> str:
        """Hash: for each list ``LIST:pushed`` and ``LIST:cursor``; the newest token; the sweep's last time, the last silence, how far it
        has looked for leases (``peeked``, a place in the due set);
        what transitions count, as ``WHAT:WORD:FLOW`` (counting.lua).
        """
        return f"{self.prefix}:queues"

    @cached_property
    def paused(self) -> str:
        """Hash: the name of each paused flow to who paused it, when and why (JSON: at, by, reason)."""
        return f"{self.prefix}:paused"

    @property
    def tokens(self) -> str:
        """Hash: the id of each token of the control room to its record, the digest of its secret in it (worker/access_token.py)."""
        return f"{self.prefix}:tokens"

    @property
    def web_key(self) -> str:
        """String: what the control room's cookies are signed with, the same for all its servers. A secret."""
        return f"{self.prefix}:web:key"

    @property
    def workers(self) -> str:
        """Sorted set of worker names by their last beat (ms)."""
        return f"{self.prefix}:workers"

    @property
    def announcements(self) -> str:
        """Hash: worker name to what it announced (JSON: host, pid, role, flows, ...)."""
        return f"{self.prefix}:workers:info"

    @property
    def metrics(self) -> str:
        """Hash: what workers add up of their rounds, by name and labels (a JSON list)."""
        return f"{self.prefix}:metrics"

    @property
    def dead_letters(self) -> str:
        """List, bounded: messages the guard refused, newest first (JSON: at, list, why, message)."""
        return f"{self.prefix}:dead"

    @property
    def replicated(self) -> str:
        """Channel, not a key: what is published there, and heard by nobody, is what replicas are waited for with."""
        return f"{self.prefix}:replicated"

    @cached_property
    def queue_names(self) -> tuple[str, ...]:
        """The broker's lists, one a role."""
        return tuple(self.queue(role) for role in ROLES)

    def queue_of_set(self, role: str, flow_set: str) -> str:
        """List: Celery's queue of the workers of this role that play exactly this set of flows; what others cannot play comes there."""
        return f"{self.queue(role)}.{OF_SET}{flow_set}"

    def is_of_rounds(self, queue: str) -> bool:
        """Whether a broker's queue is one of these."""
        if queue in self.queue_names:
            return True
        base, _, last = queue.rpartition(".")
        return last.startswith(OF_SET) and base in self.queue_names

    def line(self, queue: str) -> str:
        """Sorted set: runs that the sweep saw in line there, by the number of their message."""
        return f"{self.prefix}:line:{role_of(queue)}"

    def of_sweep(self) -> list[str]:
        """What the sweep takes: what is shared, and the line of each of the broker's lists."""
        return [*self.shared, *map(self.line, self.queue_names)]

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """What every transition takes: due set, queues hash, indexes, paused flows, the broker's lists."""
        return self.due, self.queues, *map(self.index, INDEXES), self.paused, *self.queue_names

    def of_run(self, run_id: str, idempotency_key: str | None = None) -> list[str]:
        """What every transition of one run takes, in reading.lua's order."""
        run = self.run(run_id)
        idem = self.idempotency(idempotency_key) if idempotency_key is not None else run
        return [run, self.memory(run_id), self.events(run_id), self.artifacts(run_id), idem, *self.shared]

    def of_stay(self, run_id: str) -> list[str]:
        """What commit_and_stay takes."""
        return [self.run(run_id), self.memory(run_id), self.events(run_id), self.artifacts(run_id), self.due, self.queues, self.paused]
