"""Workers and the doctor's rows, and workers of misconfigured apps: processes.

The rows are in tests/run/runtime/test_doctor.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from perdure import Client, Settings
from perdure.worker.doctor import Level
from perdure.worker.doctor.default_server import unsafe_because
from tests.support.command_line import ROOT, CommandLine, CommandProcess
from tests.support.os_processes import end_all
from tests.support.redis_servers import until
from tests.support.spoiled_servers import PREFIX, hidden, own_server, row, rows, settings, spoil
from tests.support.workers import workers

__all__ = ["hidden", "own_server", "settings", "spoil"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "name", "value"),
    [
        pytest.param("eviction-policy", "maxmemory-policy", "allkeys-lru", marks=pytest.mark.slow),
        ("append-only-file", "appendonly", "no"),
    ],
)
def test_a_server_that_does_not_keep_runs_is_refused_by_doctor_and_workers(
    settings: Settings, spoil: redis.Redis, tmp_path: Path, check: str, name: str, value: str
) -> None:
    spoil.config_set(name, value)
    found = row(settings, check)
    assert found.level is Level.REFUSED and f"CONFIG SET {name}" in found.remedy
    assert (unsafe_because(settings.redis_url or "", settings) or "").count(found.sentence) == 1
    perdure = CommandLine(tmp_path, settings)
    told = perdure("doctor", "--json")
    assert told.code == 1 and check in told.err
    assert [line["check"] for line in told.json if line["level"] == "refused"] == [check]
    assert f"refused  {check}: {found.sentence}" in perdure("doctor").out
    refused = CommandProcess(tmp_path, settings)("worker", "--role", "controller")
    for worker in (refused, _celery(settings)):
        assert worker.code == 1 and found.sentence in worker.err and found.remedy in worker.err, (
            worker
        )
    assert spoil.exists(f"{PREFIX}:workers") == 0


def test_a_worker_starts_on_a_server_that_hides_its_settings(hidden: Settings) -> None:
    with workers(1, hidden) as [worker]:
        assert worker.name is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    [
        "prefetch",
        *(pytest.param(check, marks=pytest.mark.slow) for check in ("pickle", "remote-control")),
    ],
)
def test_what_an_app_sets_is_refused_on_our_own_and_a_warning_on_somebody_elses(
    settings: Settings, spoil: redis.Redis, check: str
) -> None:
    refused = _celery(settings, app="tests.support.apps.misconfigured_app", APP_SETS=check)
    assert refused.code == 1 and f"{check}: " in refused.err, refused
    with _worker(
        settings, "tests.support.apps.misconfigured_app", APP_SETS=check, APP_IS="theirs"
    ) as process:
        client = Client(settings=settings)
        until(lambda: bool(client.workers()) or process.poll() is not None, "the worker to start")
        client.close()
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert f"{check}: " in said and "WARNING" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "queue-names-steps",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("accept-content", "queue-names")),
    ],
)
def test_an_app_whose_workers_could_take_no_round_is_refused(
    settings: Settings, spoil: redis.Redis, name: str
) -> None:
    check = f"{name.removesuffix('-steps')}: "
    ended = _celery(
        settings, app="tests.support.apps.misconfigured_app", APP_SETS=name, APP_IS="own"
    )
    assert ended.code == 1 and check in ended.err, ended
    # Another app goes on with its tasks, and its worker logs why it plays no rounds.
    with _worker(
        settings, "tests.support.apps.misconfigured_app", APP_SETS=name, APP_IS="theirs"
    ) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "plays no rounds" in line)
        assert process.poll() is None
        process.kill()
    assert check in line
    assert spoil.exists(f"{PREFIX}:workers") == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "check", ["always-eager", pytest.param("prefetch-multiplier", marks=pytest.mark.slow)]
)
def test_what_an_app_sets_at_the_cost_of_rounds_is_a_warning(
    settings: Settings, spoil: redis.Redis, check: str
) -> None:
    with _worker(
        settings, "tests.support.apps.misconfigured_app", APP_SETS=check, APP_IS="theirs"
    ) as process:
        client = Client(settings=settings)
        until(lambda: bool(client.workers()) or process.poll() is not None, "the worker to start")
        client.close()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert f"{check}: " in said and "WARNING" in said and process.returncode == 0


def test_dead_letters_and_damaged_runs_are_told(settings: Settings, spoil: redis.Redis) -> None:
    assert {rows(settings)[check].level for check in ("dead-letters", "quarantined-runs")} == {
        Level.OK
    }
    settings = settings.model_copy(update={"flow_modules": ("tests.support.example_flows.rings",)})
    client = Client(settings=settings)
    run = client.submit("ledger", "g", {"rounds": 1})
    spoil.hset(client._store.keys.run(run.id), "goal", "another one")
    spoil.lpush(client._store.keys.queue("controller"), "not a message")
    with workers(1, settings):
        until(
            lambda: client.get(run.id).status.ended and bool(client._store.fleet.dead_letters()),
            "both to be found",
        )
    client.close()
    found = rows(settings)
    assert (
        found["quarantined-runs"].level is Level.WARNING
        and run.id in found["quarantined-runs"].sentence
    )
    assert (
        found["dead-letters"].level is Level.WARNING
        and f"{PREFIX}:dead" in found["dead-letters"].remedy
    )


# The programs and requests of these tests.


class _Ended:
    def __init__(self, code: int, err: str) -> None:
        self.code, self.err = code, err

    def __repr__(self) -> str:
        return f"exit code {self.code}: {self.err}"


@contextmanager
def _worker(
    settings: Settings, app: str = "perdure.app", **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """Start ``celery -A APP worker``; kill it afterwards if it has not ended."""
    assert settings.redis_url is not None
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PERDURE_", "CELERY_"))
    }
    environment |= {"PERDURE_REDIS_URL": settings.redis_url, "PERDURE_PREFIX": settings.prefix}
    environment |= {
        "C_FORCE_ROOT": "1",
        **variables,
    }  # else Celery itself refuses pickle, to root alone
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        app,
        "worker",
        "--pool",
        "threads",
        "--without-gossip",
        "--without-mingle",
    ]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            end_all(process)


def _celery(settings: Settings, app: str = "perdure.app", **variables: str) -> _Ended:
    """Run ``celery -A APP worker`` to its end."""
    with _worker(settings, app, **variables) as process:
        _, said = process.communicate(timeout=30)
        return _Ended(process.returncode, said)
