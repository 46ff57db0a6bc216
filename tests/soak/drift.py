"""Drift: memory and descriptors of workers and server over time, as /proc has them."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.soak.cluster import Cluster

#: Seconds between two looks, and from a process's first sight until it counts as warmed up.
EVERY, WARM_UP = 2.0, 15.0


@dataclass(frozen=True)
class Sample:
    """One process's resident memory (KiB) and open descriptors."""

    at: float
    memory: int
    descriptors: int


@dataclass(frozen=True)
class Drift:
    """The longest-lived process of a place: how long it was watched (seconds), its first and its
    last sample.
    """

    place: str
    seconds: float
    first: Sample
    last: Sample


class Watch(threading.Thread):
    """Looks at the main process of each worker and at the server, until it is stopped."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(name="soak-watch", daemon=True)
        self._cluster = cluster
        self._over = threading.Event()
        self._seen: dict[tuple[str, int], list[Sample]] = defaultdict(list)

    def run(self) -> None:
        while not self._over.wait(EVERY):
            for name, pid in [
                ("server", self._cluster.server.process),
                *((place.name, place.pid) for place in self._cluster.places),
            ]:
                with suppress(OSError):  # it was killed this moment
                    found = sample(pid)
                    if found.memory:  # nor a dead process that is not reaped yet
                        self._seen[name, pid].append(found)

    def stop(self) -> list[Drift]:
        """End it; the drift of each place."""
        self._over.set()
        if self.is_alive():
            self.join()
        longest: dict[str, Drift] = {}
        for (name, _), seen in self._seen.items():
            warm = [each for each in seen if each.at >= seen[0].at + WARM_UP]
            if warm and (name not in longest or warm[-1].at - warm[0].at > longest[name].seconds):
                longest[name] = Drift(name, warm[-1].at - warm[0].at, warm[0], warm[-1])
        return [longest[name] for name in sorted(longest)]


def sample(pid: int) -> Sample:
    """Measure a process; raise OSError if it is gone."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Sample(
        time.time(), pages * os.sysconf("SC_PAGE_SIZE") // 1024, len(os.listdir(f"/proc/{pid}/fd"))
    )
