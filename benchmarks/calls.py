"""What a transition costs its caller: microseconds of one call, of the client's own CPU time and until the answer is there.

Rounds are played in this process against a server of its own, one after the other, so that the calls are those of real rounds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker.client import Client
from worker.embedded import EmbeddedServer
from worker.settings import Settings

PASSES = 5
RUNS, ROUNDS = 10, 30
#: Measured one by one; ``round`` is a whole round, these calls included.
CALLS = ("claim", "commit")


def measure(passes: int = PASSES) -> dict[str, dict[str, float]]:
    """For each call the medians of ``cpu_us`` and ``wall_us``, over the passes' means."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="hf-") as room, EmbeddedServer(Path(room), appendfsync="everysec") as server:
        client = Client(settings=Settings(redis_url=server.url, flow_modules=("benchmarks.flows",)))
        _play(client, 1, {})  # from here on the server knows the scripts
        for _ in range(passes):
            spent: dict[str, list[float]] = {name: [0.0, 0.0] for name in (*CALLS, "round")}
            _play(client, RUNS, spent)
            for name, (cpu, wall) in spent.items():
                found[name].append((1e6 * cpu / (RUNS * ROUNDS), 1e6 * wall / (RUNS * ROUNDS)))
        client.close()
    return {
        name: {"cpu_us": round(statistics.median(cpu for cpu, _ in each), 1), "wall_us": round(statistics.median(wall for _, wall in each), 1)}
        for name, each in found.items()
    }


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


def lines(found: dict[str, dict[str, float]]) -> list[str]:
    """What was found, for people."""
    return [f"{name:15} {each['cpu_us']:7.1f} us of the client's CPU, {each['wall_us']:.0f} us in all" for name, each in found.items()]


if __name__ == "__main__":
    print("\n".join(lines(measure())))
