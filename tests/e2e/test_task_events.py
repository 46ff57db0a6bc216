"""Celery's events of workers and rounds: off by default; else one each for every round, by any way
of its message.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from perdure import Client
from perdure.worker.app import engine_of, make_app
from perdure.worker.settings import Settings
from tests.conftest import StartsWorkers
from tests.support.ports import free_port
from tests.support.redis_servers import server, until
from tests.support.workers import ROOT, WorkerProcess

RUNS, ROUNDS = 6, 6
OF_A_ROUND = ("task-received", "task-started", "task-succeeded")


@contextmanager
def listening(settings: Settings) -> Iterator[list[dict[str, Any]]]:
    """Collect the events that Celery's own receiver gets, until the block ends."""
    heard: list[dict[str, Any]] = []
    app = make_app(settings)
    ready, done = threading.Event(), threading.Event()

    def listen() -> None:
        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": heard.append})
            with receiver.consumer_context(wakeup=False) as (established, _, _):
                ready.set()
                while not done.is_set():
                    try:
                        established.drain_events(timeout=0.1)
                    except TimeoutError:
                        continue

    thread = threading.Thread(target=listen)
    thread.start()
    assert ready.wait(10)
    try:
        yield heard
    finally:
        done.set()
        thread.join(10)


def play(client: Client) -> None:
    runs = [client.submit("ledger", "go", {"rounds": ROUNDS}) for _ in range(RUNS)]
    for run in runs:
        client.wait(run.id, 60)


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", "solo", "prefork"])
def test_each_round_is_received_started_and_done_once(pool: str) -> None:
    with server() as own:
        settings = Settings(redis_url=own.url)
        client = Client(settings=settings)
        with listening(settings) as heard:
            worker = WorkerProcess(settings, "-P", pool, "-c", "4", PERDURE_TASK_EVENTS="true")
            try:
                worker.ready()
                play(client)
                until(
                    lambda: (
                        Counter(event["type"] for event in list(heard))["task-succeeded"]
                        >= RUNS * ROUNDS
                    ),
                    "the last event",
                    10,
                )
            finally:
                worker.close()
                client.close()
        told = Counter(
            (event["uuid"], event["type"]) for event in heard if event["type"].startswith("task-")
        )
        rounds = {uuid for uuid, _ in told}
        assert len(rounds) == RUNS * ROUNDS
        assert told == {(uuid, kind): 1 for uuid in rounds for kind in OF_A_ROUND}


@pytest.mark.slow
def test_without_the_setting_nothing_is_sent(
    settings: Settings, client: Client, worker_process: StartsWorkers
) -> None:
    with listening(settings) as heard:
        worker_process()
        play(client)
    assert heard == []


@pytest.mark.slow
def test_a_round_whose_process_died_has_failed() -> None:
    """For Flower it would else go on for ever."""
    with server() as own:
        settings = Settings(redis_url=own.url)
        client = Client(settings=settings)
        with listening(settings) as heard:
            worker = WorkerProcess(settings, "-P", "prefork", "-c", "1", PERDURE_TASK_EVENTS="true")
            try:
                worker.ready()
                run = client.submit("ledger", "go", {"rounds": 1, "seconds": 3})
                until(
                    lambda: "progress" in (client._store.reads.fields(run.id) or {}),
                    "the round to be under way",
                )
                (child,) = (
                    Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children")
                    .read_text()
                    .split()
                )
                os.kill(int(child), 9)
                client.wait(run.id, 60)
            finally:
                worker.close()
                client.close()
        kinds = Counter(event["type"] for event in heard)
        assert kinds["task-failed"] == 1 and kinds["task-received"] == 2


@pytest.mark.parametrize(
    "pool", ["threads", "solo", pytest.param("prefork", marks=pytest.mark.slow)]
)
def test_an_attempt_that_fails_has_failed_as_a_task_and_its_message_is_done_with(pool: str) -> None:
    with server() as own:
        settings = Settings(redis_url=own.url)
        client = Client(settings=settings)
        with listening(settings) as heard:
            fast = {"PERDURE_MAX_ATTEMPTS": "2", "PERDURE_RETRY_DELAY_SECONDS": "0.05"}
            worker = WorkerProcess(
                settings, "-P", pool, "-c", "2", PERDURE_TASK_EVENTS="true", **fast
            )
            try:
                worker.ready()
                run = client.submit("trouble", "go", {"kind": "plain"})
                assert client.wait(run.id, 60).error
                until(
                    lambda: Counter(event["type"] for event in list(heard))["task-failed"] >= 2,
                    "the last event",
                    10,
                )
                play(client)  # its places are free again
            finally:
                worker.close()
                client.close()
        failed = [event for event in heard if event["type"] == "task-failed"]
        assert len(failed) == 2  # two attempts of one message
        assert all(
            "RoundFailed" in event["exception"] and run.id in event["exception"] for event in failed
        )
        assert own_lists(settings) == []


def own_lists(settings: Settings) -> list[str]:
    """Return the texts left in lists of messages."""
    app = make_app(settings)
    keys = engine_of(app).store.keys
    try:
        return [
            text
            for name in keys.queue_names
            for text in engine_of(app).store.redis.lrange(name, 0, -1)
        ]
    finally:
        engine_of(app).close()


def asked(port: int, path: str) -> Any:
    """Return Flower's answer; None before it answers."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return json.load(answer)
    except (URLError, ConnectionError):
        return None


@contextmanager
def flower(settings: Settings) -> Iterator[Callable[[str], Any]]:
    """Start the real Flower on loopback; yield a function that requests a path from it."""
    if importlib.util.find_spec("flower") is None and "CI" not in os.environ:
        pytest.skip("flower is not installed")
    port = free_port()
    assert settings.redis_url is not None
    environment = {
        "PERDURE_REDIS_URL": settings.redis_url,
        "PERDURE_PREFIX": settings.prefix,
        "FLOWER_UNAUTHENTICATED_API": "true",
    }
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "perdure.app",
        "flower",
        f"--port={port}",
        "--address=127.0.0.1",
    ]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(
            lambda: asked(port, "/api/tasks") is not None or process.poll() is not None,
            "Flower",
            40,
        )
        yield lambda path: asked(port, path)
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.slow
def test_flower_shows_the_worker_and_its_rounds() -> None:
    """Its ``/api/workers`` stays empty: that asks by remote control, which is off.

    The page of workers is made of events.
    """
    with server() as own:
        settings = Settings(redis_url=own.url)
        client = Client(settings=settings)
        with flower(settings) as ask:
            command = [sys.executable, "-m", "perdure", "worker", "--concurrency", "4"]
            environment = {
                "PERDURE_REDIS_URL": own.url,
                "PERDURE_FLOW_MODULES": "tests.support.example_flows.rings",
                "PERDURE_TASK_EVENTS": "true",
            }
            worker = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **environment}, stderr=subprocess.DEVNULL
            )
            try:
                until(lambda: any(seen["alive"] for seen in client.workers()), "the worker", 30)
                play(client)

                def succeeded() -> int:
                    return sum(
                        task["state"] == "SUCCESS"
                        for task in (ask("/api/tasks?limit=1000") or {}).values()
                    )

                until(lambda: succeeded() == RUNS * ROUNDS, "all rounds on Flower")

                def shown() -> Any:
                    (only,) = ask("/workers?json=1")["data"]
                    return only

                until(
                    lambda: shown()["processed"] == RUNS * ROUNDS,
                    "the worker's next heartbeat event",
                )
                assert shown()["status"] and shown()["pid"] == worker.pid
            finally:
                worker.terminate()
                worker.wait(30)
                client.close()
