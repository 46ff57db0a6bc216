"""install: rounds on a Celery app that somebody already has. Nothing of the app's own changes.

At install, two tasks and one worker step are added, and nothing is read: not the app's configuration, not a server.
The queues of rounds are declared in worker processes alone, so whoever publishes with the app sees what it always saw.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import Celery, bootsteps, signals

from flows.base import Flow
from worker.broker import is_amqp, may_consume, queue_of_set, queues_of
from worker.engine import Engine
from worker.errors import InvalidSettings
from worker.handing import flow_set
from worker.orphans import watch_parent
from worker.settings import Settings, current
from worker.store.address import check_url
from worker.store.keys import Keys
from worker.tasks import add_submit_task, add_tasks, exempt_from_time_limits
from worker.telemetry.exporting import set_up
from worker.telemetry.sending import flush
from worker.threads import Threads

logger = logging.getLogger("holdfast.install")

#: How often a worker with child processes looks for dead ones. Celery hears of a death at once, but mostly a moment before the
#: process can be waited for, and then looks again only after 5 seconds, in which neither its round nor its place is free.
LOOK_FOR_THE_DEAD_SECONDS = 0.2


def install(celery_app: Celery, settings: Settings | None = None, *, flows: Iterable[str | type[Flow] | Flow] = ()) -> Celery:
    """Put rounds, heartbeat and sweep on an existing Celery app; its own tasks and settings stay as they are.

    A second call with the same settings does nothing.

    Args:
        celery_app: whose workers shall play rounds. Without ``-Q`` they consume the queues ``PREFIX.controller`` and
            ``PREFIX.executor`` beside the app's own; with it, exactly what it names,
            and for each of these two a queue of their set of flows.
        flows: modules that register flows, by name, or flows. Beside them a module ``holdfast_flows`` is found in each installed
            Django app, in the app's own package, and in the packages of ``imports`` and ``include``.
        settings: None for those of this process. Without a ``redis_url`` the state lives in the app's broker, if that is a Redis.

    Raises:
        InvalidSettings: it is on this app already, with other settings; or ``redis_url`` cannot be that of a server.
    """
    settings = settings or current()
    if settings.redis_url is not None:
        check_url(settings.redis_url)
    there = getattr(celery_app, "holdfast", None)
    if isinstance(there, Engine):
        if there.given != settings:
            differing = [name for name, value in there.given if getattr(settings, name) != value]
            raise InvalidSettings(
                f"Holdfast is on this Celery app already, with other settings ({', '.join(differing)}); an app has one. Call install once"
            )
        return celery_app
    engine = Engine(celery_app, settings, tuple(flows))
    celery_app.holdfast = engine
    add_tasks(celery_app, engine)
    add_submit_task(celery_app, engine)
    celery_app.steps["worker"].add(_step(engine))
    signals.worker_process_init.connect(watch_parent(engine), weak=False)
    signals.worker_process_shutdown.connect(_flush_spans, weak=False, dispatch_uid="holdfast-spans")
    signals.worker_process_shutdown.connect(lambda **_: engine.write_figures(), weak=False)
    signals.celeryd_init.connect(_declare_queues, weak=False, dispatch_uid="holdfast")
    return celery_app


def engine_of(celery_app: Celery) -> Engine:
    """The engine that ``install`` put on the app."""
    engine = getattr(celery_app, "holdfast", None)
    if not isinstance(engine, Engine):
        raise InvalidSettings("this Celery app has no Holdfast on it; call worker.install(app) first")
    return engine


def _declare_queues(instance: Any, **_: Any) -> None:
    """In a worker process, before it looks at ``-Q`` and ``-X``: both may name the queues of rounds, else they are consumed."""
    engine = getattr(instance.app, "holdfast", None)
    if not isinstance(engine, Engine):
        return  # another app of this process
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where Celery found the app: its flow modules are beside it
    queues = instance.app.amqp.queues
    for queue in queues_of(Keys(engine.given.prefix), is_amqp(instance.app.conf.broker_read_url)):
        if queue.name not in queues.consume_from:
            queues.select_add(queue)


def _flush_spans(**_: Any) -> None:
    """In a process of a pool that ends: nothing else would send its last spans."""
    flush()


def _roles(app: Celery, engine: Engine) -> list[str]:
    keys = Keys(engine.given.prefix)
    return [role for role in ("controller", "executor") if keys.queue(role) in app.amqp.queues.consume_from]


def _step(engine: Engine) -> type[bootsteps.StartStopStep]:
    class HoldfastStep(bootsteps.StartStopStep):  # type: ignore[misc]
        """Starts the sweep with the worker. A worker that leaves stays announced, as draining, until its last round is over."""

        requires = ("celery.worker.components:Pool",)
        look: Any = None

        def include_if(self, parent: Any) -> bool:
            """Not in a worker for other queues alone; that one forgets the queues of rounds, as Celery acts on quorum queues it knows."""
            if _roles(parent.app, engine) and self._may_play():
                return True
            names = Keys(engine.given.prefix).queue_names
            parent.app.amqp.queues.deselect(names)
            for name in names:
                parent.app.amqp.queues.pop(name, None)
            return False

        def _may_play(self) -> bool:
            """Return whether rounds are played. A worker of Holdfast's own ends where they cannot be; another keeps its own tasks."""
            from worker.doctor.at_start import check_before_start, why_no_rounds

            if engine.owns_app:
                try:
                    check_before_start(engine)
                except InvalidSettings as error:
                    logger.critical("this worker does not start: %s", error)
                    raise SystemExit(1) from error
                return True
            why = why_no_rounds(engine)
            if why is not None:
                logger.error("this worker plays no rounds of Holdfast, the app's own tasks run: %s", why)
            return why is None

        def create(self, parent: Any) -> None:
            engine.worker_pid = os.getpid()  # before the pool forks
            if engine.owns_app:
                set_up()
            self._consume_own(parent)
            if parent.time_limit or parent.soft_time_limit:
                exempt_from_time_limits(parent.app)

        def _consume_own(self, parent: Any) -> None:
            """Consume the queues of this worker's set of flows as well, where the broker's user may."""
            amqp, keys = is_amqp(parent.app.conf.broker_read_url), Keys(engine.given.prefix)
            own = [keys.queue_of_set(role, flow_set(engine.flows)) for role in _roles(parent.app, engine)]
            if not amqp and not may_consume(parent.app, own):
                logger.info("messages for flows that other workers lack are not handed on to this one: its login may not use %s", own[0])
                return
            for name in own:
                parent.app.amqp.queues.select_add(queue_of_set(name, amqp))
            engine.own_queues = own

        def start(self, parent: Any) -> None:
            signals.worker_shutting_down.connect(self._drain)
            signals.worker_shutdown.connect(self._leave, sender=parent)  # sent when the pool has ended; `stop` comes before it
            roles = _roles(parent.app, engine)
            engine.sweeping = engine.sweeper(roles[0] if len(roles) == 1 else "all", _pool_name(parent), parent.concurrency)
            engine.sweeping.start()
            self._begin_to_fetch(parent, [Keys(engine.given.prefix).queue(role) for role in roles])

        def _begin_to_fetch(self, parent: Any, lists: list[str]) -> None:
            """Where rounds are played in this process, and it consumes nothing else that fetched rounds would hold up."""
            own = engine.own_queues
            pool, alone = _pool_name(parent), set(parent.app.amqp.queues.consume_from) == {*lists, *own}
            if engine.settings.fetch and pool in ("threads", "solo") and alone and not engine.dispatcher.outbox:
                if type(getattr(parent.pool, "executor", None)) is ThreadPoolExecutor:  # Celery's, and it has no thread yet
                    parent.pool.executor.shutdown()
                    parent.pool.executor = Threads(parent.pool.limit, engine.lanes.leave)
                engine.fetching.begin(lists, parent.pool.limit, inline=pool == "solo", own=own)

        def register_with_event_loop(self, parent: Any, hub: Any) -> None:
            if _pool_name(parent) == "prefork":
                if self.look is not None:  # the loop begins anew after each loss of the broker
                    self.look.cancel()
                self.look = hub.call_repeatedly(LOOK_FOR_THE_DEAD_SECONDS, parent.pool.maintain_pool)

        def close(self, parent: Any) -> None:
            """The event loop is over, the consumer has not yet forgotten what it received; then comes the wait for the last round."""
            from worker.request import give_back_not_begun

            engine.fetching.end()
            give_back_not_begun()

        def _leave(self, **_: Any) -> None:
            engine.write_figures()
            if engine.sweeping is not None:
                engine.sweeping.stop()
            flush()

        def _drain(self, **_: Any) -> None:
            engine.draining.begin()

    return HoldfastStep


def _pool_name(parent: Any) -> str:
    return type(parent.pool).__module__.rpartition(".")[2].replace("thread", "threads")
