"""The command ``run_shell``: runs a shell command in the worker's workspace.

A flow that offers it declares ``runs_shell``, and a worker must enable the flow.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from perdure.flows.commands.command import command
from perdure.flows.context import RoundContext
from perdure.flows.errors import BadReply
from perdure.flows.executors.files import workspace_of
from perdure.flows.executors.subprocesses import run_watched

#: Default and maximum seconds for one command.
SECONDS, LONGEST = 60.0, 600.0
#: Bytes kept of the beginning and of the end of the output: about 2,500 tokens each.
KEPT_BYTES = 10_000
#: Variables of the worker's environment that a command sees. All others may be secrets.
PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
#: Prefix of the variable that marks the command's processes, even if they leave its session or
#: lose their parent in a crash.
MARK = "PERDURE_SHELL"


@command(name="run_shell", runs_shell=True)
def run_shell(context: RoundContext, command_line: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Run a command line with `sh` in the workspace for at most `seconds`.

    Returns its exit code and its output; the middle of a long output is left out.
    """
    if not 0 < seconds <= LONGEST:
        raise BadReply(f"expected seconds above 0 and at most {LONGEST:g}, got {seconds:g}")
    ending = run_watched(
        ["/bin/sh", "-c", command_line],
        Path(workspace_of(context).root),
        {name: os.environ[name] for name in PASSED_ON if name in os.environ},
        mark=f"{MARK}_{_name_of(context)}",
        timeout=seconds,
        cancelled=context.cancelled,
        head_bytes=KEPT_BYTES,
        tail_bytes=KEPT_BYTES,
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


def _name_of(context: RoundContext) -> str:
    """Return an id of the run's step that may be part of an environment variable's name.

    It is a hash, because ids may differ only in punctuation, which a variable's name cannot
    contain.
    """
    return sha256(
        f"{context.run_id}\0{context.step}".encode("utf-8", "surrogateescape")
    ).hexdigest()[:32]
