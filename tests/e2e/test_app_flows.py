"""The flows of a user's Celery app: named to install, found in its packages, and beside it in the
working directory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from uuid import uuid4

import pytest
from celery import Celery

from perdure import Client
from perdure.worker.app import broker_url
from perdure.worker.settings import Settings
from tests.support.redis_servers import CrashableServer, server, until

ROOT = Path(__file__).parents[2]
FLOW = """
from perdure import ControllerExecutorFlow, Finish, register

{decorator}
class Made(ControllerExecutorFlow):
    name = {name!r}

    def decide(self, context):
        return Finish(context.goal)
"""
APP = """
import os
from celery import Celery
from perdure import install
{imports}

app = Celery({name!r}, broker=os.environ["BROKER"], backend=os.environ["BROKER"], include={include!r})
app.conf.task_default_queue = "shop"
install(app, flows={flows})
"""


def flow(name: str, registered: bool = True) -> str:
    return FLOW.format(name=name, decorator=f"@register({name!r})" if registered else "")


def app_of(name: str, flows: str = "[]", imports: str = "", include: tuple[str, ...] = ()) -> str:
    return APP.format(name=name, flows=flows, imports=imports, include=include)


#: How an app's flow is found: its files, and its environment.
FOUND: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "a module named to install": (
        {"shop.py": app_of("shop", "['deeds']"), "deeds.py": flow("made")},
        {},
    ),
    "a flow given to install": (
        {
            "shop.py": app_of("shop", "[Made]", "from deeds import Made"),
            "deeds.py": flow("made", registered=False),
        },
        {},
    ),
    "a module of the settings, beside the app": (
        {"shop.py": app_of("shop"), "deeds.py": flow("made")},
        {"PERDURE_FLOW_MODULES": "deeds"},
    ),
    "the app's own package": (
        {
            "shop/__init__.py": "",
            "shop/celery.py": app_of("shop"),
            "shop/perdure_flows.py": flow("made"),
        },
        {},
    ),
    "a package that the app includes": (
        {
            "shop.py": app_of("shop", include=("orders.tasks",)),
            "orders/__init__.py": "",
            "orders/tasks.py": "",
            "orders/perdure_flows.py": flow("made"),
        },
        {},
    ),
}


@pytest.fixture(scope="module")
def own_server() -> Iterator[CrashableServer]:
    with server("valkey", "everysec") as running:
        yield running


@pytest.fixture
def settings(own_server: CrashableServer) -> Settings:
    return Settings(redis_url=own_server.url, prefix=f"t{uuid4().hex[:8]}")


@pytest.fixture
def broker(own_server: CrashableServer) -> str:
    return broker_url(own_server.url).replace("perdure+socket", "redis+socket")


@pytest.fixture
def celery(
    settings: Settings, broker: str, tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    with ExitStack() as running:

        def start(**variables: str) -> subprocess.Popen[bytes]:
            said = running.enter_context((tmp_path / "said").open("w"))
            bare = {
                name: text
                for name, text in os.environ.items()
                if not name.startswith(("PERDURE_", "CELERY_"))
            }
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "celery",
                    "-A",
                    "shop",
                    "worker",
                    "-P",
                    "threads",
                    "-c",
                    "2",
                ],
                cwd=tmp_path,
                env={
                    **bare,
                    "PYTHONPATH": str(ROOT),
                    "BROKER": broker,
                    "PERDURE_PREFIX": settings.prefix,
                    **variables,
                },
                stdout=subprocess.DEVNULL,
                stderr=said,
            )

            def end() -> None:
                process.send_signal(signal.SIGTERM)
                process.wait(30)

            running.callback(end)
            return process

        yield start


@pytest.mark.parametrize("way", FOUND)
def test_the_flows_of_an_app_are_found(
    way: str, celery: Callable[..., subprocess.Popen[bytes]], settings: Settings, tmp_path: Path
) -> None:
    files, variables = FOUND[way]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    process = celery(**variables)
    with closing(Client(settings=settings)) as client:
        until(lambda: bool(client.workers()) or process.poll() is not None, "the worker", 60)
        assert client.workers(), (tmp_path / "said").read_text()
        assert client.wait(client.submit("made", "found").id, 60).answer == "found"


def test_the_submit_task_submits_once_however_often_its_message_comes(
    celery: Callable[..., subprocess.Popen[bytes]], settings: Settings, broker: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(app_of("shop", "['deeds']"))
    (tmp_path / "deeds.py").write_text(flow("made"))
    celery()
    with (
        closing(Client(settings=settings)) as client,
        Celery("sender", broker=broker, backend=broker, set_as_current=False) as app,
    ):
        app.conf.task_default_queue = "shop"
        sent = [
            app.send_task(
                "perdure.submit", ("made", "g"), {"labels": {"by": "beat"}}, task_id="same"
            )
            for _ in range(2)
        ]
        assert sent[0].get(60) == sent[1].get(60)
        other = app.send_task("perdure.submit", ("made", "g"), {"run_id": "mine"}).get(60)
        assert other == "mine" and {run.id for run in client.runs()} == {"mine", sent[0].get()}
        assert client.wait(sent[0].get(), 60).labels == {"by": "beat"}
