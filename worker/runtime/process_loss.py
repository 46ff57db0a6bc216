"""Recovery of the rounds of a worker process that died, by another process."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from perdure.worker.engine.sweeper import BATCH, Sweeper
from perdure.worker.ids import process_name
from perdure.worker.runtime.runtime import Runtime
from perdure.worker.store import StoreUnavailable

logger = logging.getLogger("perdure.processes")

#: Seconds in which a live worker claims the run of a message that it has received: a hundred times
#: the duration on an idle processor.
CLAIM_SECONDS = 0.25
#: Maximum number of runs whose messages are checked. A process receives no more messages than it
#: has threads.
MOST = 200


def release_after_death(engine: Runtime, pid: int) -> list[str]:
    """End the leases of a dead worker process of this machine, and requeue its rounds.

    If the state server does not answer, a warning is logged. The sweep then requeues the rounds
    after the leases have ended by themselves.

    Args:
        engine: The runtime of this process, which is another one.
        pid: The id of the dead process.

    Returns:
        The ids of the runs whose leases were ended.
    """
    store = engine.store
    name = process_name(pid)
    held: list[str] = []
    try:
        for run_id, epoch, step in store.lists.held_by(name):
            if (
                store.rounds.release_dead_lease(run_id, epoch=epoch, step=step, process=name)[0]
                == "ok"
            ):
                held.append(run_id)
        store.fleet.withdraw(name)
        if held:
            sweeper = engine.new_sweeper("none", "threads", 0)
            sweeper.sweep()
            # Again, with the messages of runs that kept the worker: they were never written.
            sweeper.sweep()
        if not engine.publisher.outbox:  # the messages of another broker cannot be seen from here
            _send_again(engine)
    except StoreUnavailable as error:
        logger.warning(
            "the leases of process %d could not be released and will lapse: %s", pid, error
        )
    return held


def _send_again(engine: Runtime) -> None:
    """Publish the messages again that a dead process had received but not claimed.

    No lease shows which messages these are. So live workers get a moment to claim the messages that
    they have received. Any message that is still not claimed is published again. If a live worker
    needs more time, its message is published twice, which does no harm.
    """
    before = engine.store.lists.passed()
    if not before:
        return
    sweeper = engine.new_sweeper("none", "threads", 0)
    # The sweep marks a missing message, and sends it again when it checks the run the next time.
    _check(sweeper, list(before))
    time.sleep(CLAIM_SECONDS)
    now = engine.store.lists.passed()
    _check(sweeper, [run_id for run_id, round_ in before.items() if now.get(run_id) == round_])


def _check(sweeper: Sweeper, run_ids: Sequence[str]) -> None:
    for start in range(0, min(len(run_ids), MOST), BATCH):
        sweeper.sweep(soon=run_ids[start : start + BATCH])
