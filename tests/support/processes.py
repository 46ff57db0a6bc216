"""Processes of workers: those that play rounds, found by the claims of their runs, and children."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from perdure import Client


def process_of(client: Client, run_id: str) -> int | None:
    """The process that plays the run's round; None where none does."""
    claim = (client._store.fields(run_id) or {}).get("claim_id")
    return None if claim is None else int(claim.rpartition(".")[0].rpartition(":")[2])


def kill_process_of(client: Client, run_id: str) -> bool:
    """SIGKILL it; whether there was one."""
    pid = process_of(client, run_id)
    with suppress(ProcessLookupError):
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def ended(pid: int) -> bool:
    """Whether the process is gone, or a zombie that nobody has waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def children(pid: int) -> list[int]:
    """The living children of a process."""
    with suppress(OSError):
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    return []
