"""run_shell: a shell command in the worker's workspace. A flow that offers it says so (``runs_shell``), and a worker enables the flow."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from flows.commands import command
from flows.context import RoundContext
from flows.errors import BadReply
from flows.executors.files import workspace_of
from flows.executors.watched_process import run_watched

#: Seconds that a command gets unless it asks for another time, and the longest it may ask for.
SECONDS, LONGEST = 60.0, 600.0
#: Bytes of its output that are kept from either end: about 2,500 tokens each.
KEPT_BYTES = 10_000
#: What of the worker's environment a command sees. Everything else may be a secret.
PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
#: By this its processes are known, also those that left its session or were orphaned by a crash.
MARK = "HOLDFAST_SHELL"


@command(name="run_shell", runs_shell=True)
def run_shell(context: RoundContext, command_line: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Run a command line with `sh` in the workspace, for at most `seconds`; its exit code and output, long ones without the middle."""
    if not 0 < seconds <= LONGEST:
        raise BadReply(f"seconds should be above 0 and at most {LONGEST:g}, it is {seconds:g}")
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
    told: dict[str, Any] = {"exit": ending.exit, "output": f"{ending.head}{middle}{ending.tail}", "seconds": ending.seconds}
    return told if ending.exit is not None else {**told, "killed": f"it took longer than {seconds:g} s"}


def _name_of(context: RoundContext) -> str:
    """Run and step as part of a variable's name, another one for each: ids may differ in punctuation alone, which a name cannot have."""
    return sha256(f"{context.run_id}\0{context.step}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
