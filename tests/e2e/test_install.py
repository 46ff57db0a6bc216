"""Perdure on existing Celery apps: real workers play rounds and the app's own tasks, and the app
stays unchanged.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis
from amqp.exceptions import NotFound
from celery import Celery

from perdure import Client, InvalidSettings, Settings, install
from perdure.worker.app import broker_url
from tests.support.apps.user_app_settings import SETTINGS
from tests.support.brokers import ground
from tests.support.os_processes import end_all
from tests.support.rabbitmq import RabbitServer
from tests.support.redis_servers import CrashableServer, server, until
from tests.support.workers import ONE_AND_SLOWLY_THE_OTHERS

ROOT = Path(__file__).parents[2]
DJANGO_PROJECT = ROOT / "tests" / "support" / "django_project"


@pytest.fixture(scope="module")
def own_server() -> Iterator[CrashableServer]:
    """A server of this module's: apps of others write outside the prefix."""
    with server("valkey", "everysec") as running:
        yield running


@pytest.fixture
def settings(own_server: CrashableServer) -> Settings:
    return Settings(redis_url=own_server.url, prefix=f"t{uuid4().hex[:8]}")


@pytest.fixture
def broker(own_server: CrashableServer) -> str:
    """The server as an ordinary app names it; nothing says `redis_url`, so the state goes there
    too.
    """
    return broker_url(own_server.url).replace("perdure+socket", "redis+socket")


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    made = Client(
        settings=settings.model_copy(
            update={"flow_modules": ("tests.support.example_flows.rings",)}
        )
    )
    yield made
    made.close()


