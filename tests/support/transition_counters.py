"""The counters that transitions keep (parts/counters.lua), and the same counts from the runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from perdure.worker.domain.run import status_of
from perdure.worker.store import Store

COUNTED = ("runs:", "stops:", "moves:")
ENDED = ("completed", "errored")


def counted(store: Store) -> dict[str, int]:
    """Return the counts that are not 0."""
    found: Any = store.redis.hgetall(store.keys.queues)
    return {
        name: int(text) for name, text in found.items() if name.startswith(COUNTED) and text != "0"
    }


def scanned(store: Store, *run_ids: str) -> dict[str, int]:
    """Count by the runs and their histories: all but the counts that only a sweep knows."""
    found: Counter[str] = Counter()
    for run_id in run_ids:
        fields = store.reads.fields(run_id)
        assert fields is not None, f"run {run_id} has no hash"
        flow, status = fields["flow"], status_of(fields).value
        if status not in ENDED:
            found[f"runs:{status}:{flow}"] += 1
        if fields["phase"] == "parked":
            found[f"runs:parked:{flow}"] += 1
        for _, event in store.events.read(run_id):
            if event["type"] in ENDED:
                found[f"runs:{event['type']}:{flow}"] += 1
            elif event["type"] in ("submitted", "parked", "signalled"):
                found[f"moves:{event['type']}:{flow}"] += 1
            elif event["type"] == "stopped":
                found[f"stops:{event['mode']}:{flow}"] += 1
    return dict(found)
