"""A simulated fleet: workers whose slots play rounds, and one Redis for their scripts.

A slot waits for its model, then sends its commit. The server executes commits one after the other,
and its reply brings the next round. Each worker's heartbeats, sweeps, announcements and waits for
messages also take the server's time. Times are in seconds.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

#: Kinds of events.
COMMIT, BEAT, SWEEP, ANNOUNCE = range(4)
#: How much models vary: most reply sooner than the mean, some take several times as long.
SIGMA = 0.6


def varied(chance: random.Random, mean: float) -> float:
    """Draw a model's latency: log-normal, with this mean."""
    return mean * chance.lognormvariate(-(SIGMA**2) / 2, SIGMA) if mean else 0.0


@dataclass(frozen=True)
class Server:
    """The seconds of the server's core for each operation.

    Attributes:
        round: One round, everything included.
        beat: A heartbeat, and each lease in it.
        sweep: A sweep that finds no run due.
        announce: An announcement, and its additional cost for each worker that has announced
            itself.
        idle: One wait for a message that times out (BRPOP).
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
        slots: Rounds that one worker plays at once.
        latency: Seconds that a round waits for its model, on average; ``draw`` returns one wait.
        own: Seconds of the worker's own work for a round; its slots share one core for it.
        beat_every, sweep_every: Seconds between two of one worker. It announces itself with each
            heartbeat.
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
        """Rounds a second with an infinitely fast server."""
        return self.workers * min(self.slots / (self.latency + self.own), 1 / self.own)


@dataclass(frozen=True)
class Outcome:
    """Result of a simulation.

    Attributes:
        rate: Rounds a second of all workers.
        busy: Share of the server's core.
        upkeep: Share of the server's core for everything but rounds.
        wait: Seconds that a commit waited for the server, on average; ``late`` is the 99th
            percentile.
        ideal: Rounds a second if the server were infinitely fast.
    """

    rate: float
    busy: float
    upkeep: float
    wait: float
    late: float
    ideal: float


def upkeep(fleet: Fleet, server: Server, leases: float) -> float:
    """Return the upkeep's share of the server's core.

    Upkeep is everything but rounds. Each worker holds ``leases`` leases.
    """
    beat = server.beat[0] + leases * server.beat[1] if leases else 0.0
    announce = server.announce[0] + fleet.workers * server.announce[1]
    each = (beat + announce) / fleet.beat_every + server.sweep / fleet.sweep_every + server.idle
    return fleet.workers * each


def simulate(fleet: Fleet, server: Server, seconds: float, seed: int = 1) -> Outcome:
    """Simulate ``seconds``, after the same time to start up.

    Events are processed in the order of their times: the arrival of a slot's commit, or of a
    worker's heartbeat, sweep or announcement. The server takes them in that order. An event that
    arrives while the server is busy waits.
    """
    chance = random.Random(seed)
    every = {BEAT: fleet.beat_every, SWEEP: fleet.sweep_every, ANNOUNCE: fleet.beat_every}
    events: list[tuple[float, int, int]] = []
    for worker in range(fleet.workers):
        for kind, gap in every.items():
            events.append((chance.random() * gap, kind, worker))
        for _ in range(fleet.slots):
            events.append(
                (chance.random() * (fleet.draw(chance, fleet.latency) + fleet.own), COMMIT, worker)
            )
    heapq.heapify(events)
    announce = server.announce[0] + fleet.workers * server.announce[1]
    cost = {
        BEAT: server.beat[0] + fleet.slots * server.beat[1],
        SWEEP: server.sweep,
        ANNOUNCE: announce,
        COMMIT: server.round,
    }
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
            # The worker's own core plays its rounds one after the other. They wait at the same
            # time.
            begun = max(free_at, cpu_free[worker])
            cpu_free[worker] = begun + fleet.own
            heapq.heappush(
                events, (cpu_free[worker] + fleet.draw(chance, fleet.latency), COMMIT, worker)
            )
        else:
            other += counted
            heapq.heappush(
                events, (free_at + every[kind], kind, worker)
            )  # as its thread does: it waits for the answer, then its time
    waits.sort()
    mean = sum(waits) / len(waits) if waits else 0.0
    late = waits[math.ceil(0.99 * len(waits)) - 1] if waits else 0.0
    return Outcome(len(waits) / seconds, busy / seconds, other / seconds, mean, late, fleet.ideal)
