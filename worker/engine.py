"""Engine: what one process needs to play rounds, put together once; each Celery app with Holdfast on it has one."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flows import registry
from flows.base import Flow
from worker.announcement import describe
from worker.app_flows import find_flows_of_app
from worker.broker import is_fused
from worker.calls import Calls
from worker.config_files import find_flows
from worker.dispatch import Dispatcher, Fused
from worker.draining import Draining
from worker.fetching import Fetching
from worker.figures import RoundFigures
from worker.heartbeat import Heartbeat, Lease
from worker.lanes import Lanes
from worker.outbox import Outbox
from worker.processes import process_name
from worker.record import SCHEMA
from worker.rounds import Rounds
from worker.settings import Settings
from worker.state_place import with_state_server
from worker.store import Granted, Replication, Store, StoreUnavailable
from worker.store.address import LOCALHOST
from worker.store.keys import Keys
from worker.sweep import Sweeper

if TYPE_CHECKING:
    from celery import Celery

    from worker.client import Client

logger = logging.getLogger("holdfast.worker")

#: The exit code by which Celery's pool knows a child that ended in good order and is to be replaced (billiard.pool.EX_RECYCLE).
EX_RECYCLE = 0x9B


class Engine:
    """The parts of a worker, built when first used.

    Args:
        app: the Celery app whose tasks play the rounds.
        settings: of this process.
        sources: modules that register flows, by name, or flows.
    """

    def __init__(self, app: Celery, settings: Settings, sources: Sequence[str | type[Flow] | Flow] = ()) -> None:
        self.app = app
        self._sources = sources
        #: Whether the app is Holdfast's own; what an app of somebody else's sets is theirs to decide.
        self.owns_app = False
        #: As they were given; `settings` knows where the state lives, which an app's configuration may have to tell.
        self.given = settings
        self.name = process_name()
        self.draining = Draining()
        #: The process that receives the messages, once this is a worker; its children know by it that they are children.
        self.worker_pid: int | None = None
        #: While this process is a worker: the queues of its set of flows that it consumes beside those of all.
        self.own_queues: list[str] = []
        #: While this process is a worker: what sweeps in it.
        self.sweeping: Sweeper | None = None

    @cached_property
    def settings(self) -> Settings:
        """The settings in force; raises InvalidSettings where neither they nor the app's broker name a state server."""
        return self.given if self.owns_app else with_state_server(self.given, self.app)

    @cached_property
    def store(self) -> Store:
        replication = Replication(self.settings.wait_replicas, self.settings.wait_timeout_seconds)
        outbox, leaves = self.dispatcher.outbox, self.draining.is_on
        return Store(self._url, self.settings.prefix, outbox=outbox, replication=replication, leaves=leaves)

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """Fused where the app's broker is the database that the runs live in, else the outbox."""
        kind = Fused if is_fused(self.app, self._url) else Outbox
        return kind(self.app, Keys(self.settings.prefix))

    @property
    def _url(self) -> str:
        return self.settings.redis_url or LOCALHOST

    def find_flows(self) -> None:
        """Make the registry find the flows of this process, and those that the app brings; raises InvalidFlow."""
        find_flows(self.settings)
        if not self.owns_app:
            find_flows_of_app(self.app, self._sources)

    @cached_property
    def flows(self) -> Mapping[str, Callable[[], Flow]]:
        """The flows this worker can play and is willing to; those that run the submitter's shell commands only where enabled."""
        self.find_flows()
        return {
            name: factory
            for name, factory in registry.registered().items()
            if name not in self.disabled and registry.make(name).missing is None
        }

    @cached_property
    def disabled(self) -> list[str]:
        """The flows that are here, run the submitter's shell commands, and are not enabled."""
        self.find_flows()
        return [name for name in registry.registered() if registry.make(name).runs_shell and name not in self.settings.enabled_flows]

    @cached_property
    def heartbeat(self) -> Heartbeat:
        return Heartbeat(self._hasty_store, self.settings.heartbeat_seconds, self._lingers, self.figures.flush)

    @cached_property
    def _hasty_store(self) -> Store:
        """A connection of its own that gives up soon: one stalled connection must cost a beat and not the leases."""
        patience = min(self.settings.heartbeat_seconds, self.settings.lease_seconds / 4)
        return Store(self.store.url, self.settings.prefix, timeout=patience, resends=1, outage=self.store.outage)

    @cached_property
    def figures(self) -> RoundFigures:
        """What the rounds of this process come to; the heartbeat writes it."""
        return RoundFigures()

    def write_figures(self) -> None:
        """What the heartbeat has not written yet, as this process ends in good order."""
        self.figures.flush(self._hasty_store)

    @cached_property
    def rounds(self) -> Rounds:
        parts = self.store, self.dispatcher, self.heartbeat, self.settings, self.flows, self.name, self.draining, self.fetching
        return Rounds(*parts, figures=self.figures, lanes=self.lanes, calls=self.calls)

    @cached_property
    def calls(self) -> Calls:
        """Who is called when a run has ended."""
        return Calls(self.app, self.store, self.owns_app)

    @cached_property
    def lanes(self) -> Lanes:
        """For the threads of this process; a thread that has nothing left to play makes room."""
        return Lanes()

    @cached_property
    def fetching(self) -> Fetching:
        """Off, but in a worker that plays rounds in its own process."""
        return Fetching(self.give_back)

    @cached_property
    def client(self) -> Client:
        """A client on this engine's app, for tasks that submit."""
        from worker.client import Client

        return Client(app=self.app)

    def give_back(self, claim: Granted) -> None:
        """Return a claim that was fetched and whose round is not begun here."""
        self.rounds.give_back(claim)

    def _lingers(self, lease: Lease) -> None:
        """A round that nobody wants any more holds a place: where it has a process of its own, that process is ended."""
        alone = self.worker_pid not in (None, os.getpid())
        what = "its process ends, so that its place is free" if alone else "it keeps its place until it returns"
        logger.warning("run %s: its round is not wanted any more and does not look at context.cancelled; %s", lease.run_id, what)
        if alone:
            os._exit(EX_RECYCLE)

    def abandon(self) -> None:
        """This worker ends now, and its rounds with it: others need not wait for the end of their leases."""
        from worker.request import in_flight

        # A connection of its own: this may be a signal handler, in the middle of anything.
        store = Store(self.store.url, self.settings.prefix, timeout=1.0, resends=0)
        try:
            for request in in_flight():
                run_id, epoch, step = request.args
                store.forfeit(run_id, epoch=epoch, step=step, process=process_name(request.worker_pid))
            if self.sweeping is not None:
                self.sweeping.silence(patience=1.0)
            store.withdraw(self.name)
        except StoreUnavailable as error:
            logger.warning("the leases of this worker will lapse, it could not let them go: %s", error)

    def sweeper(self, role: str, pool: str, concurrency: int) -> Sweeper:
        """A sweeper that announces this worker as playing ``role`` with so many slots."""

        from worker.request import in_flight  # only workers need so much of Celery

        def announcement() -> Mapping[str, Any]:
            return {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "role": role,
                "pool": pool,
                "concurrency": concurrency,
                "handover": self.dispatcher.name,
                "rounds": len(in_flight()),
                "draining": self.draining.is_on(),
                "fetching": self.fetching.on,
                "schema": SCHEMA,
                "lists": [] if self.draining.is_on() else self.own_queues,
                "flows": {name: describe(factory()) for name, factory in self.flows.items()},
                "disabled": self.disabled,
                "durability": self.settings.durability,
            }

        return Sweeper(self.store, self.dispatcher, self.settings, self.name, announcement, self.calls)

    def close(self) -> None:
        """Close the connections of store and dispatcher; what rounds that were played here came to is written before."""
        if "figures" in vars(self):
            self.write_figures()
        self.store.close()
        self.dispatcher.close()
