"""The console blocks of a documentation page, executed.

A page's files are written, its commands are run, and its output is compared.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.command_line import ROOT

#: A fenced block, also if it is indented inside a list or a tab.
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
#: The differences between two executions, and their stand-in in both texts.
VOLATILE = [
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?\b"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b\d+(\.\d+)? (s|min|h)\b"), "DURATION"),
    # A worker may have played a round before the command reads the run.
    (re.compile(r"\bcontinues at step \d+, \w+"), "continues at step N, NODE"),
    (re.compile(r"\bstep \d+\b"), "step N"),
    (re.compile(r"\bstep N \(node \w+"), "step N (node NODE"),
    (re.compile(r"\b[\w.-]+:\d{3,7}\b"), "HOST:PID"),
    (re.compile(r"\bby \w+"), "by USER"),
    (re.compile(r"--interrupt 0:\d+"), "--interrupt 0:N"),
    (re.compile(r"[ \t]+"), " "),
]
#: A line of a command that lets a run continue. A worker may have played all rounds of the run
#: before the command reads it.
CONTINUES = re.compile(r"(\S+) continues at step N, NODE; to follow it: perdure watch \1")
#: Python of an environment in which a wheel of Perdure is installed, to try a page there:
#: DOCS_PYTHON=... pytest tests/e2e/test_docs_quickstart.py. By default the Python of the tests.
PYTHON = os.environ.get("DOCS_PYTHON", sys.executable)
#: Seconds for which a command that only reads is repeated.
PATIENCE = 20.0
#: Commands that stay until Ctrl-C. A page shows each in a separate terminal.
STAYS = re.compile(r"^(perdure (up|worker|server)|celery .* worker)\b(?!.*--alive)(?!s)")


@dataclass(frozen=True)
class Step:
    """A file to write (``name`` is set), or a command with the output that the page shows."""

    name: str | None
    text: str
    output: str = ""


def steps_of(page: Path) -> list[Step]:
    """Return the files and commands of ``page`` (relative to docs/), in order."""
    steps = []
    for indent, language, block in BLOCK.findall((ROOT / "docs" / page).read_text("utf-8")):
        text = re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)
        if language == "console":
            for call in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, _, output = call.partition("\n")
                steps.append(Step(None, line.strip(), output))
        elif named := re.match(r"# (\S+\.\w+)\n", text):
            steps.append(Step(named[1], text))
    return steps


def plain(text: str) -> list[str]:
    """Return the lines of ``text`` without the differences between executions."""
    for pattern, stands_for in VOLATILE:
        text = pattern.sub(stands_for, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def missing(expected: str, actual: str) -> str | None:
    """Return the first expected line that does not follow in ``actual``; None if all do.

    A line ``...`` stands for any number of lines. A ``...`` within a line stands for any text.
    """
    lines, at, skip = plain(actual), 0, False
    for line in plain(expected):
        if line == "...":
            skip = True
            continue
        wanted = re.escape(line).replace(re.escape("..."), ".*")
        if played := CONTINUES.fullmatch(line):
            run_id = re.escape(played[1])
            wanted += f"|{run_id} has completed; to see it: perdure show {run_id}"
        pattern = re.compile(f"(?:{wanted})$")
        found = [n for n in range(at, len(lines)) if pattern.match(lines[n])]
        if not found or (found[0] != at and not skip):
            return line
        at, skip = found[0] + 1, False
    return None


class Console:
    """The terminals of a reader who types the commands of a page.

    Args:
        directory: Working directory, and the home of the reader.
        waits: Seconds to wait before a command that only reads, by the command. It is repeated
            until it prints the page's output.
        exports: Values that take the place of the page's exports.
    """

    def __init__(
        self,
        directory: Path,
        waits: dict[str, float] | None = None,
        exports: dict[str, str] | None = None,
    ) -> None:
        self.directory, self.waits, self.exports = directory, waits or {}, exports or {}
        self.pid: str | None = None
        self._servers: list[tuple[subprocess.Popen[bytes], Path]] = []
        commands = directory / ".commands"
        commands.mkdir()
        for name, options in (
            ("perdure", "-P -m perdure"),
            ("celery", "-m celery"),
            ("python", ""),
        ):
            script = commands / name
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(PYTHON)} {options} "$@"\n')
            script.chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PERDURE_", "CELERY_"))}
        self.environment = {
            **kept,
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT) if sys.executable == PYTHON else "",
            "HOME": str(directory),
            "XDG_STATE_HOME": str(directory / "state"),
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }

    def play(self, page: Path, skip: re.Pattern[str]) -> list[str]:
        """Run the commands of ``page`` and compare; return the commands that were run.

        Args:
            page: Relative to docs/.
            skip: Commands that are not run, such as installations.
        """
        done = []
        for step in steps_of(page):
            if step.name is not None:
                path = self.directory / step.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(step.text, "utf-8")
            elif not skip.match(step.text):
                self.run(step)
                done.append(step.text)
        return done

    def run(self, step: Step) -> None:
        """Run one command; compare its output with the page."""
        command = re.sub(r"\s+# .*$", "", step.text)
        if exported := re.fullmatch(r"export (\w+)=(\S+)", command):
            self.environment[exported[1]] = self.exports.get(exported[1], exported[2])
            return
        if command.startswith("kill -9 "):
            assert self.pid is not None, "the page shows no worker before it kills one"
            command = f"kill -9 {self.pid}"
        time.sleep(self.waits.get(command, 0))
        if STAYS.match(command):
            self._stay(command, step.output)
            return
        end = time.monotonic() + (PATIENCE if command in self.waits else 0)
        text = self._output(command)
        while missing(step.output, text) is not None and time.monotonic() < end:
            text = self._output(command)
        gone = missing(step.output, text)
        assert gone is None, f"`{command}` printed no line {gone!r}, but:\n{text}"
        if command == "perdure workers" and (named := re.search(r":(\d+)\s", text)):
            self.pid = named[1]

    def _output(self, command: str) -> str:
        ended = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        text = ended.stdout + ended.stderr
        assert "Traceback" not in text, text
        print(f"$ {command}\n{text}")
        return text

    def _stay(self, command: str, expected: str) -> None:
        log = self.directory / f".terminal-{len(self._servers)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["/bin/bash", "-c", f"exec {command}"],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._servers.append((process, log))
        until = time.monotonic() + 60
        while (gone := missing(expected, log.read_text("utf-8"))) is not None:
            assert process.poll() is None and time.monotonic() < until, (
                f"`{command}` printed no line {gone!r}, but:\n{log.read_text('utf-8')}"
            )
            time.sleep(0.1)

    def close(self) -> None:
        """End lasting commands with SIGTERM, last started first."""
        for process, _ in reversed(self._servers):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)


@contextmanager
def console(
    directory: Path, waits: dict[str, float] | None = None, exports: dict[str, str] | None = None
) -> Iterator[Console]:
    """Open a console; end its processes afterwards."""
    made = Console(directory, waits, exports)
    try:
        yield made
    finally:
        made.close()
