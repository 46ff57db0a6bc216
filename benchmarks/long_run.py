"""A run of 100,000 rounds: memory and speed. It bounds its history and renews itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

from benchmarks.measure import Measure
from benchmarks.processes import process, until
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.perdure import alive, client_of, worker_command
from perdure.worker.store.keys import Keys

ROUNDS, QUICK_ROUNDS = 100_000, 5_000
#: A renewal each tenth of the run.
RENEWALS = 10
#: Rounds at both ends whose speed is compared.
ENDS = 1_000
#: Bytes of each turn.
TURN = 500
#: Greatest memory of the run's keys at any time, in bytes.
AIM = 3_000_000
#: Seconds between two looks.
LOOK = 0.02
FLOWS = "benchmarks.loads"


def measure(options: Options) -> Report:
    """Play the run once in each pass."""
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    report = Report(
        "long_run",
        f"A run of {rounds:,} rounds, each with a turn of {TURN} bytes, that keeps 500 turns and "
        f"about 10,000 events and renews itself each {rounds // RENEWALS:,} rounds; one worker.",
    )
    passes = [_play(rounds) for _ in range(options.passes)]
    for place, name in enumerate(("most memory of its keys", "memory at its end")):
        values = tuple(each[place] for each in passes)
        report.measures.append(Measure(name, "B", values))
    first = f"the first {ENDS:,}"
    report.measures += [
        Measure(first, "rounds/s", tuple(each[2] for each in passes)),
        Measure(f"the last {ENDS:,}", "rounds/s", tuple(each[3] for each in passes), first),
    ]
    most = max(each[0] for each in passes)
    word = "reached" if most <= AIM else "NOT reached"
    report.notes.append(f"most memory: {most:,.0f} bytes; aim {AIM:,}: {word}")
    return report


def _play(rounds: int) -> tuple[float, float, float, float]:
    """Return the memory of the run's keys, and rates.

    The memory is the most and the last, the rates are those of both ends.
    """
    with ExitStack() as stack:
        server = stack.enter_context(redis_server())
        client = stack.enter_context(closing(client_of(server)))
        keys = Keys(client.settings.prefix)
        environment = {"PERDURE_REDIS_URL": server.url, "PERDURE_FLOW_MODULES": FLOWS}
        stack.enter_context(process(worker_command("--pool", "threads"), **environment))
        until(lambda: alive(client) == 1, "the worker")
        inputs = {"rounds": rounds, "every": rounds // RENEWALS, "bytes": TURN}
        run_id = client.submit("long", "go", inputs).id
        looks = list(_looks(server, keys, run_id, rounds))
        return (
            max(memory for _, _, memory in looks),
            looks[-1][2],
            _rate(looks, 0, ENDS),
            _rate(looks, rounds - ENDS, rounds),
        )


def _looks(
    server: RedisServer, keys: Keys, run_id: str, rounds: int
) -> Iterator[tuple[float, int, int]]:
    """Yield time, step and memory until the run ends. The memory is that of the run's keys."""
    names = (keys.run(run_id), keys.memory(run_id), keys.events(run_id), keys.artifacts(run_id))
    step = -1
    while step < rounds:
        time.sleep(LOOK)
        read: Any = server.redis.hget(names[0], "step")
        step, now = int(read), time.perf_counter()
        used = [server.redis.memory_usage(name, samples=0) or 0 for name in names]
        yield now, step, sum(used)


def _rate(looks: list[tuple[float, int, int]], first: int, last: int) -> float:
    """Return the rounds a second between two steps. The looks limit the precision."""
    begin = max((look for look in looks if look[1] <= first), default=looks[0])
    end = min(look for look in looks if look[1] >= last)
    return (end[1] - begin[1]) / (end[0] - begin[0])
