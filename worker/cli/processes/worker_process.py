"""A worker in this process: Celery's, set up for a role, until it is shut down."""

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
    from perdure.worker.settings import Settings

#: A worker's description (JSON data), and the end of a sentence that names its brokers.
Ready = tuple[dict[str, Any], str]


@dataclass(frozen=True)
class WorkerProcess:
    """A worker's role, pool and settings; calling it runs the worker until it is shut down."""

    settings: Settings
    role: str
    pool: str
    as_json: bool

    def __call__(self, say_ready: Callable[[Ready], None], alone: bool = True) -> None:
        """Run a Celery worker for this role in this process until it is shut down.

        Args:
            say_ready: Called with the worker's description at the start, and again after each
                lost connection to the broker.
            alone: Whether the worker runs without a supervisor.

        Raises:
            Failed: The settings enable a flow that is not registered.
        """
        from celery import signals
        from celery.utils.nodenames import host_format

        from perdure.flows.rounds import registry
        from perdure.worker.app import engine_of, make_app
        from perdure.worker.cli.exit_codes import INTERNAL, USAGE, Failed
        from perdure.worker.cli.processes.shutdown import Shutdown
        from perdure.worker.engine.redirect import differences
        from perdure.worker.logs import set_up_logging
        from perdure.worker.urls import place_of

        _hide_warnings()
        settings, role, pool = self.settings, self.role, self.pool
        app = make_app(settings)
        # Celery treats `--pool prefork` as the default, and then uses the pool of the app.
        app.conf.worker_pool = pool
        engine = engine_of(app)
        flow_names = list(engine.flows)
        registered = registry.registered()
        unknown = [name for name in settings.enabled_flows if name not in registered]
        if unknown:
            raise Failed(
                f"--enable {', '.join(unknown)}: no such flow here; "
                f"registered flows: {', '.join(registered)}",
                USAGE,
            )
        queues = [
            engine.store.keys.queue(each)
            for each in (("controller", "executor") if role == "all" else (role,))
        ]
        slots = settings.concurrency
        brokers = (
            settings.broker_url.split(";")
            if settings.broker_url and engine.publisher.outbox
            else []
        )
        messages = f"; messages at {', '.join(map(place_of, brokers))}" if brokers else ""
        description = {
            "role": role,
            "pool": pool,
            "concurrency": slots,
            "flows": flow_names,
            "server": engine.store.place,
            "pid": os.getpid(),
        }

        signals.setup_logging.connect(
            lambda **_: set_up_logging(settings.log_format, several=not alone), weak=False
        )
        signals.worker_ready.connect(Shutdown(engine, alone).watch, weak=False)

        def ready(**_: Any) -> None:
            differing = differences(
                engine.store, settings.heartbeat_seconds, engine.name, role, flow_names
            )
            extra = {"differing": differing} if differing else {}
            say_ready(({**description, **extra}, messages))

        signals.worker_ready.connect(ready, weak=False)
        # Celery resets the warning filters when it sets up its logging.
        signals.celeryd_after_setup.connect(lambda **_: _hide_warnings(), weak=False)
        # Celery's command line is not used: its imports (shell, colours) take a fifth of the
        # worker's start.
        worker = app.Worker(
            hostname=host_format(f"perdure-{role}-{os.getpid()}@%h"),
            queues=queues,
            concurrency=slots,
            pool_cls=pool,
            loglevel="WARNING",
            quiet=True,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=not settings.task_events,  # Celery's heartbeat is a task event.
        )
        worker.start()
        # The exit code of a failed worker differs from that of a worker that was shut down.
        if worker.exitcode:
            sys.exit(INTERNAL)

    def say_ready(self, ready: Ready, processes: Sequence[int] = ()) -> None:
        """Print that the worker is ready, as a sentence or as one JSON document.

        Args:
            ready: The worker's description, and the end of a sentence that names its brokers.
            processes: The ids of the worker processes, if this process is their supervisor.
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


def _hide_warnings() -> None:
    from celery.exceptions import CPendingDeprecationWarning
    from celery.platforms import SecurityWarning

    # Celery warns about workers of root because of pickle. Perdure accepts JSON only.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    # On each lost connection Celery warns of a default that will change. worker/app.py sets it.
    warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)
