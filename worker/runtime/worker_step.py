"""Rounds in a Celery worker: the tasks, and the worker step that starts the sweeper.

The installation of rounds reads neither the app's configuration nor a server. Only worker processes
declare the queues of rounds, so a process that only publishes with the app is not affected.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from celery import Celery, bootsteps, signals

from perdure.flows.core.errors import ends_process
from perdure.flows.rounds.lifespans import close_lifespans
from perdure.worker.broker_urls import is_amqp
from perdure.worker.engine.fast_path import NO_FAST_PATH, REQUEST_ATTRIBUTE
from perdure.worker.engine.redirect import flow_set
from perdure.worker.errors import InvalidSettings
from perdure.worker.features import features
from perdure.worker.messaging.broker import may_consume, queue_of_set, queues_of
from perdure.worker.messaging.message import TASKS
from perdure.worker.messaging.message_builder import NEVER, RoundFailed, RoundTask
from perdure.worker.private_parts.worker_pool import PartialResults
from perdure.worker.runtime.runtime import Runtime, engine_of, watch_parent
from perdure.worker.runtime.unacknowledged import forget_when_connection_is_lost
from perdure.worker.store import StoreUnavailable
from perdure.worker.store.keys import Keys
from perdure.worker.tracing.export import flush, set_up

if TYPE_CHECKING:
    from celery import Task

rounds_logger = logging.getLogger("perdure.rounds")


def add_tasks(app: Celery, engine: Runtime) -> None:
    """Register the two Celery tasks that run rounds: one for controllers, one for executors.

    Args:
        engine: The runtime that runs the rounds.
    """

    def play_round(task: Task, run_id: str, epoch: int, step: int) -> None:
        # worker/runtime/fast/request.py sets it, if this worker has a fast path.
        fast = getattr(task.request, REQUEST_ATTRIBUTE, NO_FAST_PATH)
        try:
            attempt = engine.rounds.run(run_id, epoch, step, fast)
        except StoreUnavailable as error:
            # Nothing to undo: the run's hash still has the due round, and the sweep sends the
            # message again.
            rounds_logger.error(
                "run %s, step %d: the server is away, the sweep requeues the round: %s",
                run_id,
                step,
                error,
                extra={"run_id": run_id, "step": step},
            )
            return
        except BaseException as error:
            if isinstance(error, Exception) or ends_process(error):
                raise
            # Celery's pools would not notice such an end, and the round's slot would never become
            # free.
            raise RuntimeError(
                f"run {run_id}, step {step}: {type(error).__name__} outside of the round's node: "
                f"{error}"
            ) from error
        if attempt.failure is not None:
            # For task events, Flower and error trackers. The engine has committed the failure, and
            # retries the round.
            raise RoundFailed(attempt.failure)

    for name in TASKS.values():
        app.task(play_round, name=name, base=RoundTask, bind=True, shared=False)


def exempt_from_time_limits(app: Celery) -> None:
    """Exempt rounds from the worker's time limits for tasks.

    Rounds have limits of their own (``round_timeout_seconds``).
    """
    for name in TASKS.values():
        app.tasks[name].time_limit = app.tasks[name].soft_time_limit = NEVER


logger = logging.getLogger("perdure.install")

#: Seconds between two checks for dead child processes. Celery learns of a death at once, but mostly
#: a moment before the process can be waited for. It then checks again only after 5 seconds. Until
#: then the dead child keeps its round and its slot.
CHECK_CHILDREN_SECONDS = 0.2


def install_rounds(engine: Runtime) -> None:
    """Add Perdure's tasks, worker step and signal receivers to the Celery app of a runtime."""
    app = engine.app
    add_tasks(app, engine)
    app.steps["worker"].add(PerdureStep)
    signals.worker_process_init.connect(watch_parent(engine), weak=False)
    signals.worker_process_shutdown.connect(_flush_spans, weak=False, dispatch_uid="perdure-spans")
    signals.worker_process_shutdown.connect(_write_stats_of(engine), weak=False)
    signals.worker_process_shutdown.connect(
        _close_lifespans, weak=False, dispatch_uid="perdure-lifespans"
    )
    signals.celeryd_init.connect(_declare_queues, weak=False, dispatch_uid="perdure")


