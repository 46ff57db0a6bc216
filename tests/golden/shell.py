"""Shell: a process that runs commands one after another and reports on each.

``python -m tests.golden.shell`` reads a JSON list of arguments a line. It answers with a JSON object
a line: exit code, output, error output. Fifty commands cost one start of Python. The registry has
the flows of a user's process, without those of other tests.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from perdure.worker.cli.main import run
from tests.support.command_line import CommandLine, Done


class Shell:
    """A client of such a process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, *arguments: str) -> Done:
        """Run one command to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(arguments), file=self._process.stdin, flush=True)
        reply = json.loads(self._process.stdout.readline())
        assert "Traceback" not in reply["out"] + reply["err"], reply["err"]
        return Done(**reply)


@contextmanager
def shell(command_line: CommandLine) -> Iterator[Shell]:
    """Start a shell in the directory and environment of ``command_line``; end it with the block."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.golden.shell"],
        cwd=command_line.directory,
        env=command_line.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Shell(process)
        assert process.stdin is not None
        process.stdin.close()


def main() -> None:
    """Answer until the input ends."""
    lines, replies = sys.stdin, sys.stdout
    sys.stdin = open(os.devnull)  # noqa: SIM115
    for line in lines:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(json.loads(line))
        reply = {"code": code, "out": out.getvalue(), "err": err.getvalue()}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
