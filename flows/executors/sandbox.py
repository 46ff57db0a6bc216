"""Sandboxes for the programs of a flow's commands: the protocol ``Sandbox``, and ``ThisMachine``.

``perdure.flows.executors.container`` has the sandbox that isolates programs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from perdure.flows.executors.subprocesses import TAIL_BYTES, ProcessEnding, kill_marked, run_watched

#: Variables of the worker's environment that a program sees. All others may be secrets.
PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
#: Prefix of the variable that marks the processes of a program, even if they leave its session or
#: lose their parent in a crash.
MARK = "PERDURE_SHELL"


@dataclass(frozen=True, slots=True)
class SandboxCommand:
    """A program that a sandbox runs once.

    Attributes:
        arguments: the program and its arguments.
        directory: the directory in which the program runs, and whose files it may change.
        name: letters, digits and ``_``. All attempts of a step have the same name, and each step
            has its own. So the next attempt finds the processes left by a lost worker.
        cancelled: the event that is set when the result is unwanted.
        timeout: seconds after which the program is killed, or None for no limit.
        environment: further variables that the program sees.
        input: the bytes of its standard input. None for nothing.
        head_bytes, tail_bytes: how much of the beginning and of the end of the output is kept.
    """

    arguments: Sequence[str]
    directory: Path
    name: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    timeout: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    input: bytes | None = None
    head_bytes: int = 0
    tail_bytes: int = TAIL_BYTES


class Sandbox(Protocol):
    """A place where programs run.

    ``Container`` and ``ThisMachine`` are sandboxes. So is your own class with these methods.
    """

    @property
    def missing(self) -> str | None:
        """What this machine lacks for the sandbox, as a sentence. None if nothing is missing.

        A worker that lacks something does not take the rounds of flows that use the sandbox.
        """

    def run(self, command: SandboxCommand) -> ProcessEnding:
        """Run a program until its end or its time limit. Return how it ended.

        When this returns or raises, none of the program's processes is left.

        Raises:
            RoundStopped: ``cancelled`` was set; the program was killed.
            RetryableError: the program could not be started, and did nothing.
        """

    def kill(self, name: str) -> None:
        """Kill the processes that a lost worker left. ``name`` is ``SandboxCommand.name``."""


@dataclass(frozen=True)
class ThisMachine:
    """No sandbox: a program runs as the worker's user, with the same rights."""

    @property
    def missing(self) -> str | None:
        """None: nothing is missing to run programs on this machine."""
        return None

    def run(self, command: SandboxCommand) -> ProcessEnding:
        """Run a program as the worker's subprocess. Return how it ended.

        The program gets few variables of the worker's environment, none of which is a secret.

        Raises:
            RoundStopped: the round was cancelled; the program was killed.
        """
        passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        return run_watched(
            command.arguments,
            command.directory,
            {**passed, **command.environment},
            mark=f"{MARK}_{command.name}",
            timeout=command.timeout,
            cancelled=command.cancelled,
            head_bytes=command.head_bytes,
            tail_bytes=command.tail_bytes,
            data=command.input,
        )

    def kill(self, name: str) -> None:
        """Kill the processes that a lost worker left on this machine, by the command's name."""
        kill_marked(f"{MARK}_{name}")
