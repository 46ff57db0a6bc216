"""Values that would fill a terminal are cut there, and whole in a pipe."""

from __future__ import annotations

import pty
import subprocess
import sys


def test_a_value_that_would_fill_the_terminal_is_cut_there_and_whole_in_a_pipe() -> None:
    script = "from perdure.worker.cli.output import fields; fields([('goal', 'x' * 60_000), ('status', 'queued')])"
    command = [sys.executable, "-c", script]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        == f"goal: {'x' * 60_000}\nstatus: queued\n"
    )
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal, open(theirs, "wb") as screen:
        subprocess.run(command, stdout=screen, check=True)
        told = terminal.read(65_536).decode()
    assert len(told) < 2_000 and "60000 characters; --json shows all" in told and "queued" in told
