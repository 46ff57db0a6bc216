"""A module ``perdure_flows`` that cannot be imported: the app's own tasks run, and the worker says
why no rounds are played.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from celery import Celery

from perdure.worker.app import broker_url
from tests.support.command_line import ROOT
from tests.support.os_processes import end_all
from tests.support.redis_servers import server

APP = """
import os
from celery import Celery
from perdure import install

app = Celery("shop", broker=os.environ["BROKER"], backend=os.environ["BROKER"])
app.conf.task_default_queue = "shop"
install(app)


@app.task(name="add")
def add(x, y):
    return x + y
"""


def test_flows_that_cannot_be_imported_do_not_stop_the_apps_own_tasks(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "celery.py").write_text(APP)
    (tmp_path / "shop" / "perdure_flows.py").write_text("raise ValueError('not today')\n")
    with server("valkey", "everysec") as running:
        broker = broker_url(running.url).replace("perdure+socket", "redis+socket")
        bare = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PERDURE_", "CELERY_"))
        }
        with (tmp_path / "said").open("w") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "shop", "worker", "-P", "threads", "-c", "2"],
                cwd=tmp_path, env={**bare, "PYTHONPATH": str(ROOT), "BROKER": broker, "C_FORCE_ROOT": "1"},
                stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        try:
            with Celery("sender", broker=broker, backend=broker, set_as_current=False) as app:
                app.conf.task_default_queue = "shop"
                assert app.send_task("add", (1, 2)).get(40) == 3
        finally:
            end_all(process)
    [line] = [
        line for line in (tmp_path / "said").read_text().splitlines() if "plays no rounds" in line
    ]
    assert "not today" in line
