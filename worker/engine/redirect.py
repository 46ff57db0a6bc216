"""Redirects messages of flows that this worker lacks to workers that have the flow.

Workers that run the same flows consume a queue of their own, in addition to the queues of their
role (docs/internals/decisions/0038-a-message-goes-to-a-worker-that-plays-its-flow.md).
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perdure.worker.domain.fleet import ALIVE_BEATS
from perdure.worker.domain.record import SCHEMA
from perdure.worker.messaging.publisher import Publisher
from perdure.worker.store import Store, StoreUnavailable

logger = logging.getLogger("perdure.rounds")

#: Seconds for which announcements of workers are cached. A worker that lacks a flow may receive
#: many of its messages.
FRESH_SECONDS = 1.0
#: Workers that an event names at most.
NAMED = 3


def flow_set(builds: Mapping[str, str]) -> str:
    """Return a short hash that identifies a set of flows.

    All workers that run exactly these flows, in these builds, have the same hash. The hash also
    depends on the newest schema version of runs that the worker reads.

    Args:
        builds: The build of each flow, by flow name.
    """
    flows = [f"{name} {build}" for name, build in sorted(builds.items())]
    return hashlib.sha256("\n".join([SCHEMA, *flows]).encode()).hexdigest()[:8]


def differences(
    store: Store, beat: float, owner: str, role: str, flows: Iterable[str]
) -> list[str]:
    """Return a warning about each live worker of the same role that has other flows.

    Args:
        beat: Seconds between two heartbeats.
        owner: This worker's name.
        role: This worker's role, or ``all``.
        flows: The names of the flows that this worker runs.

    Returns:
        Empty if there is no such worker, or if the server does not answer.
    """
    own, sentences = set(flows), []
    try:
        now, workers = store.time(), store.fleet.workers()
    except StoreUnavailable:
        return []
    for name, seen_at, info in workers:
        same_role = "all" in (role, info.get("role")) or role == info.get("role")
        theirs = set(info.get("flows", ()))
        if (
            name == owner
            or now - seen_at > 1000 * ALIVE_BEATS * beat
            or info.get("draining")
            or not same_role
            or theirs == own
        ):
            continue
        parts = [
            f"{verb} {', '.join(_with_lacking(name, info) for name in sorted(names))}"
            for verb, names in (("lacks", own - theirs), ("also plays", theirs - own))
            if names
        ]
        sentences.append(
            f"worker {name} plays other flows than this one: it {' and '.join(parts)}. "
            "Messages are handed on to a worker that plays their flow; to spare that, give all "
            "workers of a role the same flow modules (PERDURE_FLOW_MODULES), the same --enable, "
            "and what their flows need"
        )
    return sentences


def _with_lacking(flow: str, info: Mapping[str, Any]) -> str:
    """Return the name of a flow, with the reason for which the announced worker lacks it.

    The reason follows in parentheses. It is left out if the worker did not announce one.
    """
    lacking = info.get("lacking", {})
    return f"{flow} ({lacking[flow]})" if flow in lacking else flow


class Redirector:
    """Redirects the messages whose rounds this process cannot run.

    Args:
        owner: The worker's name.
        beat: Seconds between two heartbeats. A worker without a heartbeat for ten times as long
            does not count as alive.
    """

    def __init__(self, store: Store, publisher: Publisher, owner: str, beat: float) -> None:
        self._store = store
        self._publisher = publisher
        self._owner = owner
        self._alive = round(1000 * ALIVE_BEATS * beat)
        self._lock = threading.Lock()
        self._seen: Sequence[tuple[str, Mapping[str, Any]]] = ()
        self._seen_at = float("-inf")

    def redirect(self, run_id: str, flow: str, build: str | None = None) -> str | None:
        """Move a run's message to the queue of workers that can run its flow.

        These workers must have announced the flow, the queue of the round's role, and the run's
        schema version.

        Args:
            build: The build of the flow that these workers must have announced. None: any build.

        Returns:
            The names of these workers, as a text for people. None if the message was not moved: no
            such worker is alive, the run has changed meanwhile, or the server does not answer. Then
            the run waits, and all workers get its message again.
        """
        try:
            (fields,) = self._store.reads.some_fields([run_id], ("queue", "schema"))
            queue, names = self._target(
                flow, fields.get("queue", ""), fields.get("schema", ""), build
            )
            if not names:
                return None
            to = ", ".join(names[:NAMED]) + (
                f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            )
            word, handed = self._store.rounds.redirect(run_id, queue=queue, to=to, by=self._owner)
            self._publisher.publish(handed)
        except StoreUnavailable as error:
            logger.warning(
                "run %s: its message could not be handed on to another worker, it waits: %s",
                run_id,
                error,
            )
            return None
        return to if word == "ok" else None

    def _target(
        self, flow: str, queue: str, schema: str, build: str | None
    ) -> tuple[str, list[str]]:
        """Return the queue for a redirected message, and the names of the workers that consume it.

        If several queues have workers with the flow, it is the queue with most free slots. Both
        results are empty if no worker that can run the flow is alive.
        """
        free: dict[str, int] = defaultdict(int)
        names: dict[str, list[str]] = defaultdict(list)
        for name, info in self._workers():
            reads = str(info.get("schema", ""))
            if (
                name == self._owner
                or flow not in info.get("flows", ())
                or build not in (None, info.get("builds", {}).get(flow))
                or not (reads.isdecimal() and schema.isdecimal())
            ):
                continue
            for each in info.get("lists", ()) if int(reads) >= int(schema) else ():
                if each.startswith(f"{queue}."):
                    names[each].append(name)
                    free[each] += info.get("concurrency", 0) - info.get("rounds", 0)
        chosen = max(names, key=lambda each: free[each], default="")
        return chosen, names[chosen] if chosen else []

    def _workers(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return name and announcement of each live worker that consumes queues of its own.

        The result is cached for ``FRESH_SECONDS``.
        """
        with self._lock:
            if time.monotonic() - self._seen_at > FRESH_SECONDS:
                now = self._store.time()
                self._seen = [
                    (name, info)
                    for name, beat, info in self._store.fleet.workers()
                    if now - beat <= self._alive and info.get("lists")
                ]
                self._seen_at = time.monotonic()
            return self._seen
