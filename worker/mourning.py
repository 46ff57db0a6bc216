"""Mourning: what is done at once when a process that played rounds is known to be dead, by another process of its machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from worker.engine import Engine
from worker.processes import process_name
from worker.store import StoreUnavailable
from worker.sweep import BATCH, Sweeper

logger = logging.getLogger("holdfast.processes")

#: Seconds in which a living worker claims a message that it has received: a hundred times what it takes where the processor is free.
CLAIM_SECONDS = 0.25
#: Runs, at most, whose messages are looked for; a process receives no more messages than it has threads.
MOST = 200


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
        if not engine.dispatcher.outbox:  # another broker's messages are not seen from here
            _send_again(engine)
    except StoreUnavailable as error:
        logger.warning("the leases of process %d will lapse, they could not be let go: %s", pid, error)
    return held


def _send_again(engine: Engine) -> None:
    """Send the messages again that the dead process had received and not yet claimed.

    No lease names it there. What the living have received they claim meanwhile; should one take longer, its message comes twice.
    """
    before = engine.store.passed()
    if not before:
        return
    sweeper = engine.sweeper("none", "threads", 0)
    _look_at(sweeper, list(before))  # the sweep marks what it misses, and sends it again at its second look
    time.sleep(CLAIM_SECONDS)
    now = engine.store.passed()
    _look_at(sweeper, [run_id for run_id, round_ in before.items() if now.get(run_id) == round_])


def _look_at(sweeper: Sweeper, run_ids: Sequence[str]) -> None:
    for place in range(0, min(len(run_ids), MOST), BATCH):
        sweeper.sweep(soon=run_ids[place : place + BATCH])