def _declare_queues(instance: Any, **_: Any) -> None:
    """Add the queues of rounds to the app of a worker that starts.

    It is a receiver of ``celeryd_init``. Afterwards Celery reads the options ``-Q`` and ``-X``,
    which may name these queues. Without these options, the worker consumes all of them.
    """
    engine = getattr(instance.app, "perdure", None)
    if not isinstance(engine, Runtime):
        return  # another app of this process
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # Celery found the app here; its flow modules are here too
    queues = instance.app.amqp.queues
    for queue in queues_of(Keys(engine.given.prefix), is_amqp(instance.app.conf.broker_read_url)):
        if queue.name not in queues.consume_from:
            queues.select_add(queue)


def _write_stats_of(engine: Runtime) -> Callable[..., None]:
    """Return a signal receiver that writes the round statistics of a pool process that ends."""

    def write(**_: Any) -> None:
        # Without a state server the worker has run no rounds, and has logged that at its start.
        with suppress(InvalidSettings):
            engine.write_stats()

    return write


def _close_lifespans(**_: Any) -> None:
    """Close the flows' lifespans in an ending pool process."""
    close_lifespans()


def _flush_spans(**_: Any) -> None:
    """Send the last tracing spans of a pool process that ends, which would be lost otherwise."""
    flush()


def _roles(app: Celery, engine: Runtime) -> list[str]:
    keys = Keys(engine.given.prefix)
    return [
        role
        for role in ("controller", "executor")
        if keys.queue(role) in app.amqp.queues.consume_from
    ]


class PerdureStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """The step of a Celery worker that starts and stops the sweeper and prefetch.

    A worker that shuts down remains announced, as draining, until its last round is over.
    """

    requires = ("celery.worker.components:Pool",)
    look: Any = None
    partial_results: PartialResults | None = None

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._engine = engine_of(parent.app)

    def include_if(self, parent: Any) -> bool:
        """Return whether this Celery worker runs rounds.

        It does if it consumes a queue of rounds, and the checks of the doctor permit it. If not,
        the queues of rounds are removed from the app, because Celery changes its behaviour if it
        knows quorum queues.

        Raises:
            SystemExit: The checks do not permit it in a worker of Perdure's own app.
        """
        if _roles(parent.app, self._engine) and self._may_play():
            return True
        names = Keys(self._engine.given.prefix).queue_names
        parent.app.amqp.queues.deselect(names)
        for name in names:
            parent.app.amqp.queues.pop(name, None)
        return False

    def _may_play(self) -> bool:
        """Return whether the doctor's checks permit rounds here.

        In a worker of a user's app that may not run rounds, the reason is logged. The app's own
        tasks run nevertheless.

        Raises:
            SystemExit: The checks do not permit rounds in a worker of Perdure's own app.
        """
        from perdure.worker.runtime.startup_checks import check_before_start, why_no_rounds

        if self._engine.owns_app:
            try:
                check_before_start(self._engine)
            except InvalidSettings as error:
                logger.critical("this worker does not start: %s", error)
                raise SystemExit(1) from error
            return True
        why = why_no_rounds(self._engine)
        if why is not None:
            logger.error("this worker plays no rounds of Perdure, the app's own tasks run: %s", why)
        return why is None

    def create(self, parent: Any) -> None:
        """Prepare a worker for rounds before its pool starts.

        From now on, the worker also consumes the queues of its flow set, and its time limits for
        tasks do not apply to rounds.
        """
        self._engine.worker_pid = os.getpid()  # before the pool forks
        if self._engine.owns_app:
            set_up()
        self._consume_own(parent)
        if parent.time_limit or parent.soft_time_limit:
            exempt_from_time_limits(parent.app)

    def _consume_own(self, parent: Any) -> None:
        """Make the worker consume its flow set's queues.

        If the worker's login at the broker may not pop from these queues, that is logged, and
        nothing changes.
        """
        amqp, keys = is_amqp(parent.app.conf.broker_read_url), Keys(self._engine.given.prefix)
        own = [
            keys.queue_of_set(role, flow_set(self._engine.builds))
            for role in _roles(parent.app, self._engine)
        ]
        if not amqp and not may_consume(parent.app, own):
            logger.info(
                "this worker does not get messages for flows that other workers lack: "
                "its login may not use %s",
                own[0],
            )
            return
        for name in own:
            parent.app.amqp.queues.select_add(queue_of_set(name, amqp))
        self._engine.own_queues = own

    def start(self, parent: Any) -> None:
        """Start the sweeper, the threads of features and, if possible, prefetch in this worker."""
        signals.worker_shutting_down.connect(self._drain)
        # Sent when the pool has ended, after `stop`.
        signals.worker_shutdown.connect(self._leave, sender=parent)
        roles = _roles(parent.app, self._engine)
        self._engine.sweeper = self._engine.new_sweeper(
            roles[0] if len(roles) == 1 else "all", _pool_name(parent), parent.concurrency
        )
        self._engine.sweeper.start()
        self._engine.background = [
            work for feature in features() if (work := feature.background(self._engine))
        ]
        for work in self._engine.background:
            work.start()
        forget_when_connection_is_lost(parent.consumer)
        self._begin_prefetch(
            parent, [Keys(self._engine.given.prefix).queue(role) for role in roles]
        )

    def _begin_prefetch(self, parent: Any, lists: list[str]) -> None:
        """Switch prefetch on if this worker can use it.

        The setting ``fetch`` must be on, the broker must be the state server, and rounds must run
        in this process (pool threads or solo). The worker must consume only queues of rounds,
        because prefetched rounds would delay messages of other queues.

        Args:
            lists: The queues of the roles that the worker consumes.
        """
        own = self._engine.own_queues
        pool, alone = (
            _pool_name(parent),
            set(parent.app.amqp.queues.consume_from) == {*lists, *own},
        )
        if (
            self._engine.settings.fetch
            and pool in ("threads", "solo")
            and alone
            and not self._engine.publisher.outbox
        ):
            from perdure.worker.runtime.fast.installation import install_fast_path

            install_fast_path(self._engine, parent, lists, own, inline=pool == "solo")

    def register_with_event_loop(self, parent: Any, hub: Any) -> None:
        """Set up the event loop of a prefork worker.

        Celery calls this at the start of the worker, and after a lost connection. The worker then
        checks for dead child processes more often than Celery does, and results of child processes
        that were only read in part are read to their end.
        """
        if _pool_name(parent) == "prefork":
            if self.partial_results is None:
                self.partial_results = PartialResults(hub, parent.pool)
            self.partial_results.restore()
            if self.look is not None:
                self.look.cancel()
            self.look = hub.call_repeatedly(CHECK_CHILDREN_SECONDS, parent.pool.maintain_pool)

    def close(self, parent: Any) -> None:
        """Stop prefetching, and give the rounds that have not begun to other workers.

        Celery calls this at a shutdown, when the event loop has ended. The consumer still has the
        received messages. Afterwards Celery waits for the last round.
        """
        from perdure.worker.runtime.request import give_back_not_begun

        if self._engine.fast is not None:
            self._engine.fast.end()
        give_back_not_begun()

    def _leave(self, **_: Any) -> None:
        close_lifespans()
        self._engine.write_stats()
        for work in self._engine.background:
            work.stop()
        if self._engine.sweeper is not None:
            self._engine.sweeper.stop()
        flush()

    def _drain(self, **_: Any) -> None:
        self._engine.drain.begin()


def _pool_name(parent: Any) -> str:
    return type(parent.pool).__module__.rpartition(".")[2].replace("thread", "threads")
