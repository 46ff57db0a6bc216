"""The command ``worker``: one worker process, or several with a supervisor."""

from __future__ import annotations

import os
import sys
import threading

import click

from perdure.worker.cli.options import json_option, model_options, processes_option, url_option
from perdure.worker.cli.processes.supervised import leave_with_stdin
from perdure.worker.cli.processes.worker_process import WorkerProcess
from perdure.worker.cli.target import settings_for

ROLES = ("controller", "executor", "all")


@click.command("worker")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="all",
    show_default=True,
    help="Which rounds to run.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(min=1),
    help="Concurrent rounds in each process.",
)
@click.option(
    "--pool",
    type=click.Choice(("threads", "prefork", "solo")),
    default="threads",
    show_default=True,
    help="Run rounds in threads, in processes (for CPU-bound rounds) or one at a time (solo).",
)
@processes_option
@click.option(
    "--enable",
    metavar="FLOW",
    multiple=True,
    help="Also run this flow. It executes shell commands that its submitter gives.",
)
@model_options
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    help="json: one object per line, with run, step and attempt.",
)
@click.option(
    "--until-stdin-ends",
    is_flag=True,
    hidden=True,
    help="Shut down when standard input is closed. For `up` and `demo`.",
)
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
    """Run a worker until Ctrl-C or SIGTERM.

    It finishes the rounds in flight before it exits. A second Ctrl-C does not wait for them.
    """
    if processes > 1 and pool == "prefork":
        raise click.UsageError(
            f"--processes {processes} cannot be used with --pool prefork, "
            "which starts its own processes; set their number with --concurrency."
        )
    settings = settings_for(
        url,
        concurrency=1 if pool == "solo" else concurrency,
        log_format=log_format,
        model=model,
        model_url=model_url,
    )
    settings = settings.model_copy(
        update={"enabled_flows": tuple(dict.fromkeys((*settings.enabled_flows, *enable)))}
    )
    assert settings.redis_url is not None
    # The processes of a prefork pool read their settings from the environment.
    os.environ["PERDURE_REDIS_URL"] = settings.redis_url
    os.environ["PERDURE_ENABLED_FLOWS"] = ",".join(settings.enabled_flows)
    os.environ |= {
        f"PERDURE_{key.upper()}": value
        for key, value in (("model", model), ("model_url", model_url))
        if value is not None
    }
    worker = WorkerProcess(settings, role, pool, as_json)
    if processes > 1:
        from perdure.worker.cli.processes.supervisor import Supervisor

        sys.exit(Supervisor(worker, processes, until_stdin_ends).run())
    if until_stdin_ends:
        threading.Thread(target=leave_with_stdin, name="stdin", daemon=True).start()
    worker(worker.say_ready)
