"""Runs: what the transitions counted with what they did (counting.lua), and the sizes of the indexes."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric

from worker.metrics.families import Labels, counter, gauge, number
from worker.metrics.gathering import Gathered

#: Each kind of count, and the words that it may have.
STATUSES = ("queued", "running", "interrupted", "stopped")
ENDED = ("completed", "errored")
MODES = ("graceful", "now")
#: What sweeps did for runs whose round was lost, or did not end.
RECOVERIES = ("freed", "delayed", "overran")


def families(gathered: Gathered) -> Iterator[Metric]:
    """Of the runs as a whole."""
    counts = _counts(gathered)
    flows = sorted({*gathered.flows, *(flow for _, flow in counts)})

    def of(what: str, *words: str) -> list[tuple[Labels, float]]:
        return [((flow, word), counts.get((f"{what}:{word}", flow), 0)) for flow in flows for word in words]

    def of_one(name: str) -> list[tuple[Labels, float]]:
        return [((flow,), counts.get((name, flow), 0)) for flow in flows]

    yield gauge("holdfast_runs", "Runs that have not ended, by flow and status.", ("flow", "status"), of("runs", *STATUSES))
    yield gauge(
        "holdfast_runs_listed",
        "Runs on the server, by the index that lists them: live (queued and running), interrupted, stopped, completed, errored.",
        ("index",),
        [((index,), size) for index, size in gathered.look.listed.items()],
    )
    yield counter("holdfast_runs_submitted", "Runs that were submitted.", ("flow",), of_one("moves:submitted"))
    yield counter(
        "holdfast_runs_ended",
        "Runs that ended, completed or errored; one that is retried may end again.",
        ("flow", "status"),
        of("runs", *ENDED),
    )
    yield counter(
        "holdfast_runs_unfinished",
        "Runs that ended as their cycles were used up; they count as completed in holdfast_runs_ended, too.",
        ("flow",),
        of_one("moves:unfinished"),
    )
    yield counter("holdfast_runs_stopped", "Runs that were stopped, by the mode that was asked for.", ("flow", "mode"), of("stops", *MODES))
    yield counter(
        "holdfast_recoveries",
        "Rounds taken from their worker: it went silent, once (freed) or again (delayed), or the round passed its limit (overran).",
        ("flow", "kind"),
        of("moves", *RECOVERIES),
    )
    yield counter(
        "holdfast_provider_waits",
        "Rounds that found their provider busy or away, and wait for it; no attempt is counted.",
        ("flow",),
        of_one("moves:provider_waits"),
    )
    yield counter("holdfast_messages_resent", "Messages that were lost on their way and sent again.", ("flow",), of_one("moves:resent"))
    yield counter(
        "holdfast_questions_expired",
        "Questions that nobody answered before their deadline; the run went on with the default.",
        ("flow",),
        of_one("moves:answered"),
    )


def _counts(gathered: Gathered) -> dict[tuple[str, str], float]:
    """``(WHAT:WORD, flow)`` to its count."""
    found = {}
    for name, text in gathered.look.queues.items():
        what, _, rest = name.partition(":")
        word, colon, flow = rest.partition(":")
        amount = number(text)
        if what in ("runs", "stops", "moves") and colon and amount is not None:
            found[f"{what}:{word}", flow] = amount
    return found
