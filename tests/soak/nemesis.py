"""Nemesis: carries out the faults that a seed asks for, one after another in each group, and keeps
the list of them.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence

from tests.soak import history
from tests.soak.cluster import Cluster
from tests.soak.faults import Fault
from tests.soak.strike import Strike

#: Seconds between two faults: of the first group, and of the others, which leave it some time for
#: itself.
PAUSES, LONG_PAUSES = (0.5, 3.0), (1.0, 8.0)
#: Seconds without a fault after each has had its turn, so that some faults of the other group hit a
#: healthy system.
CALM = (20.0, 50.0)
#: The further tries of a kind that did not hit anything, when the time is over.
MORE_TRIES = 3


class Lane(threading.Thread):
    """Faults that never overlap each other. Each kind has its turn before any has its second.

    The ``first`` group steers the workers, and restarts those that ended by themselves. The others
    rest now and then.
    """

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        kinds: Sequence[Fault],
        seed: int,
        seconds: float,
        first: bool,
    ) -> None:
        super().__init__(name=f"soak-{name}", daemon=True)
        self._cluster = cluster
        self._kinds = kinds
        self._chance = random.Random(f"{seed} {name}")
        self._end = time.monotonic() + seconds
        self._first = first
        self._over = threading.Event()
        self.faults: list[history.Fault] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._strike_on()
        except BaseException as error:  # `Nemesis.finish` raises it, in its caller's thread
            self.error = error

    def abort(self) -> None:
        """Begin nothing more."""
        self._over.set()

    def _strike_on(self) -> None:
        first = True
        while first or not self._time_is_up():
            for kind in self._chance.sample(self._kinds, len(self._kinds)):
                if self._over.is_set() or (not first and self._time_is_up()):
                    break
                self._strike(kind)
                self._over.wait(self._chance.uniform(*(PAUSES if self._first else LONG_PAUSES)))
            if not self._first and not self._time_is_up():
                self._over.wait(
                    min(self._chance.uniform(*CALM), max(0.0, self._end - time.monotonic()))
                )
            first = False
        for _ in range(MORE_TRIES):
            fired = {fault.kind for fault in self.faults if fault.fired}
            for kind in dict.fromkeys(self._kinds):
                if kind.__name__ not in fired and not self._over.is_set():
                    self._strike(kind)

    def _strike(self, kind: Fault) -> None:
        strike = Strike(kind.__name__)
        if self._first:
            self._cluster.mind_the_fallen()
        kind(self._cluster, random.Random(self._chance.random()), strike)
        self.faults.append(strike.over())

    def _time_is_up(self) -> bool:
        return self._over.is_set() or time.monotonic() >= self._end


class Nemesis:
    """All groups of faults.

    ``kinds`` by group; ``seconds``: the time until they stop beginning faults.
    """

    def __init__(
        self, cluster: Cluster, kinds: dict[str, Sequence[Fault]], seed: int, seconds: float
    ) -> None:
        self.asked = frozenset(kind.__name__ for lane in kinds.values() for kind in lane)
        lanes = [(name, each) for name, each in kinds.items() if each]
        self._lanes = [
            Lane(name, cluster, each, seed, seconds, first=not number)
            for number, (name, each) in enumerate(lanes)
        ]

    def start(self) -> None:
        for lane in self._lanes:
            lane.start()

    def abort(self) -> None:
        """Begin nothing more, and wait until the current faults have been mended."""
        for lane in self._lanes:
            lane.abort()
        for lane in self._lanes:
            if lane.is_alive():
                lane.join()

    def finish(self) -> list[history.Fault]:
        """Wait until all is done and mended; return the faults in order.

        Raises the error of a fault: the laboratory itself is broken then.
        """
        while any(lane.is_alive() for lane in self._lanes):
            for lane in self._lanes:
                lane.join(1.0)
            if any(lane.error for lane in self._lanes):
                self.abort()
        for lane in self._lanes:
            if lane.error is not None:
                raise lane.error
        return sorted(
            (fault for lane in self._lanes for fault in lane.faults), key=lambda fault: fault.at
        )
