"""Celery's remote control on a user's app: its effect on rounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from celery import Celery

from perdure import Client, Settings
from perdure.worker.app import broker_url
from tests.support.command_line import ROOT
from tests.support.os_processes import end_all
from tests.support.redis_servers import server, until


def test_a_revoked_round_is_played_since_runs_are_stopped_by_stop(tmp_path: Path) -> None:
    with server("valkey", "everysec") as running:
        settings = Settings(
            redis_url=running.url,
            prefix=f"t{uuid4().hex[:8]}",
            flow_modules=("tests.support.example_flows.rings",),
        )
        broker = broker_url(running.url).replace("perdure+socket", "redis+socket")
        bare = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PERDURE_", "CELERY_"))
        }
        ours = {
            "PERDURE_PREFIX": settings.prefix,
            "PERDURE_FLOW_MODULES": "tests.support.example_flows.rings",
        }
        command = [
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
            "-n",
            "one@here",
        ]
        with (tmp_path / "said").open("w") as said:
            process = subprocess.Popen(
                command, cwd=ROOT, env={**bare, **ours, "PYTHONPATH": str(ROOT), "THEIRS_BROKER": broker, "C_FORCE_ROOT": "1"},
                stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        client = Client(settings=settings)
        try:
            until(
                lambda: bool(client.workers()) or process.poll() is not None,
                "the worker's announcement",
                60,
            )
            with Celery("sender", broker=broker, set_as_current=False) as app:
                until(
                    lambda: bool(app.control.ping(["one@here"], timeout=0.5)), "remote control", 60
                )
                run = client.submit("ledger", "g", {"rounds": 2}, not_before=5)
                fields = client._store.reads.fields(run.id) or {}
                message = json.loads(fields["message"])["headers"]["id"]
                assert app.control.revoke(message, reply=True, timeout=5, destination=["one@here"])
            assert client.wait(run.id, 60).answer == [0, 1]
        finally:
            client.close()
            end_all(process)
