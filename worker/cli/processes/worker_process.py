"""A Celery worker in this process for the queues of a role."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from perdure.worker.cli import output

if TYPE_CHECKING:
    from celery import Celery

    from perdure.worker.runtime.runtime import Runtime
    from perdure.worker.settings import Settings

#: A worker's description (JSON data), and the end of the sentence about it, which names its
#: brokers.
Ready = tuple[dict[str, Any], str]


@dataclass(frozen=True)
class WorkerProcess:
    """A worker's settings, role and pool. A call of this object runs the worker until shutdown.

    Attributes:
        settings: The worker's settings.
        role: ``controller``, ``executor`` or ``all``.
        pool: Celery's pool: ``threads``, ``prefork`` or ``solo``.
        as_json: Whether ``say_ready`` prints JSON.
    """

    settings: Settings
    role: str
    pool: str
    as_json: bool

    def __call__(self, say_ready: Callable[[Ready], None], alone: bool = True) -> None:
        """Run the role's Celery worker in this process until shutdown.

        Args:
            say_ready: Called with the worker's description when it is ready, and again after each
                lost connection to the broker.
            alone: Whether the worker runs without a supervisor.

        Raises:
            Failed: The settings enable a flow that is not registered.
            SystemExit: The worker failed. The exit code is INTERNAL.
        """
        from perdure.worker.app import engine_of, make_app
        from perdure.worker.cli.exit_codes import INTERNAL

        _hide_warnings()
        app = make_app(self.settings)
        # Celery treats `--pool prefork` as the default, and then uses the pool of the app.
        app.conf.worker_pool = self.pool
        engine = engine_of(app)
        flow_names = list(engine.flows)  # registers the flows
        self._check_enabled_flows()
        self._connect_signals(engine, flow_names, say_ready, alone)
        worker = self._make_celery_worker(app, engine)
        worker.start()
        # The exit code of a failed worker differs from that of a worker that was shut down.
        if worker.exitcode:
            sys.exit(INTERNAL)

    def _check_enabled_flows(self) -> None:
        """Raise Failed if the settings enable an unregistered flow."""
        from perdure.flows.rounds import registry
        from perdure.worker.cli.exit_codes import USAGE, Failed

        registered = registry.registered()
        unknown = [name for name in self.settings.enabled_flows if name not in registered]
        if unknown:
            raise Failed(
                f"--enable {', '.join(unknown)}: no such flow here; "
                f"registered flows: {', '.join(registered)}",
                USAGE,
            )

    def _connect_signals(
        self,
        engine: Runtime,
        flow_names: list[str],
        say_ready: Callable[[Ready], None],
        alone: bool,
    ) -> None:
        """Connect receivers to Celery's signals: for logging, for shutdown, and for ``say_ready``.

        Args:
            engine: The runtime of this worker.
            flow_names: Names of the flows that this worker has.
            say_ready: As in ``__call__``.
            alone: As in ``__call__``.
        """
        from celery import signals

        from perdure.worker.cli.processes.shutdown import Shutdown
        from perdure.worker.engine.redirect import differences
        from perdure.worker.logs import set_up_logging

        settings = self.settings
        description = self._describe(engine, flow_names)
        brokers = _name_brokers(settings, engine)

        def ready(**_: Any) -> None:
            differing = differences(
                engine.store, settings.heartbeat_seconds, engine.name, self.role, flow_names
            )
            extra = {"differing": differing} if differing else {}
            say_ready(({**description, **extra}, brokers))

        signals.setup_logging.connect(
            lambda **_: set_up_logging(settings.log_format, several=not alone), weak=False
        )
        signals.worker_ready.connect(Shutdown(engine, alone).watch, weak=False)
        signals.worker_ready.connect(ready, weak=False)
        # Celery resets the warning filters when it sets up its logging.
        signals.celeryd_after_setup.connect(lambda **_: _hide_warnings(), weak=False)

    def _describe(self, engine: Runtime, flow_names: list[str]) -> dict[str, Any]:
        """Return the worker's description as JSON data, which ``say_ready`` prints."""
        return {
            "role": self.role,
            "pool": self.pool,
            "concurrency": self.settings.concurrency,
            "flows": flow_names,
            "server": engine.store.place,
            "pid": os.getpid(),
        }

    def _make_celery_worker(self, app: Celery, engine: Runtime) -> Any:
        """Return a Celery worker for the queues of this role. It is not started yet.

        It is made without Celery's command line, because the imports of that (shell, colours) take
        a fifth of the worker's start.
        """
        from celery.utils.nodenames import host_format

        roles = ("controller", "executor") if self.role == "all" else (self.role,)
        return app.Worker(
            hostname=host_format(f"perdure-{self.role}-{os.getpid()}@%h"),
            queues=[engine.store.keys.queue(each) for each in roles],
            concurrency=self.settings.concurrency,
            pool_cls=self.pool,
            loglevel="WARNING",
            quiet=True,
            without_gossip=True,
            without_mingle=True,
            # Celery's heartbeat is a task event.
            without_heartbeat=not self.settings.task_events,
        )

    def say_ready(self, ready: Ready, processes: Sequence[int] = ()) -> None:
        """Print that the worker is ready, as a sentence or as one JSON document.

        With the log format ``json``, the sentence is logged instead.

        Args:
            ready: The worker's description, and the end of the sentence, which names its brokers.
            processes: The ids of the worker processes if this process is their supervisor. Empty
                if this process is the worker.
        """
        description, messages = ready
        if self.as_json:
            supervisor = {"pid": os.getpid(), "processes": list(processes)} if processes else {}
            output.document({**description, **supervisor})
            return
        from perdure.worker.domain.fleet import names_text

        kind = {"threads": "threads", "prefork": "processes", "solo": "round at a time"}[self.pool]
        slots = (
            f"{len(processes)} processes of {description['concurrency']} {kind}"
            if processes
            else f"{description['concurrency']} {kind}"
        )
        sentence = (
            f"worker ready: role {self.role}, {slots}, flows: {names_text(description['flows'])}; "
            f"server {description['server']}{messages}"
        )
        if self.settings.log_format == "json":
            logging.getLogger("perdure.worker").info(sentence)
        else:
            click.echo(sentence, err=True)
        for difference in description.get("differing", ()):
            if self.settings.log_format == "json":
                logging.getLogger("perdure.worker").warning(difference)
            else:
                click.echo(f"note: {difference}", err=True)


def _name_brokers(settings: Settings, engine: Runtime) -> str:
    """Return the end of a sentence, which names a worker's brokers.

    The result is ``''`` if the state server is the broker.
    """
    from perdure.worker.urls import place_of

    if not settings.broker_url or not engine.publisher.outbox:
        return ""
    return f"; messages at {', '.join(map(place_of, settings.broker_url.split(';')))}"


def _hide_warnings() -> None:
    from celery.exceptions import CPendingDeprecationWarning
    from celery.platforms import SecurityWarning

    # Celery warns about workers of root because of pickle. Perdure accepts JSON only.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    # On each lost connection Celery warns of a default that will change. worker/app.py sets it.
    warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)
