"""Sizing: the memory, disk and CPU that runs need, from measured figures.

docs/operations/sizing.md describes the measurements, and has tables of results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Kind = Literal["workflow", "agent"]
Fsync = Literal["everysec", "always"]


class RunFigures(NamedTuple):
    """Measured bytes of one kind of run.

    Attributes:
        rounds: Rounds of a run of this kind, if the load names no number.
        stored: Bytes of memory of an ended run that has one round.
        stored_a_round: Bytes of memory that each further round adds.
        written: Bytes that a run with one round writes to the append-only file.
        written_a_round: Bytes that each further round writes to this file.
    """

    rounds: int
    stored: int
    stored_a_round: float
    written: int
    written_a_round: float


#: Measured with 1 and 10 steps (results of 200 characters), and with 10 commands, 21 rounds
#: (observations of 2,000 characters).
FIGURES: Mapping[Kind, RunFigures] = {
    "workflow": RunFigures(10, 3_200, 844.5, 9_100, 4_400.0),
    "agent": RunFigures(21, 3_200, 1_940.0, 9_100, 5_245.0),
}
#: Bytes that a live run takes in addition: 1 to 3 kB were measured.
MOVING_BYTES = 3_000
#: Bytes of a server without runs.
EMPTY_BYTES = 10_000_000
#: Milliseconds of the server's one core for a round, by its `appendfsync`.
SERVER_MS: Mapping[Fsync, float] = {"everysec": 0.20, "always": 0.33}
#: Milliseconds of a worker's core for a round, without the code of the flow.
WORKER_MS = 0.9
#: `maxmemory` for each byte that runs need, and memory of the machine for each byte of `maxmemory`.
HEADROOM, MACHINE = 1.25, 5 / 3
#: Files of the size of `maxmemory` that a rewrite of the append-only file needs.
FILES = 2
#: Share of the server's core above which several servers should share the work.
BUSY = 0.5
#: Bytes above which a shorter retention is worth more than a larger machine.
LARGE = 64_000_000_000
DAY = 86_400


@dataclass(frozen=True)
class Load:
    """A load: how many runs, how large they are, and how long they are kept.

    Attributes:
        runs: Runs a day.
        retention_days: Days for which an ended run is kept.
        rounds: Rounds of a run. None: as many as were measured for its kind.
        run_bytes: Memory of an ended run. None: estimated from its kind and its rounds.
        live: Runs that are live at the same time. None: one for each slot that the peak needs.
        round_seconds: Seconds that a round takes, with its waits.
        peak: Rounds per second at the peak, as a multiple of the average.
        slots: Slots of a worker process.
    """

    runs: int
    retention_days: float
    kind: Kind = "agent"
    rounds: int | None = None
    run_bytes: int | None = None
    live: int | None = None
    round_seconds: float = 2.0
    peak: float = 5.0
    slots: int = 16
    fsync: Fsync = "everysec"


@dataclass(frozen=True)
class Size:
    """The resources that a load needs. Units are bytes, seconds, and shares of one core.

    ``rounds``, ``run_bytes`` and ``live`` are those of the load, or the estimates for them.
    """

    rounds: int
    run_bytes: int
    live: int
    memory_bytes: int
    maxmemory_bytes: int
    machine_bytes: int
    disk_bytes: int
    written_bytes_a_day: int
    rounds_a_second: float
    peak_rounds_a_second: float
    server_share: float
    worker_cores: float
    slots: int
    workers: int

    def to_dict(self) -> dict[str, Any]:
        """Return the size as JSON data."""
        return dict(vars(self))


def size_of(load: Load) -> Size:
    """Return the resources that a load needs."""
    figures = FIGURES[load.kind]
    rounds = figures.rounds if load.rounds is None else load.rounds
    estimated = figures.stored + (rounds - 1) * figures.stored_a_round
    run_bytes = round(estimated) if load.run_bytes is None else load.run_bytes
    written = (figures.written + (rounds - 1) * figures.written_a_round) * run_bytes / estimated
    rate = load.runs * rounds / DAY
    peak = rate * load.peak
    slots = max(1, math.ceil(peak * load.round_seconds))
    # Little's law: each live run of this load has one round in flight.
    live = slots if load.live is None else load.live
    memory = round(
        load.runs * load.retention_days * run_bytes
        + live * (run_bytes + MOVING_BYTES)
        + EMPTY_BYTES
    )
    maxmemory = round(memory * HEADROOM)
    cores = peak * WORKER_MS / 1000
    return Size(
        rounds=rounds,
        run_bytes=run_bytes,
        live=live,
        memory_bytes=memory,
        maxmemory_bytes=maxmemory,
        machine_bytes=round(maxmemory * MACHINE),
        disk_bytes=FILES * maxmemory,
        written_bytes_a_day=round(load.runs * written),
        rounds_a_second=rate,
        peak_rounds_a_second=peak,
        server_share=peak * SERVER_MS[load.fsync] / 1000,
        worker_cores=cores,
        slots=slots,
        workers=max(math.ceil(slots / load.slots), math.ceil(cores)),
    )


def advice_on(load: Load, size: Size) -> list[str]:
    """Return advice on a large load, one sentence per entry.

    The list is empty if the load needs neither much memory nor much CPU.
    """
    advice = []
    if size.memory_bytes > LARGE and load.retention_days > 1:
        advice.append(
            f"the runs of {load.retention_days:g} days need much memory: shorten the retention, "
            "and store answers that you need for longer in your own database"
        )
    if size.server_share > BUSY:
        servers = math.ceil(size.server_share / BUSY)
        advice.append(
            f"one state server is busy at the peak: split the work by prefix over {servers} servers"
        )
    return advice