@pytest.fixture
def celery(
    settings: Settings, broker: str, tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``celery(*arguments, cwd=..., VARIABLE=...)``: the command in a separate process, killed
    afterwards.
    """
    with ExitStack() as running:
        said = running.enter_context((tmp_path / "said").open("w"))

        def start(*arguments: str, cwd: Path = ROOT, **variables: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", *arguments],
                cwd=cwd,
                env=_environment(settings)
                | {"THEIRS_BROKER": broker, "PROJECT_BROKER": broker}
                | variables,
                stdout=subprocess.DEVNULL,
                stderr=said,
                text=True,
                start_new_session=True,
            )
            running.callback(end_all, process)
            return process

        yield start


def _environment(settings: Settings) -> dict[str, str]:
    bare = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PERDURE_", "CELERY_", "DJANGO_"))
    }
    return {
        **bare,
        "PYTHONPATH": str(ROOT),
        "PERDURE_PREFIX": settings.prefix,
        "PERDURE_FLOW_MODULES": "tests.support.example_flows.rings",
        "C_FORCE_ROOT": "1",  # else Celery itself refuses pickle, to root alone
    }


def _sender(broker: str, queue: str) -> Celery:
    """Return an app that publishes to a user's app, and reads its results."""
    app = Celery("sender", broker=broker, backend=broker, set_as_current=False)
    app.conf.task_default_queue = queue
    return app


def _announced(client: Client, process: subprocess.Popen[str]) -> dict[str, Any]:
    until(
        lambda: bool(client.workers()) or process.poll() is not None,
        "the worker's announcement",
        30,
    )
    assert process.poll() is None
    [worker] = client.workers()
    assert worker["pid"] == process.pid
    return worker


def _play(client: Client, rounds: int = 6) -> None:
    run = client.submit("ledger", "g", {"rounds": rounds})
    assert client.wait(run.id, 60).answer == list(range(rounds))


@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_rounds_and_the_apps_tasks_are_played_by_the_same_worker(
    celery: Any, client: Client, broker: str, pool: str
) -> None:
    process = celery(
        "-A", "tests.support.apps.user_app", "worker", "-P", pool, "-c", "2", THEIRS_RESULTS=broker
    )
    assert _announced(client, process)["role"] == "all"
    with _sender(broker, "theirs") as app:
        for number in range(3):
            assert (
                app.send_task("tests.support.apps.user_app.add", (number, 1)).get(30) == number + 1
            )
            _play(client)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_a_django_project_plays_both(celery: Any, client: Client, broker: str, pool: str) -> None:
    process = celery("-A", "proj", "worker", "-P", pool, "-c", "2", cwd=DJANGO_PROJECT)
    _announced(client, process)
    with _sender(broker, "orders") as app:
        assert app.send_task("orders.tasks.total", ([1, 2],)).get(30) == [3, "orders"]
        _play(client)
    assert client.wait(client.submit("refund", "found").id, 60).answer == "found"


@pytest.mark.parametrize(
    "words",
    [
        ("-m", "celery", "-A", "proj", "perdure", "submit", "refund", "found"),
        (
            "-c",
            "from proj.celery import app, submit_refund; submit_refund()",
        ),
    ],
    ids=["command", "script"],
)
def test_a_django_project_submits_where_no_worker_has_loaded_its_apps(
    settings: Settings, client: Client, broker: str, words: tuple[str, ...]
) -> None:
    subprocess.run(
        [sys.executable, *words],
        cwd=DJANGO_PROJECT,
        env=_environment(settings) | {"PROJECT_BROKER": broker},
        check=True,
    )
    assert [run.flow for run in client.runs().runs] == ["refund"]


@pytest.mark.slow
def test_a_django_projects_app_is_the_same_with_perdure(settings: Settings, broker: str) -> None:
    told = []
    for has in "01":
        environment = _environment(settings) | {"PROJECT_BROKER": broker, "WITH_PERDURE": has}
        told.append(
            json.loads(
                subprocess.check_output(
                    [sys.executable, "app_report.py"], cwd=DJANGO_PROJECT, env=environment
                )
            )
        )
    bare, installed = told
    assert (
        bare["settings"] == installed["settings"]
        and bare["settings"]["task_default_queue"] == "'orders'"
    )
    assert (
        bare["queues"] == installed["queues"] == ["orders"]
        and "orders.tasks.total" in bare["tasks"]
    )
    assert set(installed["tasks"]) - set(bare["tasks"]) == {
        "perdure.controller_round",
        "perdure.executor_round",
        "perdure.submit",
    }


ALL = ["theirs", "{}.controller", "{}.executor"]
SELECTIONS = [
    ((), ALL),
    (("-Q", "theirs"), ["theirs"]),
    pytest.param(("-Q", "theirs,{}.executor"), ["theirs", "{}.executor"], marks=pytest.mark.slow),
    (("-Q", "{}.controller,{}.executor"), ["{}.controller", "{}.executor"]),
    pytest.param(("-X", "{}.controller"), ["theirs", "{}.executor"], marks=pytest.mark.slow),
    pytest.param(("-X", "theirs"), ["{}.controller", "{}.executor"], marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "consumed"), SELECTIONS, ids=lambda value: " ".join(value) or "all"
)
@pytest.mark.parametrize(
    "missing",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["create missing", "declared only"],
)
def test_a_worker_consumes_what_it_is_told_and_else_both(
    celery: Any,
    client: Client,
    settings: Settings,
    broker: str,
    options: tuple[str, ...],
    consumed: list[str],
    missing: bool,
) -> None:
    named = [option.replace("{}", settings.prefix) for option in options]
    sets = json.dumps({"task_create_missing_queues": missing})
    process = celery(
        "-A",
        "tests.support.apps.user_app",
        "worker",
        "-P",
        "solo",
        "-n",
        "one@here",
        *named,
        THEIRS_SETS=sets,
    )
    with _sender(broker, "theirs") as app:
        told: dict[str, Any] = {}
        until(
            lambda: bool(
                told.update(app.control.inspect(["one@here"], timeout=0.5).active_queues() or {})
                or told
            ),
            "the worker",
            30,
        )
    # Beside the queues of roles stand the queues of workers that play the same flows (decision 38).
    names = [queue["name"] for queue in told["one@here"] if ".flows-" not in queue["name"]]
    assert sorted(names) == sorted(name.format(settings.prefix) for name in consumed)
    # A worker of the app's own queues alone has nothing to do with rounds; the others announce
    # their roles.
    roles = {name.partition(".")[2] for name in consumed if name.startswith("{}")}
    if roles:
        assert _announced(client, process)["role"] == ("all" if len(roles) == 2 else roles.pop())
    else:
        assert client.workers() == []


#: Compatible with each other, and so on one worker; the forms of the messages are tested one by one
#: (tests/unit/runtime/test_install.py).
TOGETHER: dict[str, Any] = {
    name: value for settings in SETTINGS.values() for name, value in settings.items()
} | {
    "task_time_limit": 1,
    "task_soft_time_limit": 1,
}


@pytest.mark.slow
@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_nothing_an_app_sets_for_its_tasks_is_for_rounds(
    celery: Any, client: Client, pool: str
) -> None:
    process = celery(
        "-A",
        "tests.support.apps.user_app",
        "worker",
        "-P",
        pool,
        "-c",
        "4",
        THEIRS_SETS=json.dumps(TOGETHER),
    )
    _announced(client, process)
    _play(client, 8)
    run = client.submit("ledger", "longer than the app's time limit", {"rounds": 2, "seconds": 2})
    assert client.wait(run.id, 60).answer == [0, 1]
    assert {event.type for event in client.events(run.id, follow=False)}.isdisjoint(
        {"lost", "failed"}
    )


@pytest.mark.slow
def test_an_app_on_rabbitmq_plays_both_and_a_worker_of_its_queues_alone_knows_none_of_rounds(
    celery: Any, settings: Settings
) -> None:
    with ground(
        "rabbit", settings.prefix, "everysec", flow_modules=("tests.support.example_flows.rings",)
    ) as (
        there,
        state,
        rabbit,
    ):
        assert isinstance(rabbit, RabbitServer) and there.redis_url is not None
        results = broker_url(state.url).replace("perdure+socket", "redis+socket")
        variables = {
            "THEIRS_BROKER": rabbit.url,
            "THEIRS_RESULTS": results,
            "PERDURE_REDIS_URL": there.redis_url,
        }
        with (
            Celery("sender", broker=rabbit.url, backend=results, set_as_current=False) as app,
            ExitStack() as closing,
        ):
            client = Client(settings=there)
            closing.callback(client.close)
            app.conf.task_default_queue = "theirs"
            theirs = celery(
                "-A",
                "tests.support.apps.user_app",
                "worker",
                "-P",
                "threads",
                "-c",
                "2",
                "-Q",
                "theirs",
                **variables,
            )
            assert app.send_task("tests.support.apps.user_app.add", (1, 1)).get(60) == 2
            with rabbit.connection() as connection, pytest.raises(NotFound):
                connection.channel().queue_declare("celery_delayed_27", passive=True)
            assert client.workers() == []
            theirs.send_signal(signal.SIGTERM)
            assert theirs.wait(30) == 0
            _announced(
                client,
                celery(
                    "-A",
                    "tests.support.apps.user_app",
                    "worker",
                    "-P",
                    "threads",
                    "-c",
                    "2",
                    **variables,
                ),
            )
            _play(client)
            assert app.send_task("tests.support.apps.user_app.add", (2, 1)).get(30) == 3


def test_a_worker_that_cannot_tell_where_the_state_lives_says_so_and_plays_no_rounds(
    celery: Any, tmp_path: Path
) -> None:
    process = celery(
        "-A",
        "tests.support.apps.user_app",
        "worker",
        "-P",
        "solo",
        "-l",
        "INFO",
        THEIRS_BROKER="memory://",
    )
    said = tmp_path / "said"
    until(
        lambda: "ready." in said.read_text() or process.poll() is not None,
        "the app's own worker",
        30,
    )
    assert "plays no rounds" in said.read_text() and "set redis_url" in said.read_text()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0 and "Traceback" not in said.read_text()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_suite_of_an_existing_app_stays_green(
    settings: Settings, client: Client, broker: str, own_server: CrashableServer, tmp_path: Path
) -> None:
    """The shop's own tests, with a real worker and beat: bare, then with Perdure on its app and
    runs being played beside them.
    """
    counts = []
    for has in "01":
        with redis.Redis.from_url(own_server.url) as connection:
            connection.flushall()
        runs = (
            [
                client.submit("ledger", "beside the suite", {"rounds": 20, "seconds": 0.2}).id
                for _ in range(3)
            ]
            if has == "1"
            else []
        )
        variables = {
            "SHOP_SERVER": broker,
            "SHOP_SCHEDULE": str(tmp_path / f"beat{has}"),
            "SHOP_HAS_PERDURE": has,
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-W",
            "default",
            "tests/support/shop/suite.py",
        ]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=_environment(settings) | variables,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        counts.append(re.findall(r"(\d+) passed", done.stdout))
        assert "failed" not in done.stdout and "skipped" not in done.stdout
        assert [client.get(run).answer for run in runs] == [list(range(20))] * len(runs)
    assert counts[0] == counts[1] and counts[0]


@pytest.mark.slow
def test_a_client_on_the_app_goes_where_the_app_has_its_state_and_its_broker(
    celery: Any, client: Client, broker: str, settings: Settings
) -> None:
    app = Celery(
        "submits", broker=[broker], set_as_current=False
    )  # several to fail over between, which no setting of ours can tell
    install(app, settings)
    _announced(
        client, celery("-A", "tests.support.apps.user_app", "worker", "-P", "threads", "-c", "2")
    )
    on_app = Client(app=app)
    assert on_app._connection.publisher.name == "outbox"
    assert on_app.wait(on_app.submit("ledger", "g", {"rounds": 3}).id, 60).answer == [0, 1, 2]
    on_app.close()
    with pytest.raises(InvalidSettings, match="app cannot be combined with url or settings"):
        Client("redis://localhost", app=app)
