"""One pass of pytest under a fault: the verdict of each test, and how often the fault happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.jitter.faults import Fault
from tests.jitter.load import keep_busy
from tests.jitter.verdicts import LOG, ORDER, PLACES, VERDICTS, add_injection

ROOT = Path(__file__).parents[2]
#: Exit codes of pytest that say something about tests: all passed, some failed.
PLAYED = (0, 1)
#: Seconds between two lines of progress.
PROGRESS_SECONDS = 10.0
#: Characters of pytest's output that an error shows.
TAIL = 4000
#: Seconds after which pytest-timeout ends a test that hangs. A test of 511 runs pauses in each.
LIMIT = "900"
#: Lines of pytest's text of a failure that are shown.
TEXT_LINES = 15


class NotPlayed(Exception):
    """The tests could not be played, or the fault did not happen."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of all tests.

    Attributes:
        verdicts: By node id: ``passed``, ``failed``, ``skipped``, or ``unfinished`` if pytest died
            in the test.
        texts: pytest's text of a failure, by node id.
        pauses: How many pauses were made, by place.
        processes: How many processes made a pause.
        cpu_seconds: CPU time of the processes that kept the cores busy.
    """

    verdicts: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    pauses: Mapping[str, int] = field(default_factory=dict)
    processes: int = 0
    cpu_seconds: float = 0.0


def play(
    fault: Fault, arguments: Sequence[str], show: Callable[[str], None], number: int = 0
) -> Pass:
    """Play tests once under a fault.

    Args:
        arguments: pytest's arguments.
        show: Is called with a line of progress every few seconds.
        number: The seed of a random order.

    Raises:
        NotPlayed: pytest could not run, or nothing of the fault happened.
    """
    with tempfile.TemporaryDirectory(prefix="hf-jitter-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        log, verdicts, output = place / "pauses", place / "verdicts", place / "output"
        log.touch()
        log.chmod(0o666)  # processes of other users append to it, too
        verdicts.touch()
        began = time.monotonic()
        with keep_busy() if fault.has_load else nullcontext() as load, output.open("wb") as stream:
            pytest = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-p", "tests.jitter.verdicts", *arguments],
                cwd=ROOT,
                env=environment_of(fault, log, verdicts, number),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C ends it once, through the tool
            )
            try:
                follow(pytest, verdicts, f"{fault.name}: ", show)
            finally:
                if pytest.poll() is None:
                    pytest.send_signal(signal.SIGINT)  # it ends its servers
                    pytest.wait()
        phases = read_lines(verdicts)
        tests = read_verdicts(phases)
        text = output.read_text(errors="replace")[-TAIL:]
        if not tests or (pytest.returncode not in PLAYED and pytest.returncode >= 0):
            raise NotPlayed(f"{fault.name}: pytest ended with {pytest.returncode}:\n{text}")
        played = Pass(
            tests,
            {phase["test"]: phase["text"] for phase in phases if phase.get("text")},
            time.monotonic() - began,
            *count_pauses(log.read_text()),
            load.cpu_seconds if load is not None else 0.0,
        )
    if why := why_nothing_happened(fault, played):
        raise NotPlayed(f"{fault.name}: {why}")
    return played


def environment_of(fault: Fault, log: Path, verdicts: Path, number: int) -> dict[str, str]:
    """Return the environment of pytest under a fault."""
    mine = (PLACES, LOG, ORDER)
    environment = {name: text for name, text in os.environ.items() if name not in mine}
    environment[VERDICTS] = str(verdicts)
    environment["PYTEST_TIMEOUT"] = LIMIT
    if fault.pauses or fault.has_load:
        environment[LOG] = str(log)
    if fault.shuffles:
        environment[ORDER] = str(number)
    if fault.pauses:
        environment[PLACES] = ",".join(f"{place}={seconds}" for place, seconds in fault.pauses)
        environment["PYTHONPATH"] = add_injection(environment.get("PYTHONPATH"))
    return environment


def follow(
    pytest: subprocess.Popen[bytes], verdicts: Path, head: str, show: Callable[[str], None]
) -> None:
    """Wait until pytest has ended, and show how far it is and which tests have failed.

    Failures are shown at once, with the end of their text: the report comes after the last pass.
    """
    shown, failed, ended = "", 0, False
    while not ended:
        try:
            pytest.wait(PROGRESS_SECONDS)
            ended = True
        except subprocess.TimeoutExpired:
            pass
        phases = read_lines(verdicts)
        failures = [phase for phase in phases if phase.get("outcome") == "failed"]
        for phase in failures[failed:]:
            text = "\n".join(phase["text"].splitlines()[-TEXT_LINES:])
            show(f"{head}failed: {phase['test']} ({phase['when']})\n{text}")
        failed = len(failures)
        progress = progress_of(phases)
        if progress != shown and not ended:
            show(head + progress)
        shown = progress


def progress_of(phases: Sequence[Mapping[str, Any]]) -> str:
    """Return how many tests have ended, how many failed, and which one runs."""
    count = sum(phase.get("tests", 0) for phase in phases)
    tests = read_verdicts(phases)
    running = [test for test, verdict in tests.items() if verdict == "unfinished"]
    failed = sum(verdict == "failed" for verdict in tests.values())
    text = f"{len(tests) - len(running)} of {count or '?'} tests, {failed} failed"
    return f"{text}, in {running[-1]}" if running else text


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Return the lines that the plugin has written. The last one may not be complete yet."""
    lines = file.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines]


def read_verdicts(phases: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the verdict of each test from the outcomes of its phases.

    A test has failed if one of its phases has. It is unfinished until its teardown has ended.
    """
    outcomes: dict[str, dict[str, str]] = {}
    for phase in phases:
        if "test" in phase:
            outcomes.setdefault(phase["test"], {})[phase["when"]] = phase["outcome"]
    verdicts = {}
    for test, by_phase in outcomes.items():
        words = set(by_phase.values())
        if "failed" in words:
            verdicts[test] = "failed"
        elif "teardown" not in by_phase:
            verdicts[test] = "unfinished"
        else:
            verdicts[test] = "skipped" if "skipped" in words else "passed"
    return verdicts


def count_pauses(log: str) -> tuple[dict[str, int], int]:
    """Return how many pauses the log has for each place, and how many processes made them."""
    lines = [line.split() for line in log.splitlines()]
    pauses: dict[str, int] = {}
    for _, place in lines:
        pauses[place] = pauses.get(place, 0) + 1
    return pauses, len({process for process, _ in lines})


def why_nothing_happened(fault: Fault, played: Pass) -> str:
    """Return why a pass proves nothing, or an empty text if its fault happened."""
    if fault.pauses and not played.pauses:
        return "no process made a pause, so the verdicts prove nothing"
    if fault.has_load and not played.cpu_seconds:
        return "the cores were not kept busy"
    return ""
