"""The metric history in the store: one hash of sums for each part of each span."""

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
    """Return the key of the hash of a part. Each field is a JSON list: a sum's name and label.

    Args:
        span: The name of the span: ``hour``, ``day`` or ``week``.
        number: The number of the part since 1970.
    """
    return f"{keys.metrics}:{span}:{number}"


def add_to_parts(pipe: Any, keys: Keys, amounts: Mapping[tuple[str, ...], float], now: int) -> None:
    """Add commands to ``pipe`` that add the amounts to the current part of each span.

    Args:
        amounts: The amounts of a worker's metrics, by the total's name and labels.
        now: The present time in ms.
    """
    sums = {json.dumps(name): amount for name, amount in summed(amounts).items()}
    if not sums:
        return
    for span in SPANS:
        part = key(keys, span, now // part_ms(span))
        increase(pipe, part, sums)
        pipe.pexpire(part, (PARTS + 1) * part_ms(span))


def read_history(store: Store, span: str) -> MetricHistory:
    """Return the sums of a span's parts. The last part is the current one.

    One hash is read for each part. So the cost does not depend on the number of runs.

    Args:
        span: The name of the span: ``hour``, ``day`` or ``week``.

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
