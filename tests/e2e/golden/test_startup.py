"""The start: which packages are loaded before a process does anything, and by each command.

These names stand for the time that a start takes; times themselves belong to ``benchmarks/``. A
command imports what it uses. Heavy modules that are new in a line of the golden file make the
command slower: move the code that needs them, or import them where they are used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from perdure import Client
from perdure.worker.cli.main import COMMANDS
from perdure.worker.settings import Settings
from tests.golden.golden_files import compare
from tests.support.command_line import CommandLine

#: Packages that take time to load, and those that only some installations have.
WATCHED = {
    "amqp", "asyncio", "celery", "click", "fastapi", "httpx2", "jinja2", "kombu", "mcp",
    "multiprocessing", "openai", "opentelemetry", "prometheus_client", "pydantic", "pydantic_ai",
    "pydantic_settings", "pytest", "redis", "rich", "sqlite3", "ssl", "starlette", "uvicorn",
    "yaml",
}  # fmt: skip
#: What a process does first, by what it is.
STARTS = {
    "help": "from perdure.worker.cli.main import run; assert run(['--help']) == 0",
    "version": "from perdure.worker.cli.main import run; assert run(['--version']) == 0",
    "face": "import perdure",
    "flows": "import perdure.flows",
    "pytest plugin": "import perdure.worker.testing.plugin",
    "testing": "import perdure.testing",
}
REPORT = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"


def test_a_start_loads_the_packages_of_the_golden_file() -> None:
    compare("startup", {what: packages(loaded(script)) for what, script in STARTS.items()})


def loaded(
    script: str, environment: Mapping[str, str] = os.environ, directory: Path | None = None
) -> set[str]:
    """Return the modules that a new process has loaded after the script."""
    done = subprocess.run(
        [sys.executable, "-c", script + REPORT],
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, f"{script}: {done.stderr}"
    return set(json.loads(done.stdout.splitlines()[-1]))


def packages(modules: set[str]) -> set[str]:
    """Return the watched packages among the modules."""
    return {name.partition(".")[0] for name in modules} & WATCHED


#: Modules of ours that take time, each by what it is.
OURS = {
    "perdure.flows.executors": "executors",
    "perdure.flows.flow": "Flow",
    "perdure.flows.controllers.model": "models",
    "perdure.flows.yaml_flows.load": "YAML-flows",
    "perdure.worker.client.client": "Client",
    "perdure.worker.client.reader": "Reader",
    "perdure.worker.client.remote": "RemoteClient",
    "perdure.worker.doctor": "doctor",
    "perdure.worker.runtime.runtime": "runtime",
    "perdure.worker.settings": "settings",
    "perdure.worker.store": "store",
    "perdure.worker.tracing.run_spans": "traces",
    "perdure.worker.web": "web",
}
#: What follows the name of each command, in this order. A command that runs on shows its help.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "demo": ("--help",),
    "up": ("--help",),
    "worker": ("--help",),
    "server": ("--help",),
    "watch": ("--help",),
    "wait": ("--help",),
    "ask": ("--help",),
    "history": ("--help",),  # it needs an extra
    "submit": ("question", "which?", "--id", "submitted"),
    "list": (),
    "show": ("live",),
    "tree": ("live",),
    "why": ("live",),
    "value": ("live",),
    "inbox": (),
    "workers": (),
    "flows": (),
    "doctor": (),
    "again": ("live",),
    "fork": ("live", "0"),
    "add": ("live", "tokens=1"),
    "signal": ("live", "go"),
    "say": ("live", "go on"),
    "send": ("golden", "hello", "--flow", "question"),
    "thread": ("golden",),
    "stop": ("live",),
    "resume": ("live",),
    "retry": ("live",),
    "delete": ("live",),
    "notes": ("list",),
    "notifications": ("list",),
    "token": ("list",),
}
#: Exit codes of commands that the state of the run or of the server does not allow.
NOT_DONE = {"retry": 8, "delete": 8}


@pytest.mark.slow  # one process for each command
def test_a_command_loads_what_it_uses(settings: Settings, tmp_path: Path) -> None:
    assert set(ARGUMENTS) == set(COMMANDS)
    with closing(Client(settings=settings)) as client:
        client.submit("countdown", "a run for all commands", run_id="live", budgets={"tokens": 9})
    environment = CommandLine(tmp_path, settings).environment
    found = {}
    for name, arguments in ARGUMENTS.items():
        script = (
            "from perdure.worker.cli.main import run\n"
            f"code = run({[name, *arguments]})\n"
            f"assert code == {NOT_DONE.get(name, 0)}, code"
        )
        names = loaded(script, environment, tmp_path)
        # redis-py loads OpenTelemetry by itself, where it is installed.
        found[name] = " ".join(
            sorted(packages(names) - {"opentelemetry"})
            + sorted(OURS[each] for each in OURS.keys() & names)
        )
    compare("startup_commands", found)
