"""The state server goes away: a worker's log lines, and the time to leave meanwhile."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, RunStatus, Settings
from tests.support.redis_servers import CrashableServer, server, until
from tests.support.workers import WorkerProcess

#: Seconds after which docker-compose.yml kills a worker that was asked to leave. Prefork beside a
#: silent server takes 21 s on an idle machine.
GRACE = 60


@contextmanager
def at_work(
    running: CrashableServer, log: Path | None = None, *options: str
) -> Iterator[tuple[WorkerProcess, Client, str]]:
    """Start a worker in the middle of a round of a run with many rounds."""
    settings = Settings(redis_url=running.url, prefix="away")
    worker = WorkerProcess(settings, *options, log=log, PERDURE_LOG_FORMAT="json")
    with closing(Client(settings=settings)) as client:
        try:
            worker.ready()
            run_id = client.submit("ledger", "g", {"rounds": 10_000, "seconds": 0.2}).id
            until(lambda: client.get(run_id).state.step > 1, "the first rounds")
            yield worker, client, run_id
        finally:
            worker.close()


def lines(log: Path) -> list[dict[str, Any]]:
    """Return the worker's log records, without the text that it prints at its start."""
    return [
        json.loads(line) for line in log.read_text("utf-8").splitlines() if line.startswith("{")
    ]


@pytest.mark.slow
def test_an_outage_is_two_lines_in_the_log_the_second_says_that_it_is_over(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with (
        server() as running,
        at_work(running, log, "--pool", "threads") as (worker, client, run_id),
    ):
        running.kill()
        until(lambda: {"the state server", "the broker"} <= set(told(log)), "both to be missed")
        running.start()
        until(
            lambda: {"over: the state server", "over: the broker"} <= set(told(log)),
            "the end of both",
        )
        step = client.get(run_id).state.step
        until(lambda: client.get(run_id).state.step > step, "the run to go on")
        worker.terminate()
        assert worker.process.wait(GRACE) == 0
    assert sorted(told(log)) == [
        "over: the broker",
        "over: the state server",
        "the broker",
        "the state server",
    ]


def told(log: Path) -> list[str]:
    """Return each logged outage, by its server's name."""
    found = []
    for line in lines(log):
        if line["logger"] == "perdure.store":
            of = "the broker" if "the broker" in line["message"] else "the state server"
            found.append(f"over: {of}" if "works again" in line["message"] else of)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True], ids=["dead", "silent"])
@pytest.mark.parametrize("pool", ["threads", "prefork", "solo"])
def test_a_worker_that_is_told_to_leave_while_the_server_is_away_is_gone_before_it_is_killed(
    pool: str, silent: bool
) -> None:
    with (
        server() as running,
        at_work(running, None, "--pool", pool, "--concurrency", "2") as (worker, client, run_id),
    ):
        pid = running.pid
        assert pid is not None
        if silent:
            os.kill(pid, signal.SIGSTOP)
        else:
            running.kill()
        try:
            worker.terminate()
            assert worker.process.wait(GRACE) == 0
        finally:
            if silent:
                os.kill(pid, signal.SIGCONT)
        if not silent:
            running.start()
        assert client.get(run_id).status is RunStatus.RUNNING, "others go on with it"
