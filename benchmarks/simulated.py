"""A fleet, simulated: workers whose slots play rounds, and one Redis that serves their scripts one after the other.

A slot waits for its model, then sends its commit, which waits its turn at the server; the answer brings the next round. Beside the rounds
each worker's heartbeat, sweep, announcement and waiting for messages take the server's time. Times in seconds.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

#: Kinds of events.
COMMIT, BEAT, SWEEP, ANNOUNCE = range(4)
#: How much models vary: most answer sooner than the mean, some take several times as long.
SIGMA = 0.6


def varied(chance: random.Random, mean: float) -> float:
    """A model's latency: log-normal, of this mean."""
    return mean * chance.lognormvariate(-(SIGMA**2) / 2, SIGMA) if mean else 0.0


@dataclass(frozen=True)
class Server:
    """What the server needs for each thing it is asked, in seconds of its one core.

    Attributes:
        round: of one round, everything included.
        beat: of a heartbeat, and of each lease in it.
        sweep: of a sweep that finds nothing due.
        announce: of an announcement, and of it for each worker that has announced itself.
        idle: of one empty wait for a message (BRPOP that times out).
    """

    round: float = 120e-6
    beat: tuple[float, float] = (25e-6, 11e-6)
    sweep: float = 60e-6
    announce: tuple[float, float] = (60e-6, 0.0)
    idle: float = 20e-6


@dataclass(frozen=True)
class Fleet:
    """Workers that are all alike, with enough runs for every slot.

    Attributes:
        slots: rounds that one worker plays at once.
        latency: seconds that a round waits for its model, on average; ``draw`` says how long this one waits.
        own: seconds of the worker's own work a round; its slots share one core for it.
        beat_every, sweep_every: seconds between two of one worker; it announces itself as often as it beats.
    """

    workers: int
    slots: int = 10
    latency: float = 0.0
    draw: Callable[[random.Random, float], float] = varied
    own: float = 0.7e-3
    beat_every: float = 1.0
    sweep_every: float = 0.5

    @property
    def ideal(self) -> float:
        """Rounds a second with a server that takes no time."""
        return self.workers * min(self.slots / (self.latency + self.own), 1 / self.own)


@dataclass(frozen=True)
class Outcome:
    """What the fleet came to.

    Attributes:
        rate: rounds a second of all.
        busy: of the server's core.
        upkeep: of the server's core, for all that is no round.
        wait: seconds that a commit waited for its turn, on average; ``late`` at the 99th percentile.
        ideal: rounds a second, were the server infinitely fast.
    """

    rate: float
    busy: float
    upkeep: float
    wait: float
    late: float
    ideal: float


def upkeep(fleet: Fleet, server: Server, leases: float) -> float:
    """Of the server's core, what this fleet takes without playing a single round, while each worker holds so many leases."""
    beat = server.beat[0] + leases * server.beat[1] if leases else 0.0
    announce = server.announce[0] + fleet.workers * server.announce[1]
    each = (beat + announce) / fleet.beat_every + server.sweep / fleet.sweep_every + server.idle
    return fleet.workers * each


def simulate(fleet: Fleet, server: Server, seconds: float, seed: int = 1) -> Outcome:
    """Play for so many seconds, after as many to get going.

    Events in the order of their times: a slot's commit arrives, or a worker's beat, sweep or announcement does. The server takes them in
    that order; what arrives while it is busy waits.
    """
    chance = random.Random(seed)
    every = {BEAT: fleet.beat_every, SWEEP: fleet.sweep_every, ANNOUNCE: fleet.beat_every}
    events: list[tuple[float, int, int]] = []
    for worker in range(fleet.workers):
        for kind, gap in every.items():
            events.append((chance.random() * gap, kind, worker))
        for _ in range(fleet.slots):
            events.append((chance.random() * (fleet.draw(chance, fleet.latency) + fleet.own), COMMIT, worker))
    heapq.heapify(events)
    announce = server.announce[0] + fleet.workers * server.announce[1]
    cost = {BEAT: server.beat[0] + fleet.slots * server.beat[1], SWEEP: server.sweep, ANNOUNCE: announce, COMMIT: server.round}
    begin, end = seconds, 2 * seconds
    free_at = busy = other = 0.0
    cpu_free = [0.0] * fleet.workers
    waits: list[float] = []
    while events:
        now, kind, worker = heapq.heappop(events)
        if now >= end:
            break
        start = max(now, free_at)
        free_at = start + cost[kind]
        counted = max(0.0, min(free_at, end) - max(start, begin))
        busy += counted
        if kind == COMMIT:
            if now >= begin:
                waits.append(start - now)
            # The worker's own core plays its rounds one after the other; what they wait for, they wait for together.
            begun = max(free_at, cpu_free[worker])
            cpu_free[worker] = begun + fleet.own
            heapq.heappush(events, (cpu_free[worker] + fleet.draw(chance, fleet.latency), COMMIT, worker))
        else:
            other += counted
            heapq.heappush(events, (free_at + every[kind], kind, worker))  # as its thread does: it waits for the answer, then its time
    waits.sort()
    mean = sum(waits) / len(waits) if waits else 0.0
    late = waits[math.ceil(0.99 * len(waits)) - 1] if waits else 0.0
    return Outcome(len(waits) / seconds, busy / seconds, other / seconds, mean, late, fleet.ideal)
