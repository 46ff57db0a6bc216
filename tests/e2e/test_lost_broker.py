"""A worker of a team's own app survives a restart of Redis in the middle of a round."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from perdure import Client, Settings
from perdure.worker.app import broker_url
from tests.support.redis_servers import CrashableServer, until
from tests.support.workers import WorkerProcess


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_outlives_its_broker_in_the_middle_of_a_round(
    own_server: CrashableServer, prefix: str, tmp_path: Path, pool: str
) -> None:
    settings = Settings(
        redis_url=own_server.url,
        prefix=prefix,
        flow_modules=("tests.support.example_flows.rings",),
    )
    broker = broker_url(own_server.url).replace("perdure+socket", "redis+socket")
    log = tmp_path / "log"
    options = ("--pool", pool, "--concurrency", "2", "--loglevel", "INFO")
    worker = WorkerProcess(
        settings, *options, app="tests.support.apps.user_app", log=log, THEIRS_BROKER=broker
    ).ready()
    try:
        with closing(Client(settings=settings)) as client:
            run = client.submit("deaf", "", {"seconds": 3})
            until(lambda: client.get(run.id).phase == "leased", "the round to begin")
            own_server.kill()
            until(lambda: "to broker lost" in log.read_text(), "the worker to notice")
            own_server.restart()
            assert client.wait(run.id, 60).finished
            # The round's late acknowledgement has come by now, and the worker plays on.
            assert client.wait(client.submit("deaf", "", {"seconds": 0}).id, 60).finished
        worker.terminate()
        assert worker.process.wait(30) == 0
    finally:
        worker.close()
    assert "Unrecoverable" not in log.read_text()
