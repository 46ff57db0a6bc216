"""The fast path of rounds that a test plays in its own process."""

from __future__ import annotations

from perdure.worker.engine.fast.handoff import FastRounds
from perdure.worker.runtime.fast.installation import fast_rounds
from perdure.worker.runtime.runtime import Runtime


def begin_fast_path(engine: Runtime) -> FastRounds:
    """Return the engine's fast path, with its prefetch begun: pass its handoffs to ``rounds.run``."""
    fast = fast_rounds(engine)
    fast.prefetcher.begin(engine.store.keys.queue_names, 20, inline=False)
    return fast
