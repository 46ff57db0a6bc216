"""Runs that wait for a person: the memory that each takes, and what they cost the others."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, ClassVar

from benchmarks.filling import INPUTS, names, park, settings_of, settle
from benchmarks.measure import Measure
from benchmarks.processes import until
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.report import Options, Report, number
from worker.client import Client
from worker.record import SCHEMA, VALUE
from worker.store import Granted, Store

COUNTS, QUICK_COUNTS = (1_000, 100_000), (100, 1_000)
#: Rounds under way beside them: the heartbeat of one process extends their leases.
LEASES = 16
#: Calls of each kind in each pass, and how many of them on one server before the other has its turn: what the machine does besides doubles
#: and halves a call within a second.
CALLS, QUICK_CALLS = 400, 10
TURN = 10
#: A parked run may take so many bytes beyond its own state; it may cost the others so many times what they cost without it.
AIM_BYTES, AIM_RATIO = 2_000, 1.1
#: Fields of the run's hash that are its own state, with the values that its rounds returned.
OWN = ("goal", "inputs", "labels", "internal_data")
#: The server looks at its clients ten times a second, at a share of them each time; less than a run takes is no change.
LOOKS_SECONDS, STILL_BYTES = 0.3, 1_000
LONG_LEASE = 24 * 3_600_000
#: The yardstick: the sweep of a prefix on the same server that has no runs at all. What that takes more beside them, any script does, as
#: the memory that the server works in lies among theirs.
YARDSTICK = "sweep of an unused prefix"


def measure(options: Options) -> Report:
    """Two servers, one of which has parked runs; the calls on both in turns, a few on each."""
    counts, calls = (QUICK_COUNTS, QUICK_CALLS) if options.quick else (COUNTS, CALLS)
    report = Report(
        "parked",
        f"Runs that wait for a person after their first round, and what a sweep, a heartbeat of {LEASES} leases, the sweep of "
        "a prefix without runs and a list page take beside them: microseconds in scripts, and milliseconds until a page is there. A run's "
        "own state are goal, inputs, labels and the "
        "values that its rounds returned.",
    )
    with redis_server() as empty, redis_server() as full, closing(Others(empty)) as without, closing(Others(full)) as beside:
        base, done = memory(full), 0
        for count in counts:
            park(full, names(done, count - done))
            done = count
            settle(full)
            taken, own = (memory(full) - base) / count, own_state(full, names(0, 1)[0])
            report.measures += [Measure(f"memory of each of {count:,} parked runs beyond its own {own} bytes", "B", (taken - own,))]
            word = "reached" if taken - own <= AIM_BYTES else "NOT reached"
            report.notes.append(
                f"{count:,} parked runs: {number(taken - own)} bytes each beyond their own state; aim {AIM_BYTES:,}: {word}"
            )
            report.notes.append(f"of them {parts(full, names(0, 1)[0])}")
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in Others.CALLS}
            for _ in range(options.passes):
                for name, values in found.items():
                    values.append(in_turns(without, beside, name, calls))
            for name, values in found.items():
                none, unit = f"{name}, beside none (for {count:,})", Others.CALLS[name]
                beside_them = Measure(f"{name}, beside {count:,}", unit, tuple(b for _, b in values), none if unit == "us" else None)
                if beside_them.base is None:  # a page of so few runs as there are without them says nothing
                    report.measures.append(beside_them)
                    continue
                report.measures += [Measure(none, unit, tuple(a for a, _ in values)), beside_them]
                times = report.ratio_of(report.measures[-1]) or 0.0
                word = "what any script takes" if name == YARDSTICK else f"aim {AIM_RATIO:g}: {'' if times <= AIM_RATIO else 'NOT '}reached"
                report.notes.append(f"{name} beside {count:,} parked runs: {number(times)} x; {word}")
    return report


def in_turns(without: Others, beside: Others, name: str, calls: int) -> tuple[float, float]:
    """What a call takes on each of the two, in its unit: the median of the turns."""
    turns = [(without.cost(name, TURN), beside.cost(name, TURN)) for _ in range(calls // TURN)]
    return statistics.median(a for a, _ in turns), statistics.median(b for _, b in turns)


def memory(server: RedisServer) -> int:
    """Bytes that the server holds, without what its clients and its log of writes take at the moment; read once it stands still.

    What a client that has just gone took, the server counts among the rest until it next looks.
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
    """Bytes of a run's own state."""
    with closing(Client(settings=settings_of(server))) as client:
        fields: Any = server.redis.hgetall(client._store.keys.run(run_id))
        turns: Any = server.redis.lrange(client._store.keys.memory(run_id), 0, -1)
    return sum(len(value) for name, value in fields.items() if name in OWN or name.startswith(VALUE)) + sum(map(len, turns))


def parts(server: RedisServer, run_id: str) -> str:
    """What of a run's keys takes how much, in words."""
    with closing(Client(settings=settings_of(server))) as client:
        keys = client._store.keys
    sizes = {kind: server.redis.memory_usage(key, samples=0) for kind, key in (("hash", keys.run(run_id)), ("events", keys.events(run_id)))}
    message = server.redis.hstrlen(keys.run(run_id), "message")
    return ", ".join(f"{size} bytes {kind}" for kind, size in sizes.items() if size) + f"; the message in the hash has {message}"


class Others:
    """What goes on beside the parked runs, on one server: ``leases`` under way, and what is called."""

    #: Each kind of call, and the unit of what it costs.
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
        self._elsewhere = Client(settings=settings_of(server).model_copy(update={"prefix": "unused"}))
        self._calls: dict[str, Callable[[], object]] = {
            "sweep": lambda: sweep(self.store),
            "heartbeat": lambda: self.store.extend(self.leases),
            YARDSTICK: lambda: sweep(self._elsewhere._store),
            "page of 50": lambda: self._client.runs(limit=50),
        }

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._elsewhere.close()

    def cost(self, name: str, calls: int) -> float:
        """The mean of so many calls, in the call's unit: the server's own count for scripts; of one page, by the clock."""
        call = self._calls[name]
        call()
        if self.CALLS[name] == "us":
            before = self._server.work().script_us
            for _ in range(calls):
                call()
            return (self._server.work().script_us - before) / calls
        return 1000 * _seconds(call)

    def _claimed(self, run_id: str) -> Granted:
        claim = self.store.claim(run_id, epoch=0, step=0, claim=f"beside:1.{run_id}", owner="beside:1", lease=LONG_LEASE, known=["empty"])
        assert isinstance(claim, Granted), claim
        return claim


def sweep(store: Store) -> object:
    """Look for what is due."""
    return store.sweep(lease=4000, max_losses=10, jitter=0.5, schema=SCHEMA)


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
