"""The names of all Redis keys, each defined once, and what each key holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from perdure.worker.ids import RUN_ID

#: The indexes, in the order in which every script expects them.
INDEXES = ("live", "interrupted", "stopped", "completed", "errored")

#: The indexes of child runs, which are listed apart. Scripts derive their names.
CHILD_INDEXES = tuple(f"{name}:children" for name in INDEXES)

#: The last part of a flow set's queue name begins with this.
OF_SET = "flows-"

#: The keys of a run beside its hash: what follows the name of the hash's key. A caller may choose
#: an id that ends like such a key. So each part has a slash, which no id can hold, or is in
#: ``OWN_KEYS``. The name of a group follows its part, so no other part begins with a slash: the
#: live text of a run ``a:group`` would be the group ``text`` of the run ``a``. A test compares the
#: names that scripts derive with this table.
PARTS_OF_RUN = {
    "memory": ":memory",
    "events": ":events",
    "artifacts": ":artifacts",
    "mailbox": ":mailbox",
    "group": ":group/",
    "live_text": ":text/",
}

#: Ends that an id could have. A run whose id ends with one of them is refused: its hash would be
#: another run's key.
OWN_KEYS = tuple(part for part in PARTS_OF_RUN.values() if RUN_ID.fullmatch(f"r{part}"))

#: The roles. Each has a broker list of its own.
ROLES = ("controller", "executor")


def role_of(queue: str) -> str:
    """Return the role, controller or executor, that a broker queue's name ends with."""
    return queue.rpartition(".")[2]


