"""The cost of a transition's call for its caller.

It compares a kept connection, as the store uses it, with redis-py's client.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import redis.connection

from benchmarks.measure import Measure
from benchmarks.report import Options, Report
from perdure.worker.client import Client
from perdure.worker.embedded import EmbeddedServer
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.store.scripts import Transition
from tests.support.in_process_runtime import runtime_of

#: Calls in a row that are timed together, and how often. The least time is the cost of the call;
#: the others were interrupted.
CALLS, TIMES = 50, 20
#: The transitions that are called: one replies with a run's whole hash, the other with a word.
CALLED = ("claim_round", "check_run")


def measure(options: Options) -> Report:
    """Measure each way in turns. When repeated, both transitions only reply."""
    report = Report(
        "calls",
        "What a call costs its caller: CPU time of the client's thread, with packing and reading.",
    )
    spent: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="hf-") as room,
        EmbeddedServer(Path(room), appendfsync="everysec") as server,
    ):
        client = Client(settings=Settings(redis_url=server.url, flow_modules=("benchmarks.flows",)))
        with closing(client):
            run_id = client.submit("empty", "go", {"rounds": 30}).id
            runtime_of(client).rounds.run(run_id, 0, 0)
            given = _arguments(client, run_id)
            for _ in range(options.passes):
                for parser in _parsers():
                    store = Store(server.url)
                    if parser == "Python":
                        store.redis.connection_pool.connection_kwargs["parser_class"] = (
                            redis.connection._RESP3Parser
                        )
                    for transition, (keys, argv) in given.items():
                        for way, call in _ways(store, transition, keys, argv).items():
                            name = f"{transition}, {way}, read in {parser}"
                            spent.setdefault(name, []).append(_cost(call))
                    store.close()
    for name, costs in spent.items():
        base = next(other for other in spent if other.split(",")[0] == name.split(",")[0])
        report.measures.append(Measure(name, "CPU us", tuple(costs), base))
    if "C" not in _parsers():
        report.missing["read in C"] = "hiredis is not installed"
    return report


def _parsers() -> list[str]:
    return ["Python", "C"] if find_spec("hiredis") else ["Python"]


def _arguments(client: Client, run_id: str) -> dict[str, tuple[Sequence[str], Sequence[Any]]]:
    """Return KEYS and ARGV of both transitions, as the store sends them."""
    store, given = client._store, {}

    class Told:
        def __init__(self, name: str, script: Transition) -> None:
            self.name, self.script = name, script

        def __call__(self, wire: Any, keys: Sequence[str], args: Sequence[Any]) -> Any:
            given[self.name] = keys, args
            return self.script(wire, keys, args)

    for name in CALLED:
        store._scripts[name] = Told(name, store._scripts[name])  # type: ignore[assignment]
    store.rounds.claim(
        run_id,
        epoch=0,
        step=1,
        claim="host:1:1.0123456789abcdef",
        owner="host:1",
        lease=600_000,
        known=("empty", "sleeper"),
    )
    store.runs.examine(run_id)
    return given


def _ways(
    store: Store, transition: str, keys: Sequence[str], argv: Sequence[Any]
) -> dict[str, Callable[[], Any]]:
    script = store._scripts[transition]
    return {
        "by redis-py's client": lambda: store.redis.evalsha(script.sha, len(keys), *keys, *argv),
        "over a connection kept": lambda: script(store._wire, keys, argv),
    }


def _cost(call: Callable[[], Any]) -> float:
    call()
    found = []
    for _ in range(TIMES):
        began = time.thread_time()
        for _ in range(CALLS):
            call()
        found.append(time.thread_time() - began)
    return 1e6 * min(found) / CALLS


if __name__ == "__main__":
    print(measure(Options()).text())
