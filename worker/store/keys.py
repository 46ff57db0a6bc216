"""The names and contents of all Redis keys. Each name is defined once, here."""

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

#: The keys of a run beside its hash, as suffixes of the name of the hash's key. A caller may choose
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
    """Return the role in a queue's name: controller or executor."""
    return queue.rpartition(".")[2]


@dataclass(frozen=True)
class Keys:
    """The keys under one prefix. Two prefixes on one server are independent."""

    prefix: str = "perdure"

    def run(self, run_id: str) -> str:
        """Return the key of a run's hash.

        The hash has the state of the run, and the other fields that transitions write.
        """
        return f"{self.prefix}:run:{run_id}"

    def memory(self, run_id: str) -> str:
        """Return the key of a run's list of turns.

        The list is append-only. Each entry is ``digest SPACE json``.
        """
        return self.run(run_id) + PARTS_OF_RUN["memory"]

    def events(self, run_id: str) -> str:
        """Return the key of a run's event stream.

        Each commit adds an event to it, and so do other changes of the run.
        """
        return self.run(run_id) + PARTS_OF_RUN["events"]

    def artifacts(self, run_id: str) -> str:
        """Return the key of a run's artifact hash.

        It has long texts that rounds of the run stored, by name.
        """
        return self.run(run_id) + PARTS_OF_RUN["artifacts"]

    def live_text(self, run_id: str) -> str:
        """Return the key of a run's live text stream.

        It has the text that rounds show before their commits.
        """
        return self.run(run_id) + PARTS_OF_RUN["live_text"]

    def mailbox(self, run_id: str) -> str:
        """Return the key of a run's mailbox hash.

        It has the signals that were sent to the run (parts/waits.lua).
        """
        return self.run(run_id) + PARTS_OF_RUN["mailbox"]

    def group(self, run_id: str, name: str) -> str:
        """Return the key of the hash of one group of a run's children (parts/family.lua)."""
        return self.run(run_id) + PARTS_OF_RUN["group"] + name

    def idempotency(self, key: str) -> str:
        """Return the Redis key of an idempotency key.

        Its value is the text ``content-digest run-id`` of the submitted run.
        """
        return f"{self.prefix}:idem:{key}"

    def topic(self, name: str) -> str:
        """Return the key of a topic's hash (parts/topic.lua).

        It has the run that holds the topic, and the signals that wait for such a run. Scripts
        derive this name from the name of the due set.
        """
        return f"{self.prefix}:topic:{name}"

    def index(self, name: str) -> str:
        """Return the key of an index, such as ``completed``.

        It is a sorted set of run ids. The score is the time of the run's creation, or for ended
        runs the time of their end (ms).
        """
        return f"{self.prefix}:index:{name}"

    def submitted(self, name: str) -> str:
        """Return the key of the index of a submitter's runs.

        It is a sorted set of run ids, by the time of creation (ms). It may have ids of deleted
        runs, which later submissions and reads of the list remove.
        """
        return f"{self.prefix}:submitted:{name}"

    def filters(self, name: str) -> str:
        """Return the key of a person's saved filters.

        They are filters of the dashboard's table of runs. The field is the name of a filter. The
        value is the query part of the page's URL.
        """
        return f"{self.prefix}:filters:{name}"

    def queue(self, role: str) -> str:
        """Return the name of the Celery queue for a role's rounds.

        On Redis, it is also the key of the list in which kombu stores the queue.
        """
        return f"{self.prefix}.{role}"

    @cached_property
    def due(self) -> str:
        """Key of the due set: a sorted set of live runs, by the time (ms) when each is overdue."""
        return f"{self.prefix}:due"

    @cached_property
    def endings(self) -> str:
        """Key of the ended runs whose ``on_end`` callback is not published yet.

        It is a sorted set. A member is ``ID EPOCH``. The score is the time (ms) at which the
        callback was due. Scripts derive this name from the name of the due set.
        """
        return f"{self.prefix}:endings"

    @cached_property
    def follow_ups(self) -> str:
        """Key of the runs whose children need a follow-up.

        A follow-up is work that a script cannot do alone. In this sorted set, the score is the time
        (ms) at which a sweep gives the work to another process. Scripts derive this name from the
        name of the due set.
        """
        return f"{self.prefix}:follow_ups"

    @cached_property
    def queues(self) -> str:
        """Key of the hash of counters that all runs share.

        For each queue it has ``LIST:pushed`` (the number of the newest message) and ``LIST:cursor``
        (the number of the newest message whose round was claimed). It also has the newest token,
        data of the sweep (time of the last sweep, last time without sweeps, position in the due set
        up to which leases were searched), and the counts of the transitions, as ``WHAT:WORD:FLOW``
        (parts/counters.lua).
        """
        return f"{self.prefix}:queues"

    @cached_property
    def paused(self) -> str:
        """Key of the hash of paused flows, by flow name.

        The value is JSON: time, person and reason of the pause (``at``, ``by``, ``reason``).
        """
        return f"{self.prefix}:paused"

    @property
    def tokens(self) -> str:
        """Key of the hash of access tokens, by token id.

        The value is the token's record, with the digest of its secret (worker/domain/token.py).
        """
        return f"{self.prefix}:tokens"

    @property
    def web_key(self) -> str:
        """Key of the secret that signs dashboard cookies. All dashboards share the secret."""
        return f"{self.prefix}:web:key"

    @property
    def hook_key(self) -> str:
        """Key of the secret from which workers derive the secrets of hooks (``context.hook``)."""
        return f"{self.prefix}:hooks:key"

    def of_feature(self, feature: str, part: str) -> str:
        """Return the key of one part of the data that a feature stores (worker/features)."""
        return f"{self.prefix}:{feature}:{part}"

    def sign_in(self, digest: str) -> str:
        """Return the key of a one-time sign-in link.

        Its value is the id of the access token that the link grants.

        Args:
            digest: the digest of the code in the link.
        """
        return f"{self.prefix}:sign_in:{digest}"

    @property
    def workers(self) -> str:
        """Key of the sorted set of worker names, by the time of the last heartbeat (ms)."""
        return f"{self.prefix}:workers"

    @property
    def announcements(self) -> str:
        """Key of the hash of workers' announcements, by worker name.

        An announcement is JSON: host, pid, role, flows, ...
        """
        return f"{self.prefix}:workers:info"

    @property
    def metrics(self) -> str:
        """Key of the hash of totals over all rounds, to which workers add.

        A field is a JSON list of the metric's name and labels.
        """
        return f"{self.prefix}:metrics"

    @property
    def dead_letters(self) -> str:
        """Key of the list of dead letters, which has a maximum length.

        A dead letter is a message that a worker did not accept, because it was invalid. An entry is
        JSON: at, list, why, message. The newest is first.
        """
        return f"{self.prefix}:dead"

    @property
    def replicated(self) -> str:
        """Name of a pub/sub channel, not a key.

        The store publishes to it before a WAIT. It has no subscribers.
        """
        return f"{self.prefix}:replicated"

    @cached_property
    def queue_names(self) -> tuple[str, ...]:
        """Names of the broker's queues for rounds, one per role.

        The queues of flow sets are not among them.
        """
        return tuple(self.queue(role) for role in ROLES)

    def queue_of_set(self, role: str, flow_set: str) -> str:
        """Return the name of a flow set's Celery queue.

        The workers of the role that run exactly this set of flows consume it. A message is moved to
        it if the worker that received the message cannot run its round.

        Args:
            flow_set: the hash that names the set (``worker.engine.redirect.flow_set``).
        """
        return f"{self.queue(role)}.{OF_SET}{flow_set}"

    def is_of_rounds(self, queue: str) -> bool:
        """Return whether a broker queue is for Perdure's rounds.

        It is the queue of a role, or of a flow set.
        """
        if queue in self.queue_names:
            return True
        base, _, last = queue.rpartition(".")
        return last.startswith(OF_SET) and base in self.queue_names

    def line(self, queue: str) -> str:
        """Return the key of the runs that the sweep found waiting in a queue.

        It is a sorted set. The score is the number of the run's message.
        """
        return f"{self.prefix}:line:{role_of(queue)}"

    def of_sweep(self) -> list[str]:
        """Return the sweep script's Redis keys, in order.

        They are the keys that all runs share, and for each queue of a role the key of the runs that
        wait in it.
        """
        return [*self.shared, *map(self.line, self.queue_names)]

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """The Redis keys that all runs share, in the order that the scripts expect.

        They are the due set, the queues hash, the indexes, the paused flows and the queues of the
        roles.
        """
        return self.due, self.queues, *map(self.index, INDEXES), self.paused, *self.queue_names

    def of_run(self, run_id: str, idempotency_key: str | None = None) -> list[str]:
        """Return the Redis keys of a run's transition, in the order of parts/run.lua.

        Args:
            idempotency_key: the run's idempotency key. None: the key of the run's hash stands in
                its position.
        """
        first = self._of_a_round(run_id)
        idem = self.idempotency(idempotency_key) if idempotency_key is not None else first[0]
        return [*first, idem, *self.shared]

    def _of_a_round(self, run_id: str) -> tuple[str, str, str, str]:
        """Return the Redis keys of a run to which a round's commit writes.

        They are those of its hash, history, events and artifacts.
        """
        run = f"{self.prefix}:run:{run_id}"
        return run, f"{run}:memory", f"{run}:events", f"{run}:artifacts"

    def of_topic(self, name: str) -> list[str]:
        """Return the keys of the topic script.

        They are in the order of parts/run.lua.
        """
        return [*[self.topic(name)] * 5, *self.shared]

    def of_stay(self, run_id: str) -> list[str]:
        """Return the Redis keys of a commit that also leases the next round.

        They are in the order that commit_and_continue.lua expects.
        """
        return [*self._of_a_round(run_id), self.due, self.queues, self.paused]
