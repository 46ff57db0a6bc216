"""The runtime: all parts that one process needs to run rounds. A Celery app with Perdure has one.

This module also ends the child processes of the pool when their worker has died. Linux ends them
itself. On other systems they would wait for ever.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from perdure.flows.rounds import registry
from perdure.flows.rounds.flow import Flow
from perdure.worker.domain.fleet import describe
from perdure.worker.domain.record import SCHEMA
from perdure.worker.engine.drain import Drain
from perdure.worker.engine.heartbeat import Heartbeat, Lease
from perdure.worker.engine.round_stats import RoundStats
from perdure.worker.engine.rounds import RoundRunner
from perdure.worker.engine.sweeper import Sweeper
from perdure.worker.errors import InvalidSettings
from perdure.worker.ids import process_name
from perdure.worker.messaging.app_connection import AppConnection
from perdure.worker.messaging.callbacks import Callbacks
from perdure.worker.runtime.builds import builds_of
from perdure.worker.runtime.process_facts import MOST_HELD, resident_bytes, version
from perdure.worker.settings import Settings
from perdure.worker.store import Store, StoreUnavailable

if TYPE_CHECKING:
    from celery import Celery

    from perdure.worker.features.feature import Background
    from perdure.worker.runtime.fast.delivery import Delivery

logger = logging.getLogger("perdure.worker")

#: The exit code by which Celery's pool knows that a child process ended in good order and must be
#: replaced (billiard.pool.EX_RECYCLE).
EX_RECYCLE = 0x9B


class Runtime(AppConnection):
    """The parts of a worker process, each built when it is first used.

    The arguments are those of `AppConnection`.
    """

    def __init__(
        self,
        app: Celery,
        settings: Settings,
        sources: Sequence[str | type[Flow] | Flow] = (),
        owns_app: bool = False,
    ) -> None:
        super().__init__(app, settings, sources, owns_app)
        self.name = process_name()
        self.drain = Drain()
        #: The id of the worker's main process, which receives the messages. None before a worker
        #: starts. In a child process of the pool, it differs from the own process id.
        self.worker_pid: int | None = None
        #: In a worker: the queues of its set of flows, consumed beside those of all workers.
        self.own_queues: list[str] = []
        #: In a worker: its sweeper.
        self.sweeper: Sweeper | None = None
        #: In a worker: the threads of features, such as the sender of notifications.
        self.background: list[Background] = []
        #: In a worker whose commits prefetch: the delivery of the prefetched messages.
        self.fast: Delivery | None = None

    def is_leaving(self) -> bool:
        """Return whether this worker shuts down."""
        return self.drain.is_on()

    @cached_property
    def flows(self) -> Mapping[str, Callable[[], Flow]]:
        """The flows that this worker runs: a function that makes each flow, by flow name.

        Flows that run shell commands are left out unless the settings enable them. Flows that lack
        something here are left out, too.
        """
        self.find_flows()
        return {
            name: factory
            for name, factory in registry.registered().items()
            if name not in self.disabled and name not in self.lacking
        }

    @cached_property
    def disabled(self) -> list[str]:
        """The names of the flows that run shell commands and that the settings do not enable."""
        self.find_flows()
        return [
            name
            for name in registry.registered()
            if registry.make(name).runs_shell and name not in self.settings.enabled_flows
        ]

    @cached_property
    def lacking(self) -> dict[str, str]:
        """The reason, as a sentence, for which a flow cannot run in this worker, by flow name.

        Flows that can run are left out.
        """
        self.find_flows()
        sentences = {name: registry.make(name).missing for name in registry.registered()}
        return {name: sentence for name, sentence in sentences.items() if sentence is not None}

    @cached_property
    def heartbeat(self) -> Heartbeat:
        """The heartbeat, which extends the leases of rounds."""
        return Heartbeat(
            self._hasty_store, self.settings.heartbeat_seconds, self._lingers, self.stats.flush
        )

    @cached_property
    def _hasty_store(self) -> Store:
        """The heartbeat's own client of the state server.

        It has a short timeout. It has connections of its own. So a connection that hangs delays one
        heartbeat, and no lease is lost.
        """
        patience = min(self.settings.heartbeat_seconds, self.settings.lease_seconds / 4)
        return Store(
            self.store.url,
            self.settings.prefix,
            timeout=patience,
            resends=1,
            outage=self.store.outage,
        )

    @cached_property
    def stats(self) -> RoundStats:
        """The statistics of this process's rounds. The heartbeat writes them."""
        return RoundStats()

    def write_stats(self) -> None:
        """Write the last statistics of rounds before the process ends."""
        self.stats.flush(self._hasty_store)

    @cached_property
    def rounds(self) -> RoundRunner:
        """The runner of this process's rounds.

        It claims, runs and commits them.
        """
        return RoundRunner(
            self.store,
            self.publisher,
            self.heartbeat,
            self.settings,
            self.flows,
            self.name,
            self.drain,
            self.stats,
            self.callbacks,
            self.builds,
        )

    @cached_property
    def builds(self) -> Mapping[str, str]:
        """The build of each flow, by flow name. It differs between workers with different code."""
        return builds_of(self.flows, self.settings.flow_modules, self.settings.build or "")

    @cached_property
    def callbacks(self) -> Callbacks:
        """The publisher of ended runs' callbacks (``on_end``)."""
        return Callbacks(self.app, self.store, self.owns_app)

    def _lingers(self, lease: Lease) -> None:
        """Log a round that was cancelled but has not returned.

        If the round has a process of its own, this process ends now, so that its slot becomes free.

        Args:
            lease: The lease of the round.
        """
        alone = self.worker_pid not in (None, os.getpid())
        what = (
            "its process ends, so that its slot becomes free"
            if alone
            else "it keeps its slot until it returns"
        )
        logger.warning(
            "run %s: its round is not wanted any more and does not check context.cancelled; %s",
            lease.run_id,
            what,
        )
        if alone:
            os._exit(EX_RECYCLE)

    def abandon(self) -> None:
        """End the leases of this worker at once, so that other workers requeue its rounds.

        It is for a worker that ends without waiting for its rounds. The announcements stop, too. If
        the state server does not answer, a warning is logged, and the leases end by themselves.
        """
        from perdure.worker.runtime.request import in_flight

        # A connection of its own: this may run in a signal handler, in the middle of anything.
        store = Store(self.store.url, self.settings.prefix, timeout=1.0, resends=0)
        try:
            for request in in_flight():
                run_id, epoch, step = request.args
                store.rounds.release_dead_lease(
                    run_id, epoch=epoch, step=step, process=process_name(request.worker_pid)
                )
            if self.sweeper is not None:
                self.sweeper.silence(patience=1.0)
            store.fleet.withdraw(self.name)
        except StoreUnavailable as error:
            logger.warning(
                "the leases of this worker could not be released and will lapse: %s", error
            )

    def new_sweeper(self, role: str, pool: str, concurrency: int) -> Sweeper:
        """Build a sweeper for this worker, which requeues overdue runs and announces the worker.

        It is not started. The arguments are for the announcement.

        Args:
            role: The role of the worker, or ``all``.
            pool: The name of Celery's pool.
            concurrency: The number of slots.
        """

        # Only workers import this much of Celery.
        from perdure.worker.runtime.request import in_flight

        started = time.time()

        @cache  # the schemas of many flows take longer than all the rest, each second
        def flows() -> Mapping[str, Any]:
            return {name: describe(factory()) for name, factory in self.flows.items()}

        def announcement() -> Mapping[str, Any]:
            rounds = in_flight()
            return {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "version": version(),
                "started": started,
                "memory": resident_bytes(),
                "holds": [str(request.args[0]) for request in rounds[:MOST_HELD]],
                "role": role,
                "pool": pool,
                "concurrency": concurrency,
                "handover": self.publisher.name,
                "rounds": len(rounds),
                "draining": self.drain.is_on(),
                "fetching": self.fast is not None and self.fast.is_on,
                "schema": SCHEMA,
                "lists": [] if self.drain.is_on() else self.own_queues,
                "flows": flows(),
                "builds": self.builds,
                "disabled": self.disabled,
                "lacking": self.lacking,
                "durability": self.settings.durability,
            }

        return Sweeper(
            self.store, self.publisher, self.settings, self.name, announcement, self.callbacks
        )

    def close(self) -> None:
        """End the heartbeat, write statistics, and close connections.

        No round of this runtime may be in progress.
        """
        if "heartbeat" in vars(self):
            self.heartbeat.end()
        if "stats" in vars(self):
            self.write_stats()
        if "_hasty_store" in vars(self):
            self._hasty_store.close()
        super().close()


