"""The commands that reach a server, counted with MONITOR.

Commands that a script runs inside the server do not count.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis

from perdure.worker.store import Store

LAST = "that is all"


@contextmanager
def monitored(store: Store) -> Iterator[Counter[str]]:
    """Count commands by name while the block runs, scripts by the name of their transition;
    complete when the block has ended.
    """
    counts: Counter[str] = Counter()
    with _watching(store, lambda name, line: counts.update([name])):
        yield counts


@contextmanager
def sizes_of_commits(store: Store) -> Iterator[list[int]]:
    """Collect the characters of each commit that the block sees, in order; complete when the block
    has ended.
    """
    sizes: list[int] = []
    with _watching(
        store,
        lambda name, line: (
            sizes.append(len(line)) if name in ("commit_round", "commit_and_continue") else None
        ),
    ):
        yield sizes


@contextmanager
def _watching(store: Store, seen: Callable[[str, str], None]) -> Iterator[None]:
    transitions = {script.sha: name for name, script in store._scripts.items()}
    watching = threading.Event()

    def watch() -> None:
        with redis.Redis.from_url(store.url) as client, client.monitor() as monitor:
            watching.set()
            for line in monitor.listen():
                words = line["command"].split()
                if LAST in line["command"]:
                    return
                if line["client_type"] != "lua":
                    seen(
                        transitions.get(words[1], words[1]) if words[0] == "EVALSHA" else words[0],
                        line["command"],
                    )

    thread = threading.Thread(target=watch)
    thread.start()
    watching.wait(10)
    try:
        yield
    finally:
        store.redis.echo(LAST)
        thread.join(10)
