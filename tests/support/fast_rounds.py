"""A fast path without a server."""

from __future__ import annotations

from typing import Any, cast

from perdure.worker.engine.drain import Drain
from perdure.worker.engine.fast.handoff import FastRounds


def fast_rounds_without_server() -> FastRounds:
    """Make a fast path without store and committer."""
    nothing = cast("Any", None)
    return FastRounds(nothing, nothing, ["ring"], "worker", 20.0, Drain(), lambda: 1)
