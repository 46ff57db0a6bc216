"""The start of each command: which packages and modules it loads.

These names stand for the time that a start takes; times themselves belong to ``benchmarks/``. A
command imports only the modules that it uses. Heavy modules that are new in a line of the golden
file make the command slower: move the code that needs them, or import them where they are used.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from perdure import Client
from perdure.worker.cli.main import COMMANDS
from perdure.worker.settings import Settings
from tests.golden.golden_files import compare
from tests.golden.loaded_modules import loaded, packages
from tests.support.command_line import CommandLine

#: Our modules that take time, each with its purpose.
OURS = {
    "perdure.flows.executors": "executors",
    "perdure.flows.rounds.flow": "Flow",
    "perdure.flows.controllers.model": "models",
    "perdure.flows.loading.load": "YAML-flows",
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
#: The arguments behind the name of each command, in this order. A command that runs on shows its
#: help.
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
    "size": ("--runs", "10"),
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
