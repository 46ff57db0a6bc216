"""Runs that wait for a person: the memory of each, and their cost for other runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, ClassVar

from benchmarks.bulk_runs import INPUTS, names, park, settings_of, settle
from benchmarks.measure import Measure
from benchmarks.processes import until
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.report import Options, Report, number
from perdure.worker.client import Client
from perdure.worker.domain.record import SCHEMA, VALUE
from perdure.worker.store import Claim, Store

COUNTS, QUICK_COUNTS = (1_000, 100_000), (100, 1_000)
#: Live rounds beside them: the heartbeat of one process extends their leases.
LEASES = 16
#: Calls of each kind in each pass, and calls in a row on one server before the other has its turn.
#: The turns are short because other work of the machine doubles and halves the time of a call
#: within a second.
CALLS, QUICK_CALLS = 400, 10
TURN = 10
#: Greatest size of a parked run beyond its own state, in bytes, and greatest ratio of the cost of
#: other calls with and without parked runs.
AIM_BYTES, AIM_RATIO = 2_000, 1.1
#: Fields of the run's hash that are its own state: the values that its rounds returned.
OWN = ("goal", "inputs", "labels", "internal_data")
#: The server checks a share of its clients ten times a second. A difference smaller than one run is
#: no change.
LOOKS_SECONDS, STILL_BYTES = 0.3, 1_000
LONG_LEASE = 24 * 3_600_000
#: The base of comparison: the sweep of another prefix on the same server, without any runs. If this
#: takes longer beside parked runs, every script does, because its memory lies among theirs.
YARDSTICK = "sweep of an unused prefix"


def measure(options: Options) -> Report:
    """Measure runs that wait for a person after their first round."""
    return measure_filled(
        "parked", "Runs that wait for a person after their first round", park, options
    )


def measure_filled(
    part: str, what: str, fill: Callable[[RedisServer, Sequence[str]], None], options: Options
) -> Report:
    """Start two servers, and make calls on both.

    One has runs at rest. The calls go in turns, a few on each.

    Args:
        what: The runs, for the report.
        fill: Puts runs with these ids on a server.
    """
    counts, calls = (QUICK_COUNTS, QUICK_CALLS) if options.quick else (COUNTS, CALLS)
    report = Report(
        part,
        f"{what}, and what these take beside them: a "
        f"sweep, a heartbeat of {LEASES} leases, the sweep of a prefix without runs, and a list "
        "page. Microseconds in scripts, and milliseconds until a page is complete. A run's "
        "own state are goal, inputs, labels and the values that its rounds returned.",
    )
    with (
        redis_server() as empty,
        redis_server() as full,
        closing(Others(empty)) as without,
        closing(Others(full)) as beside,
    ):
        # The scripts are loaded before, since they would count as memory of the first runs.
        fill(full, names(max(counts), 1))
        settle(full)
        base, done = memory(full), 0
        for count in counts:
            fill(full, names(done, count - done))
            done = count
            settle(full)
            taken, own = (memory(full) - base) / count, own_state(full, names(0, 1)[0])
            report.measures += [
                Measure(
                    f"memory of each of {count:,} parked runs beyond its own {own} bytes",
                    "B",
                    (taken - own,),
                )
            ]
            word = "reached" if taken - own <= AIM_BYTES else "NOT reached"
            report.notes.append(
                f"{count:,} parked runs: {number(taken - own)} bytes each beyond their own state; "
                f"aim {AIM_BYTES:,}: {word}"
            )
            report.notes.append(f"of them {parts(full, names(0, 1)[0])}")
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in Others.CALLS}
            for _ in range(options.passes):
                for name, values in found.items():
                    values.append(in_turns(without, beside, name, calls))
            for name, values in found.items():
                none, unit = f"{name}, beside none (for {count:,})", Others.CALLS[name]
                beside_them = Measure(
                    f"{name}, beside {count:,}",
                    unit,
                    tuple(b for _, b in values),
                    none if unit == "us" else None,
                )
                if (
                    beside_them.base is None
                ):  # a page of so few runs as there are without them says nothing
                    report.measures.append(beside_them)
                    continue
                report.measures += [Measure(none, unit, tuple(a for a, _ in values)), beside_them]
                times = report.ratio_of(report.measures[-1]) or 0.0
                word = (
                    "what any script takes"
                    if name == YARDSTICK
                    else f"aim {AIM_RATIO:g}: {'' if times <= AIM_RATIO else 'NOT '}reached"
                )
                report.notes.append(
                    f"{name} beside {count:,} parked runs: {number(times)} x; {word}"
                )
    return report


def in_turns(without: Others, beside: Others, name: str, calls: int) -> tuple[float, float]:
    """Return a call's cost on each server. It is the median of the turns, in the call's unit."""
    turns = [(without.cost(name, TURN), beside.cost(name, TURN)) for _ in range(calls // TURN)]
    return statistics.median(a for a, _ in turns), statistics.median(b for _, b in turns)


def memory(server: RedisServer) -> int:
    """Return the server's bytes, without its buffers.

    The buffers are those of clients and of its log of writes. The memory is read when it no longer
    changes: the server counts the buffers of a client that has just disconnected among the rest,
    until its next check.
    """
    held = -STILL_BYTES

    def stands_still() -> bool:
        nonlocal held
        before, held = held, _held(server)
        return abs(held - before) < STILL_BYTES

    until(stands_still, "the server's memory to stand still", 60, LOOKS_SECONDS)
    return held


def _held(server: RedisServer) -> int:
    info: Any = server.redis.info("memory")
    return int(info["used_memory"] - info["mem_clients_normal"] - info["mem_aof_buffer"])


def own_state(server: RedisServer, run_id: str) -> int:
    """Return the bytes of a run's own state."""
    with closing(Client(settings=settings_of(server))) as client:
        fields: Any = server.redis.hgetall(client._store.keys.run(run_id))
        turns: Any = server.redis.lrange(client._store.keys.memory(run_id), 0, -1)
    return sum(
        len(value) for name, value in fields.items() if name in OWN or name.startswith(VALUE)
    ) + sum(map(len, turns))


