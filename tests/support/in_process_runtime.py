"""The runtime of a worker in the test's own process, with its fast path and its sweeper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from perdure import Client, Settings
from perdure.worker.app import engine_of, make_app
from perdure.worker.engine.fast.handoff import FastRounds
from perdure.worker.runtime.fast.installation import fast_rounds
from perdure.worker.runtime.runtime import Runtime


def runtime_of(client: Client) -> Runtime:
    """Return a runtime on the client's store, always the same one; the client's ``close`` closes it
    too.
    """
    runtime: Runtime | None = vars(client).get("_runtime")
    if runtime is None:
        runtime = engine_of(client._session._app or make_app(client.settings))
        runtime.store = client._store
        vars(client)["_runtime"] = runtime
        close = client.close

        def close_both() -> None:
            runtime.close()  # writes the data that its heartbeat would write after the test
            close()

        vars(client)["close"] = close_both
    return runtime


def begin_fast_path(engine: Runtime) -> FastRounds:
    """Return the engine's fast path, its prefetch begun: pass its handoffs to ``rounds.run``."""
    fast = fast_rounds(engine)
    fast.prefetcher.begin(engine.store.keys.queue_names, 20, inline=False)
    return fast


@contextmanager
def sweeping(client: Client, settings: Settings) -> Iterator[None]:
    """Sweep in this process while the block runs."""
    engine = Runtime(runtime_of(client).app, settings)
    sweeper = engine.new_sweeper("none", "threads", 0)
    sweeper.start()
    try:
        yield
    finally:
        sweeper.stop()
        engine.close()


def play(engine: Runtime, run_id: str) -> list[str]:
    """Play rounds as long as the run is queued; return the outcome of each."""
    words: list[str] = []
    while (fields := engine.store.reads.fields(run_id) or {})["phase"] in ("queued", "waiting"):
        if fields["phase"] == "queued":
            words.append(engine.rounds.run(run_id, int(fields["epoch"]), int(fields["step"])).word)
        else:
            engine.new_sweeper("none", "solo", 1).sweep()
    return words


def played(client: Client, *run_ids: str) -> None:
    """Play the first round of each, in this process, and write figures as the heartbeat would."""
    for run_id in run_ids:
        runtime_of(client).rounds.run(run_id, 0, 0)
    runtime_of(client).write_stats()
