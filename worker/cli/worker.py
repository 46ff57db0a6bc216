"""worker: plays the rounds of runs, as a Celery worker in this process, or as several in processes of their own."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from worker.cli import output
from worker.cli.options import json_option, model_options, processes_option, url_option
from worker.cli.server import settings_for

if TYPE_CHECKING:
    from worker.settings import Settings

#: What a worker is, as JSON data, and where its messages are, as the end of a sentence.
Ready = tuple[dict[str, Any], str]
ROLES = ("controller", "executor", "all")


@click.command("worker")
@click.option("--role", type=click.Choice(ROLES), default="all", show_default=True, help="Which rounds to play.")
@click.option("--concurrency", metavar="N", type=click.IntRange(min=1), help="How many rounds at once, in each process.")
@click.option(
    "--pool",
    type=click.Choice(("threads", "prefork", "solo")),
    default="threads",
    show_default=True,
    help="What plays them: threads, processes (for rounds that compute), or the worker itself, one at a time.",
)
@processes_option
@click.option("--enable", metavar="FLOW", multiple=True, help="Play this flow too, although it runs shell commands of whoever submits.")
@model_options
@click.option("--log-format", type=click.Choice(("text", "json")), help="json: one object a line, with run, step and attempt.")
@click.option("--until-stdin-ends", is_flag=True, hidden=True, help="Shut down when standard input is closed: `up` and `demo` use it.")
@json_option
@url_option
def worker_command(
    role: str,
    concurrency: int | None,
    pool: str,
    processes: int,
    enable: tuple[str, ...],
    model: str | None,
    model_url: str | None,
    log_format: str | None,
    until_stdin_ends: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Play rounds until told to leave. Ctrl-C or SIGTERM: it finishes the rounds in flight and leaves; a second Ctrl-C does not wait."""
    if processes > 1 and pool == "prefork":
        raise click.UsageError(
            f"--processes {processes} does not go with --pool prefork, which has processes of its own: --concurrency says how many."
        )
    settings = settings_for(url, concurrency=1 if pool == "solo" else concurrency, log_format=log_format, model=model, model_url=model_url)
    settings = settings.model_copy(update={"enabled_flows": tuple(dict.fromkeys((*settings.enabled_flows, *enable)))})
    assert settings.redis_url is not None
    os.environ["HOLDFAST_REDIS_URL"] = settings.redis_url  # for the pool's processes
    os.environ["HOLDFAST_ENABLED_FLOWS"] = ",".join(settings.enabled_flows)
    os.environ |= {f"HOLDFAST_{key.upper()}": value for key, value in (("model", model), ("model_url", model_url)) if value is not None}
    play = Play(settings, role, pool, as_json)
    if processes > 1:
        from worker.cli.supervisor import Supervisor

        sys.exit(Supervisor(play, processes, until_stdin_ends).run())
    if until_stdin_ends:
        threading.Thread(target=leave_with_stdin, name="stdin", daemon=True).start()
    play(play.say_ready)


@dataclass(frozen=True)
class Play:
    """What a worker is to play, and how; called, it plays it in this process until it is told to leave."""

    settings: Settings
    role: str
    pool: str
    as_json: bool

    def __call__(self, say_ready: Callable[[Ready], None], alone: bool = True) -> None:
        """``say_ready`` is told what this worker is, again after each loss of the broker. ``alone``: no supervisor speaks to it."""
        from celery import signals
        from celery.utils.nodenames import host_format

        from flows import registry
        from worker.app import engine_of, make_app
        from worker.cli.exits import INTERNAL, USAGE, Failed
        from worker.cli.leaving import Leaving
        from worker.handing import differences
        from worker.logs import set_up_logging
        from worker.places import place_of

        _hide_warnings()
        settings, role, pool = self.settings, self.role, self.pool
        app = make_app(settings)
        app.conf.worker_pool = pool  # Celery takes `--pool prefork` for "not said", and then the app's own
        engine = engine_of(app)
        played = list(engine.flows)
        known = registry.registered()
        unknown = [name for name in settings.enabled_flows if name not in known]
        if unknown:
            raise Failed(f"--enable names {', '.join(unknown)}, which is no flow here; known are {', '.join(known)}", USAGE)
        queues = [engine.store.keys.queue(each) for each in (("controller", "executor") if role == "all" else (role,))]
        slots = settings.concurrency
        brokers = settings.broker_url.split(";") if settings.broker_url and engine.dispatcher.outbox else []
        messages = f"; messages at {', '.join(map(place_of, brokers))}" if brokers else ""
        told = {"role": role, "pool": pool, "concurrency": slots, "flows": played, "server": engine.store.place, "pid": os.getpid()}

        signals.setup_logging.connect(lambda **_: set_up_logging(settings.log_format, several=not alone), weak=False)
        signals.worker_ready.connect(Leaving(engine, alone).watch, weak=False)

        def ready(**_: Any) -> None:
            differing = differences(engine.store, settings.heartbeat_seconds, engine.name, role, played)
            say_ready(({**told, **({"differing": differing} if differing else {})}, messages))

        signals.worker_ready.connect(ready, weak=False)
        signals.celeryd_after_setup.connect(lambda **_: _hide_warnings(), weak=False)  # setting up its logging, Celery shows them again
        # Not by Celery's command line: what that imports (a shell of its own, colours) is a fifth of a worker's start.
        worker = app.Worker(
            hostname=host_format(f"holdfast-{role}-{os.getpid()}@%h"),
            queues=queues,
            concurrency=slots,
            pool_cls=pool,
            loglevel="WARNING",
            quiet=True,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=not settings.task_events,  # an event too
        )
        worker.start()
        if worker.exitcode:  # a worker that could not go on must not look like one that was told to leave
            sys.exit(INTERNAL)

    def say_ready(self, ready: Ready, processes: Sequence[int] = ()) -> None:
        """Says it to the user; ``processes``: the ids of several such workers, where this is their supervisor."""
        told, messages = ready
        if self.as_json:
            output.document({**told, "pid": os.getpid(), "processes": list(processes)} if processes else told)
            return
        kind = {"threads": "threads", "prefork": "processes", "solo": "round at a time"}[self.pool]
        slots = f"{len(processes)} processes of {told['concurrency']} {kind}" if processes else f"{told['concurrency']} {kind}"
        sentence = f"worker ready: role {self.role}, {slots}, flows: {', '.join(told['flows'])}; server {told['server']}{messages}"
        if self.settings.log_format == "json":
            logging.getLogger("holdfast.worker").info(sentence)
        else:
            click.echo(sentence, err=True)
        for difference in told.get("differing", ()):
            if self.settings.log_format == "json":
                logging.getLogger("holdfast.worker").warning(difference)
            else:
                click.echo(f"note: {difference}", err=True)


def _hide_warnings() -> None:
    from celery.exceptions import CPendingDeprecationWarning
    from celery.platforms import SecurityWarning

    # Celery warns every worker of root, because of pickle; Holdfast accepts JSON only.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    # And at each loss of its connection of a default that will change; worker/app.py sets it.
    warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)


def leave_with_stdin() -> None:
    """Ends this process, as SIGTERM does, when the process at the other end of standard input is gone."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
