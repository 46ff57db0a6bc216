"""A Celery signature is called when a run has ended, however it ends and whichever process dies
meanwhile; chains and chords follow from there.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery, chain, chord

from perdure import Client
from perdure.worker.app import broker_url
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support.end_calls import calls, real, settings, to
from tests.support.named_crash_points import Player
from tests.support.redis_servers import CrashableServer, server, until
from tests.support.workers import ROOT, workers

__all__ = ["calls", "real", "settings"]

LISTED = "tests.support.apps.user_app.listed"
SOON = {"PERDURE_SWEEP_SECONDS": "0.5"}


def waiting(store: Store, queue: str) -> list[Any]:
    """Return the positional arguments of the tasks that wait in this queue, oldest first."""
    found: Any = store.redis.lrange(queue, 0, -1)
    return [json.loads(base64.b64decode(json.loads(text)["body"]))[0] for text in reversed(found)]


def test_each_kind_of_end_calls_with_what_became_of_the_run(
    client: Client, settings: Settings, calls: str, real: Store
) -> None:
    with workers(1, settings, "--concurrency", "2", **SOON):
        on_end = to(calls, "own")
        done = client.submit("ledger", "g", {"rounds": 2}, labels={"team": "a"}, on_end=on_end)
        bad = client.submit("trouble", "g", {"kind": "fatal", "times": 1}, on_end=dict(on_end))
        gone = client.submit(
            "ledger", "g", {"rounds": 2}, not_before=3600, on_end=json.dumps(on_end)
        )
        client.request_stop(gone.id)
        until(lambda: len(waiting(real, calls)) == 3, "three calls", 40)
        told: dict[str, Mapping[str, Any]] = {}
        for run, own in waiting(real, calls):
            assert own == "own"
            told[run["run_id"]] = run
        assert told[done.id] == {
            "run_id": done.id, "flow": "ledger", "status": "completed", "finished": True, "answer": [0, 1],
            "output": client.get(done.id).output, "error": None, "labels": {"team": "a"}, "epoch": 0,
        }  # fmt: skip
        assert (
            told[bad.id]["status"] == "errored"
            and told[bad.id]["error"] == client.get(bad.id).error
        )
        assert told[gone.id]["status"] == "stopped" and told[gone.id]["answer"] is None
        until(lambda: not real.redis.exists(real.keys.endings), "all to be struck off", 10)


def test_an_immutable_signature_gets_its_own_arguments_alone(
    client: Client, settings: Settings, calls: str, real: Store
) -> None:
    with workers(1, settings):
        client.submit("ledger", "g", {"rounds": 1}, on_end=to(calls, 1, 2, immutable=True))
        until(lambda: waiting(real, calls) == [[1, 2]], "the call", 20)


def test_a_run_that_is_retried_calls_at_each_of_its_ends(
    client: Client, settings: Settings, calls: str, real: Store
) -> None:
    with workers(1, settings):
        run = client.submit("trouble", "g", {"kind": "fatal", "times": 1}, on_end=to(calls))
        until(lambda: len(waiting(real, calls)) == 1, "the first call", 20)
        client.retry(run.id)
        until(lambda: len(waiting(real, calls)) == 2, "the second", 20)
        assert [(told["status"], told["epoch"]) for [told] in waiting(real, calls)] == [
            ("errored", 0),
            ("completed", 1),
        ]


@pytest.mark.parametrize(("point", "most"), [("ended", 1), ("called", 2)])
def test_a_worker_may_die_between_the_end_and_the_call(
    client: Client,
    settings: Settings,
    calls: str,
    real: Store,
    tmp_path: Path,
    point: str,
    most: int,
) -> None:
    player = Player(settings)
    try:
        run = client.submit(
            "mortal", "g", {"ledger": str(tmp_path / "ledger"), "policy": "tell"}, on_end=to(calls)
        )
        assert player.play(run.id, point)[1], "it was to die"
    finally:
        player.close()
    assert client.get(run.id).answer == "charged" and len(waiting(real, calls)) == most - 1
    with workers(1, settings, **SOON):
        until(lambda: len(waiting(real, calls)) == most, "the sweep's call", 40)
        assert {told["run_id"] for [told] in waiting(real, calls)} == {run.id}
        until(lambda: not real.redis.exists(real.keys.endings), "it to be struck off", 10)


@pytest.fixture(scope="module")
def own_server() -> Iterator[CrashableServer]:
    """A server of this module's: apps of others write outside the prefix."""
    with server("valkey", "everysec") as running:
        yield running


@pytest.fixture
def theirs(own_server: CrashableServer, tmp_path: Path) -> Iterator[tuple[Client, Celery]]:
    """A worker of a user's app with Perdure on it; a client of its runs, and the app as others
    publish with it.
    """
    broker = broker_url(own_server.url).replace("perdure+socket", "redis+socket")
    settings = Settings(
        redis_url=own_server.url,
        prefix=f"t{uuid4().hex[:8]}",
        flow_modules=("tests.support.example_flows.rings",),
    )
    bare = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("PERDURE_", "CELERY_"))
    }
    named = {
        "THEIRS_BROKER": broker,
        "THEIRS_RESULTS": broker,
        "PERDURE_PREFIX": settings.prefix,
        "PERDURE_FLOW_MODULES": "tests.support.example_flows.rings",
    }
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "celery",
                "-A",
                "tests.support.apps.user_app",
                "worker",
                "-P",
                "threads",
                "-c",
                "2",
            ],
            cwd=ROOT,
            env={**bare, **named, **SOON, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
    app = Celery("theirs", broker=broker, backend=broker, set_as_current=False)
    try:
        with closing(Client(settings=settings)) as client, app:
            until(lambda: bool(client.workers()) or process.poll() is not None, "the worker", 60)
            assert client.workers(), (tmp_path / "said").read_text()
            yield client, app
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _chained(app: Celery) -> Any:
    return chain(
        app.signature(LISTED, args=("first",)), app.signature(LISTED, args=("second",)), app=app
    )


def _chord(app: Celery) -> Any:
    return chord(
        [app.signature(LISTED, args=(text,)) for text in "ab"],
        app.signature(LISTED, args=("then",)),
        app=app,
    )


@pytest.mark.parametrize(
    ("canvas", "come"),
    [
        (_chained, lambda run: [[run, "first"], "second"]),
        (_chord, lambda run: [[[run, "a"], [run, "b"]], "then"]),
    ],
    ids=["chain", "chord"],
)
def test_on_a_teams_app_a_canvas_follows(
    theirs: tuple[Client, Celery], canvas: Callable[[Celery], Any], come: Callable[[Any], Any]
) -> None:
    client, app = theirs
    made = canvas(app)
    last = (
        made.tasks[-1] if "tasks" in made.kwargs and made["subtask_type"] == "chain" else made.body
    )
    last.set(task_id=f"last-{uuid4().hex}")
    run = client.submit("ledger", "g", {"rounds": 1}, on_end=made)
    told = app.AsyncResult(last.options["task_id"]).get(60)
    [first] = [given for given in _dicts(told) if isinstance(given, dict)][:1]
    assert first["run_id"] == run.id and told == come(first)


def _dicts(value: Any) -> list[Any]:
    return (
        [found for each in value for found in _dicts(each)] if isinstance(value, list) else [value]
    )
