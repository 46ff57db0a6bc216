"""A worker after a stop signal: announced as draining, its health check green, until its last round
is over. The rest is for others.
"""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
import redis

from perdure import Client, RunStatus, Settings, VerdictCode
from tests.support.command_line import CommandLine
from tests.support.os_processes import children
from tests.support.redis_servers import until
from tests.support.workers import FLOWS as FLOWS_OF_WORKERS
from tests.support.workers import ONE_AND_SLOWLY_THE_OTHERS, workers

FLOWS = """
from pathlib import Path
from perdure import CircularFlow, Node, register

@register("patient")
class Patient(CircularFlow):
    topology = (Node("Executor", "wait"),)

    def wait(self, state, context):
        folder = Path(context.inputs["folder"])
        (folder / "begun").touch()
        while not (folder / "go-on").exists():
            context.cancelled.wait(0.02)
        return {self.early_exit_key: True, "answer": "waited"}
"""


@pytest.mark.slow
@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_a_worker_that_ends_its_last_round_is_announced_as_draining_until_it_is_gone(
    client: Client, settings: Settings, tmp_path: Path, pool: str
) -> None:
    (tmp_path / "patience.py").write_text(FLOWS)
    perdure = CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES="patience")
    with perdure.worker("--pool", pool, "--concurrency", "1") as process:
        assert [worker["draining"] for worker in client.workers()] == [False]
        client.submit("patient", "x", {"folder": str(tmp_path)}, run_id="last")
        until((tmp_path / "begun").exists, "the round to begin")
        process.send_signal(signal.SIGTERM)
        until(
            lambda: [worker["draining"] for worker in client.workers()] == [True],
            "the worker to be announced as draining",
        )
        assert perdure("workers", "--alive").code == 0, "it is at work"
        assert "\tdraining\t" in perdure("workers").out
        client.submit("patient", "x", {"folder": str(tmp_path)}, run_id="next")
        assert client.why("next").code is VerdictCode.NO_WORKER, (
            "one that is leaving takes no new round"
        )
        assert "start one" in perdure("submit", "patient", "x", "--input", f"folder={tmp_path}").err
        assert client.get("last").status is RunStatus.RUNNING and process.poll() is None
        (tmp_path / "go-on").touch()
        assert process.wait(30) == 0
    assert client.get("last").answer == "waited"
    assert client.workers() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "pool", ["threads", pytest.param("prefork", marks=pytest.mark.slow)]
)  # solo pops nothing beside its round
def test_a_worker_that_leaves_takes_no_message_along(
    client: Client, settings: Settings, pool: str
) -> None:
    """A message that it popped would wait with it until its last round is over, or be sent again
    two seconds after its push.
    """
    own = workers(
        1, settings, "--pool", pool, "--concurrency", "2", app="tests.support.apps.long_poll"
    )
    with own as [worker], redis.Redis.from_url(settings.redis_url) as server:
        playing = client.submit("ledger", "g", {"rounds": 1, "seconds": 600})
        until(
            lambda: "beat_at" in (client._store.reads.fields(playing.id) or {}),
            "the middle of the round",
        )
        until(
            lambda: server.info("clients")["blocked_clients"] == 1, "the worker to wait for another"
        )
        worker.process.send_signal(signal.SIGTERM)
        until(lambda: server.info("clients")["blocked_clients"] == 0, "the worker to pop no more")
        coming = client.submit("ledger", "g", {"rounds": 1})
        assert client.request_stop(playing.id, mode="now").stopped
        assert worker.process.wait(30) == 0
        fields = client._store.reads.fields(coming.id) or {}
        assert server.lrange(fields["queue"], 0, -1) == [fields["message"].encode()], (
            "still there for others, and never away"
        )


@pytest.mark.slow
def test_a_worker_that_leaves_gives_back_at_once_what_no_process_of_its_pool_has_taken(
    settings: Settings,
) -> None:
    settings = settings.model_copy(
        update={"resend_seconds": 600.0, "flow_modules": (FLOWS_OF_WORKERS,)}
    )
    own = workers(
        1, settings, "--pool", "prefork", "--concurrency", "1", PERDURE_RESEND_SECONDS="600"
    )
    client = Client(settings=settings)
    with own as [worker], redis.Redis.from_url(settings.redis_url) as server, closing(client):
        [child] = children(worker.process.pid)
        os.kill(child, signal.SIGSTOP)
        run = client.submit("ledger", "g", {"rounds": 1})
        fields = client._store.reads.fields(run.id) or {}
        until(lambda: server.llen(fields["queue"]) == 0, "the worker to take the message")
        worker.process.send_signal(signal.SIGTERM)
        until(lambda: server.llen(fields["queue"]) == 1, "the message to be there for others")
        assert worker.process.poll() is None and client.get(run.id).details["attempt"] == 0
        os.kill(child, signal.SIGCONT)
        assert worker.process.wait(30) == 0