def parts(server: RedisServer, run_id: str) -> str:
    """Return the sizes of a run's keys as text."""
    with closing(Client(settings=settings_of(server))) as client:
        keys = client._store.keys
    sizes = {
        kind: server.redis.memory_usage(key, samples=0)
        for kind, key in (("hash", keys.run(run_id)), ("events", keys.events(run_id)))
    }
    message = server.redis.hstrlen(keys.run(run_id), "message")
    return (
        ", ".join(f"{size} bytes {kind}" for kind, size in sizes.items() if size)
        + f"; the message in the hash has {message}"
    )


class Others:
    """The work beside the parked runs, on one server: ``leases`` live rounds, and the calls."""

    #: Each kind of call, and the unit of its cost.
    CALLS: ClassVar = {"sweep": "us", "heartbeat": "us", YARDSTICK: "us", "page of 50": "ms"}

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client = Client(settings=settings_of(server))
        self.store = self._client._store
        ids = [f"under-way-{place:06}" for place in range(LEASES)]
        for run_id in ids:
            self._client.submit("empty", "go", INPUTS, run_id=run_id)
        self.leases = [(run_id, self._claimed(run_id).token, "") for run_id in ids]
        self.store.redis.delete(*self.store.keys.queue_names)
        self._elsewhere = Client(
            settings=settings_of(server).model_copy(update={"prefix": "unused"})
        )
        self._calls: dict[str, Callable[[], object]] = {
            "sweep": lambda: sweep(self.store),
            "heartbeat": lambda: self.store.rounds.extend(self.leases),
            YARDSTICK: lambda: sweep(self._elsewhere._store),
            "page of 50": lambda: self._client.runs(limit=50),
        }

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._elsewhere.close()

    def cost(self, name: str, calls: int) -> float:
        """Return the mean cost of ``calls`` calls.

        It is in the call's unit. For scripts it is the server's own count, for a page the time by
        the clock.
        """
        call = self._calls[name]
        call()
        if self.CALLS[name] == "us":
            before = self._server.work().script_us
            for _ in range(calls):
                call()
            return (self._server.work().script_us - before) / calls
        return 1000 * _seconds(call)

    def _claimed(self, run_id: str) -> Claim:
        claim = self.store.rounds.claim(
            run_id,
            epoch=0,
            step=0,
            claim=f"beside:1.{run_id}",
            owner="beside:1",
            lease=LONG_LEASE,
            known=["empty"],
        )
        assert isinstance(claim, Claim), claim
        return claim


def sweep(store: Store) -> object:
    """Sweep once."""
    return store.fleet.sweep(lease=4000, max_losses=10, jitter=0.5, schema=SCHEMA)


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