@dataclass(frozen=True)
class Keys:
    """The keys under one prefix. Two prefixes on one server are independent."""

    prefix: str = "perdure"

    def run(self, run_id: str) -> str:
        """Return the key of the hash with a run's state and all that the transitions store."""
        return f"{self.prefix}:run:{run_id}"

    def memory(self, run_id: str) -> str:
        """Return the key of the append-only list of a run's turns.

        Each entry is ``digest SPACE json``.
        """
        return self.run(run_id) + PARTS_OF_RUN["memory"]

    def events(self, run_id: str) -> str:
        """Return the key of the stream with a run's commit log and its other events."""
        return self.run(run_id) + PARTS_OF_RUN["events"]

    def artifacts(self, run_id: str) -> str:
        """Return the key of the hash of a run's artifacts: whole texts of its rounds, by name."""
        return self.run(run_id) + PARTS_OF_RUN["artifacts"]

    def live_text(self, run_id: str) -> str:
        """Return the key of the stream of what a run's rounds have shown before their commits."""
        return self.run(run_id) + PARTS_OF_RUN["live_text"]

    def mailbox(self, run_id: str) -> str:
        """Return the key of the hash of the signals that were sent to a run (parts/waits.lua)."""
        return self.run(run_id) + PARTS_OF_RUN["mailbox"]

    def group(self, run_id: str, name: str) -> str:
        """Return the key of the hash of a group of a run's children (parts/family.lua)."""
        return self.run(run_id) + PARTS_OF_RUN["group"] + name

    def idempotency(self, key: str) -> str:
        """Return the Redis key that stores which run was submitted with an idempotency key.

        Its value is the text ``content-digest run-id``.
        """
        return f"{self.prefix}:idem:{key}"

    def topic(self, name: str) -> str:
        """Return the key of the hash of a topic: its run, and signals that wait (parts/topic.lua).

        Scripts derive this name from that of the due set.
        """
        return f"{self.prefix}:topic:{name}"

    def index(self, name: str) -> str:
        """Return the key of the sorted set of run ids in an index, for example ``completed``.

        The score is the time of the run's creation, or for ended runs the time of their end (ms).
        """
        return f"{self.prefix}:index:{name}"

    def submitted(self, name: str) -> str:
        """Return the key of the sorted set of one submitter's run ids, by creation (ms).

        Ids of deleted runs are removed when further runs are submitted or the list is read.
        """
        return f"{self.prefix}:submitted:{name}"

    def filters(self, name: str) -> str:
        """Return the key of the hash of a person's saved filters of the dashboard's table of runs.

        A field is the filter's name. Its value is the query of the page's address.
        """
        return f"{self.prefix}:filters:{name}"

    def notes(self, namespace: str) -> tuple[str, str]:
        """Return the keys of a namespace's notes: the hash of notes by key, and their order.

        The order is a sorted set of the notes' keys. The score is the time of the last change (ms).
        """
        return f"{self.prefix}:notes:{namespace}", f"{self.prefix}:notes_order:{namespace}"

    def queue(self, role: str) -> str:
        """Return the name of Celery's queue for the rounds of a role.

        kombu's Redis transport stores the queue in a list of the same name.
        """
        return f"{self.prefix}.{role}"

    @cached_property
    def due(self) -> str:
        """Key of the due set: a sorted set of live runs, by the time (ms) when each is overdue."""
        return f"{self.prefix}:due"

    @cached_property
    def endings(self) -> str:
        """Key of the sorted set of ended runs whose ``on_end`` is not yet called.

        A member is ``ID EPOCH``. The score is the time (ms) at which the call was due. Scripts
        derive this name from that of the due set.
        """
        return f"{self.prefix}:endings"

    @cached_property
    def follow_ups(self) -> str:
        """Key of the sorted set of runs whose children need something that scripts cannot do.

        The score is the time (ms) at which a sweep passes it on. Scripts derive this name from that
        of the due set.
        """
        return f"{self.prefix}:follow_ups"

    @cached_property
    def queues(self) -> str:
        """Key of the hash of the counters that all runs share.

        It has ``LIST:pushed`` and ``LIST:cursor`` for each list, and the newest token. For the
        sweep it has its last time, the last silence, and how far leases were searched (``peeked``,
        a position in the due set). The transitions' counts are fields ``WHAT:WORD:FLOW``
        (parts/counters.lua).
        """
        return f"{self.prefix}:queues"

    @cached_property
    def paused(self) -> str:
        """Key of the hash of paused flows: each flow's name, to who paused it, when and why.

        The value is JSON: at, by, reason.
        """
        return f"{self.prefix}:paused"

    @property
    def note_index(self) -> str:
        """Key of the sorted set of namespaces that have notes. Every score is 0."""
        return f"{self.prefix}:notes_index"

    @property
    def tokens(self) -> str:
        """Key of the hash of access tokens: each token's id, with its record.

        The record has the digest of the token's secret (worker/domain/token.py).
        """
        return f"{self.prefix}:tokens"

    @property
    def web_key(self) -> str:
        """Key of the secret that signs the dashboard's cookies, shared by all its servers."""
        return f"{self.prefix}:web:key"

    @property
    def hook_key(self) -> str:
        """Key of the secret from which workers derive the secrets of hooks (``context.hook``)."""
        return f"{self.prefix}:hooks:key"

    def notifications(self, part: str) -> str:
        """Return the key of a part of the notifications (worker/store/notifications.py).

        ``records`` is a hash of all that are still to be delivered or dead, by id. ``due:RULE`` is
        the sorted set of the ids that wait for delivery, by the time of the next attempt (ms).
        ``dead`` and ``done`` are sorted sets of ids, by the time (ms). ``looked`` is the hash of
        the times (ms) up to which the events of each rule were found. ``holder`` is a text, the
        worker that finds and delivers.
        """
        return f"{self.prefix}:notifications:{part}"

    def sign_in(self, digest: str) -> str:
        """Return the key of a link that signs in once: the id of the access token that it grants.

        ``digest`` is that of the link's code.
        """
        return f"{self.prefix}:sign_in:{digest}"

    @property
    def workers(self) -> str:
        """Key of the sorted set of worker names, by their last heartbeat (ms)."""
        return f"{self.prefix}:workers"

    @property
    def announcements(self) -> str:
        """Key of the hash of what each worker announced about itself, by worker name.

        An announcement is JSON: host, pid, role, flows, ...
        """
        return f"{self.prefix}:workers:info"

    @property
    def metrics(self) -> str:
        """Key of the hash of the workers' totals over their rounds.

        A field is the metric's name and labels (a JSON list).
        """
        return f"{self.prefix}:metrics"

    def metric_history(self, span: str, number: int) -> str:
        """Return the key of the hash of the workers' sums in one part of a span.

        A field is a figure's name and label (a JSON list). domain/metric_history.py has the spans.
        """
        return f"{self.prefix}:metrics:{span}:{number}"

    @property
    def dead_letters(self) -> str:
        """Key of the bounded list of dead letters: messages that workers refused as invalid.

        An entry is JSON: at, list, why, message. The newest is first.
        """
        return f"{self.prefix}:dead"

    @property
    def replicated(self) -> str:
        """Channel, not a key, without subscribers: the store publishes to it before a WAIT."""
        return f"{self.prefix}:replicated"

    @cached_property
    def queue_names(self) -> tuple[str, ...]:
        """The names of the broker's queues for rounds, one per role."""
        return tuple(self.queue(role) for role in ROLES)

    def queue_of_set(self, role: str, flow_set: str) -> str:
        """Return the name of Celery's queue for the workers of one role and one set of flows.

        Messages of rounds that other workers cannot play are moved to it.
        """
        return f"{self.queue(role)}.{OF_SET}{flow_set}"

    def is_of_rounds(self, queue: str) -> bool:
        """Return whether a queue of the broker is for Perdure's rounds, not for other tasks."""
        if queue in self.queue_names:
            return True
        base, _, last = queue.rpartition(".")
        return last.startswith(OF_SET) and base in self.queue_names

    def line(self, queue: str) -> str:
        """Return the key of the sorted set of runs that the sweep saw waiting in a broker queue.

        The score is the number of the run's message.
        """
        return f"{self.prefix}:line:{role_of(queue)}"

    def of_sweep(self) -> list[str]:
        """Return the Redis keys that the sweep's script uses, in the order that it expects.

        They are the keys that all runs share, and for each broker queue the set of runs that wait
        in it.
        """
        return [*self.shared, *map(self.line, self.queue_names)]

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """The Redis keys that all runs share, in the order that the scripts expect.

        The due set, the queues hash, the indexes, the paused flows and the broker's lists.
        """
        return self.due, self.queues, *map(self.index, INDEXES), self.paused, *self.queue_names

    def of_run(self, run_id: str, idempotency_key: str | None = None) -> list[str]:
        """Return the Redis keys that a transition of one run uses, ordered as in run.lua."""
        first = self._of_a_round(run_id)
        idem = self.idempotency(idempotency_key) if idempotency_key is not None else first[0]
        return [*first, idem, *self.shared]

    def _of_a_round(self, run_id: str) -> tuple[str, str, str, str]:
        """Return the Redis keys of a run that the commit of a round writes to."""
        run = f"{self.prefix}:run:{run_id}"
        return run, f"{run}:memory", f"{run}:events", f"{run}:artifacts"

    def of_topic(self, name: str) -> list[str]:
        """Return the Redis keys of the script that signals a topic, ordered as in run.lua."""
        return [*[self.topic(name)] * 5, *self.shared]

    def of_stay(self, run_id: str) -> list[str]:
        """Return the Redis keys of the script that commits a round and leases the next one.

        They are in the order that commit_and_continue.lua expects.
        """
        return [*self._of_a_round(run_id), self.due, self.queues, self.paused]
