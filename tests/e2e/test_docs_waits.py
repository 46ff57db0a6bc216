"""docs/guides/waits.md: its tests pass, and its programs and calls reach a run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import Client, Settings
from tests.support.plugin_options import PLUGIN
from tests.support.redis_servers import CrashableServer
from tests.support.runs_in_every_status import play
from tests.support.threaded_server import serving
from tests.support.waits_guide import ROOT, TEXT, project, settings

__all__ = ["project", "settings"]


@pytest.mark.parametrize("name", ["test_invoices.py", "test_crashes.py"])
def test_the_examples_of_tests_pass(project: Path, server: CrashableServer, name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGIN, name],
        cwd=project,
        env={**os.environ, "PERDURE_TEST_URL": server.url, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


def test_a_signal_by_a_business_key_comes_once_before_and_after_the_submission(
    client: Client, settings: Settings, project: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "orders.py"],
        cwd=project,
        env={
            **os.environ,
            "PERDURE_REDIS_URL": str(settings.redis_url),
            "PERDURE_PREFIX": settings.prefix,
            "PERDURE_FLOW_MODULES": "invoices",
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    (run,) = client.runs()
    play(settings, run.id)
    assert client.get(run.id).answer == "paid"


def test_a_payment_service_without_a_token_calls_the_hook(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    run = client.submit("payment_page", str(tmp_path / "order"))
    (call,) = re.findall(r"```sh\n(curl .*?)```", TEXT, re.DOTALL)
    with serving(settings) as address:
        public = settings.model_copy(update={"public_url": address})
        play(public, run.id)
        hook = (tmp_path / "order").read_text("utf-8")
        subprocess.run(["/bin/sh", "-c", f"ADDRESS={hook}\n{call}"], check=True, timeout=30)
        play(public, run.id)
    assert client.get(run.id).answer == {"amount": 12}
