"""Losses: the span of an attempt whose worker was killed. It could not end its own, so whoever freed its lease tells of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry.trace import Status, StatusCode

from worker.store import Store
from worker.telemetry import names
from worker.telemetry.attempts import facts, start
from worker.telemetry.roots import FIELD, NS, parent_of
from worker.telemetry.rounds import SPAN
from worker.telemetry.switch import Harmless

#: What is read of the run.
FIELDS = ("id", "flow", "epoch", "nonce", "created_at", FIELD, SPAN)
#: Events that are looked at, newest first: between the sweep and this look another worker may have gone on with the run.
LOOKED_AT = 50


def tell_losses(store: Store, report: Sequence[tuple[str, str]]) -> None:
    """A span for each attempt that was lost in a sweep.

    Args:
        report: the sweep's: run ids, and a word for each. ``freed`` and ``delayed`` are losses, ``errored`` may be one.
    """
    for run_id, word in report:
        if word in ("freed", "delayed", "errored"):
            with Harmless(f"the loss of a worker under run {run_id}"):
                _tell(store, run_id, word)


def _tell(store: Store, run_id: str, word: str) -> None:
    entries, fields = store.newest_events(run_id, LOOKED_AT, FIELDS)
    event = _lost(entries, word)
    if event is None or "id" not in fields:
        return
    step, at = int(event["step"]), int(event["at"])
    told = {
        **facts(fields, step, event["node"], int(event["attempt"])),
        names.WORKER: event["owner"],
        names.LOSSES: int(event["losses"]),
        names.OUTCOME: "lost",
        names.ERROR: "worker_lost",
    }
    span = start(parent_of(store, fields), fields, step, told, int(event.get("claimed_at") or at))
    span.set_status(Status(StatusCode.ERROR, "worker lost"))
    span.end(at * NS)


def _lost(entries: Sequence[tuple[str, Mapping[str, str]]], word: str) -> Mapping[str, str] | None:
    """The loss that the sweep wrote down, of the newest events; where it ended the run, a loss only if the end followed at once."""
    after: Mapping[str, str] = {}
    for _, entry in entries:
        if entry["type"] == "lost":
            ended = after.get("type") == "errored" and after["at"] == entry["at"]
            return entry if word != "errored" or ended else None
        after = entry
    return None
