"""What a transition costs its caller: microseconds of one call, of the client's own CPU time and until the answer is there.

Rounds are played in this process against a server of its own, one after the other, so that the calls are those of real rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from benchmarks.measure import Measure
from benchmarks.redis_server import redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.holdfast import client_of
from worker.client import Client

RUNS, ROUNDS = 10, 30
#: Measured one by one; ``round`` is a whole round, these calls included.
CALLS = ("claim", "commit_and_fetch")
KINDS = ("CPU us", "us")


def measure(options: Options) -> Report:
    """The means of each pass."""
    found: dict[tuple[str, str], list[float]] = {}
    with redis_server() as server, closing(client_of(server)) as client:
        _play(client, 1, {})  # from here on the server knows the scripts
        for _ in range(options.passes):
            spent: dict[str, list[float]] = {name: [0.0, 0.0] for name in (*CALLS, "round")}
            _play(client, RUNS, spent)
            for name, both in spent.items():
                for kind, seconds in zip(KINDS, both, strict=True):
                    found.setdefault((name, kind), []).append(1e6 * seconds / (RUNS * ROUNDS))
    measures = [Measure(f"Holdfast, {name}, {kind}", kind, tuple(values)) for (name, kind), values in found.items()]
    return Report("calls", "What the calls of a round cost the process that plays it.", measures)


def _play(client: Client, runs: int, spent: dict[str, list[float]]) -> None:
    rounds, store = client._engine.rounds, client._engine.store
    for name in CALLS:
        if name in spent:
            setattr(store, name, _timed(getattr(store, name), spent[name]))
    play = _timed(rounds.play, spent.get("round", [0.0, 0.0]))
    for _ in range(runs):
        run_id = client.submit("empty", "go", {"rounds": ROUNDS}).id
        for step in range(ROUNDS):
            play(run_id, 0, step)
    for name in CALLS:
        vars(store).pop(name, None)


def _timed(call: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    def timed(*args: Any, **options: Any) -> Any:
        cpu, wall = time.thread_time(), time.perf_counter()
        try:
            return call(*args, **options)
        finally:
            spent[0] += time.thread_time() - cpu
            spent[1] += time.perf_counter() - wall

    return timed
