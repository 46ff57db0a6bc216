"""The parts of the history in the store: a hash of sums for each part of each span."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.worker.domain.chart_spans import PARTS, SPANS, part_ms
from perdure.worker.features.metric_history.history import MetricHistory, parsed, summed
from perdure.worker.store.metrics import increase

if TYPE_CHECKING:
    from perdure.worker.store import Store
    from perdure.worker.store.keys import Keys


def key(keys: Keys, span: str, number: int) -> str:
    """Return the key of a part's hash. Each field is a figure's name and label (a JSON list)."""
    return f"{keys.metrics}:{span}:{number}"


def add_to_parts(pipe: Any, keys: Keys, amounts: Mapping[tuple[str, ...], float], now: int) -> None:
    """Add commands to ``pipe`` that add the amounts to the current part of each span."""
    sums = {json.dumps(name): amount for name, amount in summed(amounts).items()}
    if not sums:
        return
    for span in SPANS:
        part = key(keys, span, now // part_ms(span))
        increase(pipe, part, sums)
        pipe.pexpire(part, (PARTS + 1) * part_ms(span))


def read_history(store: Store, span: str) -> MetricHistory:
    """Return the figures of a span's parts.

    The last part is the current one. One hash is read for each part, whatever the number of runs.

    Raises:
        StoreUnavailable: The state server does not answer.
        DamagedRun: A key is of a wrong type.
    """
    last = store.time() // part_ms(span)
    numbers = range(last - PARTS + 1, last + 1)
    with store._answered(), store.redis.pipeline(transaction=False) as pipe:
        for number in numbers:
            pipe.hgetall(key(store.keys, span, number))
        replies: list[Any] = pipe.execute()
    begins = [number * part_ms(span) for number in numbers]
    return MetricHistory(begins, [parsed(fields) for fields in replies])
