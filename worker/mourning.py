"""Mourning: what is done at once when a process that played rounds is known to be dead, by another process of its machine."""

from __future__ import annotations

import logging

from worker.engine import Engine
from worker.processes import process_name
from worker.store import StoreUnavailable

logger = logging.getLogger("holdfast.processes")


def mourn(engine: Engine, pid: int) -> list[str]:
    """Let go the leases of a dead process of this machine and queue their rounds anew; returns the ids of the runs that it held.

    The sweep does the same when the leases have lapsed: where the server is away, it is left to it.
    """
    store = engine.store
    name = process_name(pid)
    held: list[str] = []
    try:
        for run_id, epoch, step in store.held_by(name):
            if store.forfeit(run_id, epoch=epoch, step=step, process=name)[0] == "ok":
                held.append(run_id)
        store.withdraw(name)
        if held:
            sweeper = engine.sweeper("none", "threads", 0)
            sweeper.sweep()
            sweeper.sweep()  # with the messages that were asked for: of runs that stayed there are none yet
    except StoreUnavailable as error:
        logger.warning("the leases of process %d will lapse, they could not be let go: %s", pid, error)
    return held