def engine_of(celery_app: Celery) -> Runtime:
    """Return the Runtime of a Celery app.

    ``perdure.install`` or ``make_app`` has set it.

    Raises:
        InvalidSettings: ``install`` was not called for this app.
    """
    engine = getattr(celery_app, "perdure", None)
    if not isinstance(engine, Runtime):
        raise InvalidSettings(
            "this Celery app has no Perdure on it; call perdure.install(app) first"
        )
    return engine


#: Seconds between two checks whether the parent is alive.
LOOK_EVERY_SECONDS = 1.0


def watch_parent(engine: Runtime) -> Any:
    """Return a signal receiver that makes a pool process end after its worker has died.

    It is for Celery's signal ``worker_process_init``. Celery also sends this signal with the pool
    solo, in the worker process itself. Nothing happens there, nor in the processes of a user's app.
    """

    def started(**_: Any) -> None:
        # The processes of a user's app may be running other tasks, so they are left alone.
        if engine.owns_app and engine.worker_pid not in (None, os.getpid()):
            threading.Thread(
                target=_end_after_parent, args=(engine,), name="perdure-parent", daemon=True
            ).start()

    return started


def _end_after_parent(engine: Runtime) -> None:
    # A round in progress may finish: its lease and its commit are still valid.
    while os.getppid() == engine.worker_pid or engine.heartbeat.leases:
        time.sleep(LOOK_EVERY_SECONDS)
    os._exit(0)
