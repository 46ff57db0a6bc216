"""A pytest plugin: it writes the verdict of each test, and passes the faults on to all processes.

Tests build the environment of their processes by hand. So the plugin adds the variables of the
faults at the place that all starts go through: ``subprocess.Popen``.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.jitter.faults import measures_pace, read_pace

INJECTION = Path(__file__).with_name("injection")
#: The variables: places with their pauses, the log of pauses, and the file of this plugin.
PLACES, LOG, VERDICTS = "TESTS_JITTER", "TESTS_JITTER_LOG", "TESTS_JITTER_VERDICTS"
#: The variable with the seed of a random order.
ORDER = "TESTS_JITTER_ORDER"

if (customization := sys.modules.get("sitecustomize")) and hasattr(customization, "lead"):
    customization.lead()  # pytest's finder, which rewrites assertions, was installed before it


def pytest_configure(config: pytest.Config) -> None:
    """Begin to pass the faults on, and to write verdicts. With xdist, the controller writes."""
    if os.environ.get(PLACES):
        pass_on({name: os.environ[name] for name in (PLACES, LOG)})
    if not hasattr(config, "workerinput") and VERDICTS in os.environ:
        config.pluginmanager.register(Writer(Path(os.environ.pop(VERDICTS))))


def pytest_sessionstart() -> None:
    """Make Hypothesis play the same cases in each pass: others could change a verdict by chance."""
    settings.register_profile("jitter", settings(), derandomize=True)
    settings.load_profile("jitter")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Leave out the tests that measure pace by design, and shuffle the others if asked to."""
    yield  # other plugins sort them
    if LOG in os.environ:
        pace = list(read_pace())
        left_out = [item for item in items if measures_pace(item.nodeid, pace)]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    if seed := os.environ.get(ORDER):
        shuffle(items, seed)


def shuffle(items: list[pytest.Item], seed: str) -> None:
    """Sort files, and each file's tests, at random.

    Every process of xdist does it alike.
    """
    by_file: dict[Path, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.path, []).append(item)
    files, chance = list(by_file.values()), random.Random(seed)
    chance.shuffle(files)
    for tests in files:
        chance.shuffle(tests)
    items[:] = [item for tests in files for item in tests]


def pass_on(variables: Mapping[str, str]) -> None:
    """Add variables and the folder of the injection to the environment of each process."""
    start = subprocess.Popen.__init__

    def start_with(
        self: Any, *args: Any, env: Mapping[str, str] | None = None, **rest: Any
    ) -> None:
        if env is not None:
            env = {**variables, **env, "PYTHONPATH": add_injection(env.get("PYTHONPATH"))}
        start(self, *args, env=env, **rest)

    subprocess.Popen.__init__ = start_with  # type: ignore[method-assign]


def add_injection(path: str | None) -> str:
    """Return a PYTHONPATH that begins with the injection's folder."""
    others = [folder for folder in (path or "").split(os.pathsep) if folder]
    return os.pathsep.join(dict.fromkeys([str(INJECTION), *others]))


class Writer:
    """Writes a line of JSON for each phase of each test, as it ends."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", buffering=1)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write how many tests there are."""
        if session.items:
            self._write(tests=len(session.items))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Write that a file cannot be collected."""
        if report.failed:
            self._write(
                test=report.nodeid, when="teardown", outcome="failed", text=report.longreprtext
            )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write that a test begins. If nothing follows, pytest died in it."""
        self._write(test=nodeid, when="begin", outcome="passed")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the outcome of the setup, the call or the teardown of a test."""
        text = report.longreprtext if report.failed else ""
        self._write(test=report.nodeid, when=report.when, outcome=report.outcome, text=text)

    def _write(self, **facts: Any) -> None:
        self._file.write(json.dumps(facts) + "\n")
