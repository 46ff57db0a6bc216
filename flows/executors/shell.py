"""The command ``run_shell``, which runs a shell command in the worker's workspace.

A flow that offers the command declares ``runs_shell``, and a worker must enable the flow. The
sandbox is that of the flow's command. Without one, it is that of the worker's setting ``sandbox``.
Without that, the shell command runs on the worker's machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from perdure.flows.commands.approval import approval_of
from perdure.flows.commands.command import CommandSpec, command, spec_of
from perdure.flows.core.errors import BadReply, InvalidFlow
from perdure.flows.executors.container import container_named
from perdure.flows.executors.files import workspace_of
from perdure.flows.executors.sandbox import Sandbox, SandboxCommand, ThisMachine
from perdure.flows.rounds.context import RoundContext

#: Default and maximum seconds for one command.
SECONDS, LONGEST = 60.0, 600.0
#: Bytes kept of the beginning and of the end of the output: about 2,500 tokens each.
KEPT_BYTES = 10_000


@command(name="run_shell", runs_shell=True)
def run_shell(context: RoundContext, command_line: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Run a command line with `sh` in the workspace for at most `seconds`.

    Returns its exit code and its output; the middle of a long output is left out.
    """
    return ShellIn(None)(context, command_line, seconds)


@dataclass(frozen=True)
class ShellIn:
    """The function of ``run_shell``, bound to a sandbox.

    Attributes:
        sandbox: where the command line runs. None for the worker's setting ``sandbox``.
    """

    sandbox: Sandbox | None

    def __call__(
        self, context: RoundContext, command_line: str, seconds: float = SECONDS
    ) -> dict[str, Any]:
        """Run a command line with ``sh`` in the sandbox. Return its exit code and output.

        The keys are ``exit``, ``output`` and ``seconds``. A command that was killed at its time
        limit has the exit code None, and the key ``killed``.

        Args:
            seconds: the time limit.

        Raises:
            BadReply: ``seconds`` is not valid.
            NoWorkspace: the worker has no workspace.
            RoundStopped: the round was cancelled; the command was killed.
        """
        if not 0 < seconds <= LONGEST:
            raise BadReply(f"expected seconds above 0 and at most {LONGEST:g}, got {seconds:g}")
        ending = self._sandbox_of(context).run(
            SandboxCommand(
                ["/bin/sh", "-c", command_line],
                Path(workspace_of(context).root),
                _name_of(context),
                context.cancelled,
                seconds,
                head_bytes=KEPT_BYTES,
                tail_bytes=KEPT_BYTES,
            )
        )
        middle = f"\n... {ending.left_out} bytes left out ...\n" if ending.left_out else ""
        result: dict[str, Any] = {
            "exit": ending.exit,
            "output": f"{ending.head}{middle}{ending.tail}",
            "seconds": ending.seconds,
        }
        return (
            result
            if ending.exit is not None
            else {**result, "killed": f"time limit of {seconds:g} s exceeded"}
        )

    @property
    def missing(self) -> str | None:
        """What this machine lacks for the command's own sandbox, as a sentence.

        None if nothing is missing, or if the command has no sandbox of its own.
        """
        return None if self.sandbox is None else self.sandbox.missing

    def in_sandbox(self, sandbox: Sandbox) -> ShellIn:
        """Return a copy of this function that is bound to another sandbox."""
        return replace(self, sandbox=sandbox)

    def kill_leftovers(self, context: RoundContext) -> None:
        """Kill the processes of this step's command that a lost worker left."""
        self._sandbox_of(context).kill(_name_of(context))

    def _sandbox_of(self, context: RoundContext) -> Sandbox:
        if self.sandbox is not None:
            return self.sandbox
        return ThisMachine() if context.sandbox is None else container_named(context.sandbox)


# Attributes for CommandSpec.configured and for a command in doubt.
vars(run_shell).update(in_sandbox=ShellIn, kill_leftovers=ShellIn(None).kill_leftovers)


def shell_command(
    sandbox: Sandbox,
    *,
    name: str = "run_shell",
    description: str | None = None,
    approval: Any = None,
    max_concurrency: int | None = None,
) -> CommandSpec:
    """Return the command ``run_shell`` with its own sandbox.

    Args:
        sandbox: where the command lines run, for example a ``Container``.
        name: the name by which a controller chooses it.
        description: a sentence for the controller. Say in it which programs the image has.
        approval: as in ``command``.
        max_concurrency: maximum concurrent calls, with ``parallel_calls``.

    Raises:
        InvalidFlow: an option is not valid.
    """
    if not callable(getattr(sandbox, "run", None)) or not callable(getattr(sandbox, "kill", None)):
        raise InvalidFlow(
            f"shell_command({name!r}): sandbox is {sandbox!r}; expected a Sandbox, for example "
            "Container('python:3.13-slim')"
        )
    options = {"approval": approval_of(approval), "max_concurrency": max_concurrency}
    words = {} if description is None else {"description": description}
    return spec_of(run_shell, name).configured({"sandbox": sandbox, **options, **words})


def _name_of(context: RoundContext) -> str:
    """Return an id of the run's step for the names of variables and containers.

    It is a hash, because ids of runs may differ only in punctuation, which a variable's name cannot
    contain.
    """
    return sha256(
        f"{context.run_id}\0{context.step}".encode("utf-8", "surrogateescape")
    ).hexdigest()[:32]
