"""A server may forget its scripts at any moment (SCRIPT FLUSH, a restart, a failover); no call may
fail for that.
"""

from __future__ import annotations

import threading

from perdure.worker.store import Store
from tests.support.runs import new_run, phase

CALLS = 600


def test_no_call_fails_because_the_server_forgets_its_scripts(store: Store) -> None:
    """Between sending a script and running it as well, hence a flush after each breath."""
    run = new_run(store)
    over = threading.Event()
    flushed = 0

    def flush() -> None:
        nonlocal flushed
        while not over.is_set():
            store.redis.script_flush()
            flushed += 1

    flusher = threading.Thread(target=flush)
    flusher.start()
    try:
        for _ in range(CALLS):
            store.runs.examine(run)
    finally:
        over.set()
        flusher.join()
    assert flushed > 6, "the server must have forgotten its scripts all the while"
    assert phase(store) == "queued"
