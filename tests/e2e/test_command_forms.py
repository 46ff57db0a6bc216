"""A command in the test's process acts as it does in a process, and leaves nothing behind."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

from perdure.flows.rounds import registry
from perdure.worker.app import make_app
from perdure.worker.settings import Settings, current
from tests.support.celery_command import APP, CeleryCommand
from tests.support.command_line import CommandLine, CommandProcess, Done
from tests.support.flow_registry import own_registry
from tests.support.leftover_keys import keys_under
from tests.support.process_state import like_a_new_process

#: A module in the working directory that prints at its import everything that a module can print.
FLOWS = """
import logging, signal, sys, warnings
from perdure import CircularFlow, Finish, Node, node, register

print("imported")
logging.getLogger("a.library").warning("a log line")
logging.getLogger("a.library").info("a log line that is not shown")
warnings.warn("a warning")
warnings.warn("a warning that is not shown", DeprecationWarning)
sys.path.append("/nowhere")
logging.getLogger().addHandler(logging.NullHandler())
signal.signal(signal.SIGTERM, lambda *_: None)

@node("tests.twice")
def twice(state, context):
    return Finish("done")

@register("twice")
class Twice(CircularFlow):
    topology = (Node("Only", twice),)
"""
#: The commands, run in this order by both forms on an empty server.
COMMANDS: dict[str, tuple[str | bytes, ...]] = {
    "a submission": ("submit", "countdown", "x", "--id", "one", "--label", "team=a", "--json"),
    "its flow from the directory": ("submit", "twice", "x", "--id", "two"),
    "an id in use": ("submit", "twice", "y", "--id", "two"),
    "text without a terminal": ("list",),
    "a document": ("list", "--json"),
    "a run": ("show", "one"),
    "a shortened id": ("why", "two"),
    "flows of this machine": ("flows", "--json"),
    "a help text": ("submit", "--help"),
    "a stop by a login name": ("stop", "one", "--reason", "enough", "--json"),
    "the state of a stopped run": ("watch", "one"),
    "a broken flow file": ("doctor", "--json"),
    "a wrong file": ("flows", "check", "config/flows/broken.yaml"),
    "an undecodable argument": ("submit", "question", b"caf\xe9"),
    "an unknown command": ("lst",),
    "no server": ("list", "--url", "redis://localhost:1"),
}  # fmt: skip
#: Variables of one command.
SETTINGS = {"an unknown setting": {"PERDURE_LEASE_SECOND": "3"}}
FORMS: tuple[type[CommandLine], ...] = (CommandLine, CommandLine, CommandProcess)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "my_flows.py").write_text(FLOWS)
    (tmp_path / "config" / "flows").mkdir(parents=True)
    (tmp_path / "config" / "flows" / "broken.yaml").write_text("flow: nonsense\n")
    return tmp_path


def report(form: type[CommandLine], directory: Path, settings: Settings) -> dict[str, Done]:
    """Run all commands on an empty server; return outputs."""
    perdure = form(directory, settings, PERDURE_FLOW_MODULES="my_flows")
    done = {name: perdure(*arguments) for name, arguments in COMMANDS.items()}
    for name, variables in SETTINGS.items():
        done[name] = perdure("list", variables=variables)
    with redis.Redis.from_url(settings.redis_url or "") as client:
        client.delete(*keys_under(client, settings.prefix))
    return {
        name: Done(each.code, without_figures(each.out), without_figures(each.err))
        for name, each in done.items()
    }


def without_figures(text: str) -> str:
    """Replace each time and duration in a text by T, and each size of memory by M."""
    text = re.sub(r"\b\d+(\.\d+)? MB\b", "M", text)
    text = re.sub(r"(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(\.\d+)?(\+\d\d:\d\d)?", "T", text)
    return re.sub(r"\b\d+(\.\d+)? (ms|s|min|milliseconds)\b", "T", text)


def state() -> dict[str, Any]:
    """Return the process state that a command could change."""
    return {
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "modules that are not installed": {
            name: id(module) for name, module in sys.modules.items() if name.startswith("tests.")
        },
        "the module of the directory": sys.modules.get("my_flows"),
        "search path": list(sys.path),
        "flows": dict(registry._definitions),
        "failures": dict(registry._failures),
        "handlers": (logging.getLogger().handlers[:], logging.getLogger().level),
        "warnings": warnings.filters[:],
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "settings": current.cache_info().currsize,
        "streams": (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__, sys.argv),
    }


@pytest.mark.timeout(300)
def test_a_command_is_the_same_in_this_process_and_in_its_own(
    directory: Path, settings: Settings
) -> None:
    in_process, again, in_its_own = (report(form, directory, settings) for form in FORMS)
    assert in_process == in_its_own
    assert again == in_process, "the first pass has left something"
    submitted = in_process["its flow from the directory"]
    assert submitted.code == 0 and submitted.out.startswith("imported\n")
    assert "a log line\n" in submitted.err and "UserWarning: a warning" in submitted.err
    assert "not shown" not in submitted.err
    assert [in_process[name].code for name in ("an id in use", "no server")] == [8, 7]


def test_a_command_in_this_process_leaves_nothing_behind(
    directory: Path, settings: Settings
) -> None:
    current.cache_clear()
    before = state()
    report(CommandLine, directory, settings)
    assert state() == before
    files = open_files()
    report(CommandLine, directory, settings)
    assert (state(), open_files()) == (before, files)


def open_files() -> int:
    """Return the number of files and connections that this process has open."""
    return len(os.listdir("/proc/self/fd"))


def test_other_threads_keep_their_flows_while_a_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_registry(monkeypatch)
    registry.register("only_here", registry.make("countdown"))
    with like_a_new_process(tmp_path, os.environ), ThreadPoolExecutor(1) as other:
        assert "only_here" not in registry.names() and "countdown" in registry.names()
        assert "only_here" in other.submit(registry.names).result()
    assert "only_here" in registry.names()


def test_the_tasks_of_an_app_are_forgotten_with_the_command(settings: Settings) -> None:
    for _ in range(2):
        assert CeleryCommand(settings)(*APP, "perdure", "list").code == 0
    tasks = make_app(settings).tasks
    assert "celery.chord" in tasks and not [name for name in tasks if name.startswith("tests.")]


@pytest.mark.parametrize("name", ["PYTHONPATH", "OTEL_EXPORTER_OTLP_ENDPOINT"])
def test_a_variable_that_counts_at_the_start_needs_a_process(tmp_path: Path, name: str) -> None:
    with pytest.raises(AssertionError, match=f"{name} counts .* use CommandProcess"):
        CommandLine(tmp_path, **{name: "elsewhere"})("--help")
