"""One discovery of the server: the command line, the clients and Celery's worker find the server of
`perdure up`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import COMMAND, ROOT, CommandProcess
from tests.support.redis_servers import until

README = (ROOT / "README.md").read_text("utf-8")
GREETER = re.search(r"```python\n# greetings.py\n(.*?)```", README, re.DOTALL)
SNIPPET = re.search(r"```python\n(from perdure import Client\n.*?)```", README, re.DOTALL)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CommandProcess]:
    """README's greeter, and README's `up`, in a separate directory."""
    assert GREETER is not None
    (tmp_path / "greetings.py").write_text(GREETER[1])
    perdure = CommandProcess(
        tmp_path, PERDURE_FLOW_MODULES="greetings", PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}"
    )
    with subprocess.Popen(
        [*COMMAND, "up", "--no-server", "--json"],
        cwd=tmp_path,
        env=perdure.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as up:
        try:
            assert up.stdout is not None
            assert re.match(r"(valkey|redis) \d+\.\d+", json.loads(up.stdout.readline())["program"])
            until(lambda: "greeter" in perdure("workers").out, "the worker", 60)
            yield perdure
        finally:
            up.terminate()
            up.wait(60)


def python(perdure: CommandProcess, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=perdure.directory,
        env=perdure.environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(240)
def test_readmes_python_works_behind_readmes_up(home: CommandProcess) -> None:
    assert SNIPPET is not None
    assert python(home, SNIPPET[1]).strip() == "['Hello, Ada!', 'Hello, Grace!']"
    listed = textwrap.dedent("""
        import asyncio
        from perdure import AsyncClient

        async def main():
            client = AsyncClient()
            print(len((await client.runs()).runs))
            await client.close()

        asyncio.run(main())
    """)
    assert python(home, listed).strip() == "1"
    celery = "from perdure.app import app; print(app.conf.broker_read_url)"
    up = python(
        home, "from perdure.worker.embedded import EmbeddedServer; print(EmbeddedServer.running())"
    ).strip()
    assert up.partition("://")[2].partition("?")[0] in python(home, celery)


def test_settings_come_before_the_server_of_up_and_localhost_comes_last(
    home: CommandProcess,
) -> None:
    code = "from perdure import Client; print(Client().settings.redis_url)"
    assert python(home, code).startswith("unix://")
    named = {"PERDURE_REDIS_URL": "redis://localhost:1/0"}
    home.environment |= named
    assert python(home, code).strip() == named["PERDURE_REDIS_URL"]
    del home.environment["PERDURE_REDIS_URL"]
    home.environment["XDG_STATE_HOME"] = str(home.directory / "elsewhere")
    assert python(home, code).strip() == "None"  # localhost
