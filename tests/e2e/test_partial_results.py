"""A result (here an exception) of a pool process that was read in part when the connection to the
broker broke: it is read to its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from perdure import Settings
from perdure.worker.app import broker_url
from tests.support.redis_servers import CrashableServer, server, until
from tests.support.workers import WorkerProcess


@pytest.fixture(scope="module")
def own_server() -> Iterator[CrashableServer]:
    with server("valkey") as running:
        yield running


@pytest.mark.slow
def test_a_result_is_read_to_its_end_after_a_broken_connection(
    own_server: CrashableServer, prefix: str, tmp_path: Path
) -> None:
    settings = Settings(redis_url=own_server.url, prefix=prefix)
    broker = broker_url(own_server.url).replace("perdure+socket", "redis+socket")
    log = tmp_path / "log"
    options = ("--pool", "prefork", "--concurrency", "1", "--loglevel", "INFO")
    theirs = {"THEIRS_BROKER": broker, "THEIRS_RESULTS": broker}
    worker = WorkerProcess(
        settings, *options, app="tests.support.apps.user_app", log=log, **theirs
    ).ready()
    with Celery("sender", broker=broker, backend=broker, set_as_current=False) as app:
        app.conf.task_default_queue = "theirs"
        try:
            for attempt in range(1, 20):
                app.send_task("tests.support.apps.user_app.fail_at_large", (20 << 20,))
                until(
                    lambda lost=attempt: log.read_text().count("to broker lost") == lost,
                    "the connection to break",
                )
                assert app.send_task("tests.support.apps.user_app.add", (2, 1)).get(20) == 3
                if "results of child processes" in log.read_text():
                    break
            else:
                pytest.fail("no result was read in part")
            worker.terminate()
            assert worker.process.wait(20) == 0
        finally:
            worker.close()
    assert "Unrecoverable" not in log.read_text()
