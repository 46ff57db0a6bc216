"""``celery -A APP perdure ...``: the commands on an app that Perdure was installed on, by the entry point ``celery.commands``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, Settings
from perdure.worker.app import broker_url
from tests.support.command_line import Done
from tests.support.workers import workers

ROOT = Path(__file__).parents[2]
APP = ("-A", "tests.support.apps.user_app")


class CeleryCommand:
    """``celery`` with an environment that names a broker and a prefix, and no server."""

    def __init__(self, settings: Settings) -> None:
        assert settings.redis_url is not None
        bare = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PERDURE_", "CELERY_"))
        }
        broker = broker_url(settings.redis_url).replace("perdure+socket", "redis+socket")
        self.environment = {
            **bare,
            "PYTHONPATH": str(ROOT),
            "NO_COLOR": "1",
            "THEIRS_BROKER": broker,
            "PERDURE_PREFIX": settings.prefix,
        }

    def __call__(self, *arguments: str, **variables: str) -> Done:
        command = [sys.executable, "-m", "celery", *arguments]
        environment = self.environment | variables
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def celery(settings: Settings) -> CeleryCommand:
    return CeleryCommand(settings)


@pytest.fixture
def perdure_worker(settings: Settings) -> Iterator[None]:
    with workers(1, settings):
        yield


@pytest.mark.slow
def test_a_run_is_submitted_watched_and_listed_where_the_app_has_it(
    celery: CeleryCommand, client: Client, perdure_worker: None
) -> None:
    submitted = celery(*APP, "perdure", "submit", "countdown", "try it", "--input", "rounds=2")
    run_id = submitted.out.strip()
    assert (
        submitted.code == 0
        and f"celery -A tests.support.apps.user_app perdure watch {run_id}" in submitted.err
    )
    assert celery(*APP, "perdure", "watch", run_id).code == 0
    assert client.get(run_id).status.value == "completed"
    [listed] = celery(*APP, "perdure", "list", "--json").json
    assert listed["id"] == run_id
    assert celery(*APP, "perdure", "why", run_id, "--json").json["code"] == "ended"
    # Another server can be named.
    assert celery(*APP, "perdure", "list", "--url", "unix:///nowhere/at-all.sock").code == 7


@pytest.mark.slow
def test_a_broker_that_only_an_app_of_ones_own_may_have_is_no_hindrance(
    celery: CeleryCommand, settings: Settings
) -> None:
    there = {
        "PERDURE_REDIS_URL": str(settings.redis_url),
        "THEIRS_BROKER": "amqp://127.0.0.1:1//;amqp://127.0.0.1:2//",
    }
    submitted = celery(*APP, "perdure", "submit", "countdown", "try it", **there)
    assert submitted.code == 0, submitted
    handover = [
        row
        for row in celery(*APP, "perdure", "doctor", "--json", **there).json
        if row["check"] == "handover"
    ]
    assert "the broker does not answer" in handover[0]["sentence"]


@pytest.mark.slow
def test_the_doctor_examines_that_app(celery: CeleryCommand) -> None:
    found = {row["check"]: row["level"] for row in celery(*APP, "perdure", "doctor", "--json").json}
    assert found["prefetch-multiplier"] == found["remote-control"] == "warning"
    sets = '{"broker_transport_options": {"priority_steps": [3, 6]}}'
    refused = celery(*APP, "perdure", "doctor", THEIRS_SETS=sets)
    assert refused.code == 1 and "queue-names" in refused.err and "priority_steps" in refused.out


@pytest.mark.slow
def test_an_app_without_perdure_is_told_so_in_a_sentence(celery: CeleryCommand) -> None:
    for done in (
        celery(*APP, "perdure", "list", THEIRS_HAS_PERDURE="0"),
        celery("perdure", "list"),
    ):
        assert (
            done.code == 2
            and done.out == ""
            and "perdure.install(app)" in done.err
            and done.err.count("\n") == 1
        )
    nowhere = celery(*APP, "perdure", "list", THEIRS_BROKER="memory://")
    assert nowhere.code == 2 and "set redis_url" in nowhere.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("worker", "celery -A tests.support.apps.user_app worker"),
        pytest.param("up", "worker", marks=pytest.mark.slow),
        pytest.param("demo", "perdure demo", marks=pytest.mark.slow),
    ],
)
def test_what_an_app_has_another_way_for_is_left_out_and_says_so(
    celery: CeleryCommand, name: str, instead: str
) -> None:
    done = celery(*APP, "perdure", name)
    assert done.code == 2 and instead in done.err
    assert f"\n  {name} " not in celery(*APP, "perdure", "--help").out


@pytest.mark.slow
def test_errors_have_the_exit_codes_of_perdure(celery: CeleryCommand) -> None:
    assert celery(*APP, "perdure", "show", "nobody").code == 3
    assert celery(*APP, "perdure", "lst").code == 2
    assert celery(*APP, "perdure", "submit").code == 2


@pytest.mark.slow
def test_celery_alone_loads_nothing_of_ours_that_takes_time(celery: CeleryCommand) -> None:
    assert "Durable runs" in celery("--help").out
    # Not redis: other packages bring commands as well, and Flower's load it.
    script = "import sys, celery.bin.celery; print(*sorted(name for name in sys.modules if name.startswith(('perdure', 'pydantic'))))"
    loaded = subprocess.check_output(
        [sys.executable, "-c", script], cwd=ROOT, env=celery.environment, text=True
    ).split()
    assert "perdure.worker.cli.celery_command" in loaded
    assert set(loaded) <= {
        "perdure",
        "perdure.worker",
        "perdure.worker.cli",
        "perdure.worker.cli.celery_command",
        "perdure.worker.cli.exit_codes",
        "perdure.worker.cli.main",
    }
