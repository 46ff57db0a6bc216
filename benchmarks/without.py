"""``perdure`` with one lever of the fast path off.

Use: ``python -m benchmarks.without LEVER worker ...``. Each lever is taken out of a process that
has all others, by replacing its installer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any


def no_prefetch() -> None:
    """Pop no message and lease no round in commits. Affinity needs that too."""
    from perdure.worker.engine.fast import handoff

    handoff.FastRounds.prefetch_request = lambda self: None  # type: ignore[method-assign]


def no_affinity() -> None:
    """Requeue a run after each round."""
    from perdure.worker.engine.fast import handoff

    handoff.STAY_SECONDS = 0.0


def no_cpu_limiter() -> None:
    """Run the rounds of every thread at once."""
    from perdure.worker.engine.fast.cpu_limiter import CpuLimiter

    CpuLimiter.is_brief = lambda self, flow, node: False  # type: ignore[method-assign]


def no_template() -> None:
    """Build each message with Celery."""
    from perdure.worker.messaging.fast.template import MessageTemplates

    MessageTemplates.draft = lambda self, *arguments: None  # type: ignore[method-assign]


def no_shape() -> None:
    """Validate each message with the plain function."""
    from perdure.worker.messaging.fast import shape

    shape.MOST = 0


def no_thread_pool() -> None:
    """Run the rounds in Celery's executor."""
    from concurrent.futures import ThreadPoolExecutor

    from perdure.worker.runtime.fast import installation

    installation.RoundThreadPool = lambda most, idle: ThreadPoolExecutor(most)  # type: ignore[misc, assignment]


def no_fast_continue() -> None:
    """Write each continued commit with the general functions."""
    from perdure.worker.store import scripts

    whole = scripts.source

    @cache
    def source(name: str) -> str:
        text = whole(name)
        head = "local plain = "
        assert name != "commit_round" or head in text
        return text.replace(head, f"{head}false and ")

    scripts.source = source  # type: ignore[assignment]


#: Functions that switch each lever off.
LEVERS: dict[str, Callable[[], Any]] = {
    "prefetch": no_prefetch,
    "affinity": no_affinity,
    "CPU limiter": no_cpu_limiter,
    "template": no_template,
    "shape": no_shape,
    "thread pool": no_thread_pool,
    "fast_continue.lua": no_fast_continue,
}

if __name__ == "__main__":
    lever = sys.argv.pop(1)
    LEVERS[lever]()
    from perdure.worker.cli.main import main

    sys.argv[0] = "perdure"
    main()
