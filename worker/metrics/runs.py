"""Metrics of runs: counts of their transitions (parts/counters.lua), and lengths of their lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import Metric

from perdure.worker.metrics.families import Labels, counter, gauge, number
from perdure.worker.metrics.gather import MetricsSnapshot

#: Label values of the counts, by kind.
STATUSES = ("queued", "running", "interrupted", "stopped")
ENDED = ("completed", "errored")
MODES = ("graceful", "now")
#: Outcomes of sweeps for a run whose round was lost or exceeded its limit.
RECOVERIES = ("freed", "delayed", "overran")
CHILD_EVENTS = ("started", "completed", "errored", "stopped")


@dataclass(frozen=True)
class FlowCounts:
    """Counts of runs and their transitions, for metrics.

    Attributes:
        flows: All flows. A flow without a count has samples of 0.
        amounts: The counts, by a name such as ``runs:queued`` and a flow.
    """

    flows: list[str]
    amounts: dict[tuple[str, str], float]

    def sample(self, name: str) -> list[tuple[Labels, float]]:
        """Return one sample for each flow.

        Args:
            name: The name of the count, such as ``moves:resent``.

        Returns:
            Pairs of the label (flow) and the count. A missing count is 0.
        """
        return [((flow,), self.amounts.get((name, flow), 0)) for flow in self.flows]

    def sample_by_label(self, what: str, *label_values: str) -> list[tuple[Labels, float]]:
        """Return one sample for each pair of a flow and a label value.

        Args:
            what: The part of the counts' names before the colon, such as ``runs`` in
                ``runs:queued``. The part after the colon is the label value.

        Returns:
            Pairs of the labels (flow, label value) and the count. A missing count is 0.
        """
        return [
            ((flow, label_value), self.amounts.get((f"{what}:{label_value}", flow), 0))
            for flow in self.flows
            for label_value in label_values
        ]


def families(gathered: MetricsSnapshot) -> Iterator[Metric]:
    """Yield the Prometheus metrics of runs: their number by status, and counts of events."""
    counts = _counts(gathered)
    yield from _yield_sizes(counts, gathered)
    yield from _yield_beginnings_and_ends(counts)
    yield from _yield_recoveries_and_waits(counts)
    yield from _yield_communication(counts)


def _yield_sizes(counts: FlowCounts, gathered: MetricsSnapshot) -> Iterator[Metric]:
    """Yield the number of runs by status, and by the index that lists them."""
    yield gauge(
        "perdure_runs",
        "Runs that have not ended, by flow and status.",
        ("flow", "status"),
        counts.sample_by_label("runs", *STATUSES),
    )
    yield gauge(
        "perdure_runs_parked",
        "Runs whose node waits for a time, a signal or child runs; "
        "perdure_runs counts them as running, too.",
        ("flow",),
        counts.sample("runs:parked"),
    )
    yield gauge(
        "perdure_runs_listed",
        "Runs on the server, by the index that lists them: live (queued and running), "
        "interrupted, stopped, completed, errored.",
        ("index",),
        [((index,), size) for index, size in gathered.look.listed.items()],
    )


def _yield_beginnings_and_ends(counts: FlowCounts) -> Iterator[Metric]:
    """Yield how many runs were submitted, ended or stopped."""
    yield counter(
        "perdure_runs_submitted",
        "Runs that were submitted.",
        ("flow",),
        counts.sample("moves:submitted"),
    )
    yield counter(
        "perdure_runs_ended",
        "Runs that ended, completed or errored; a retried run may end again.",
        ("flow", "status"),
        counts.sample_by_label("runs", *ENDED),
    )
    yield counter(
        "perdure_runs_unfinished",
        "Runs that ended because their cycles were used up; "
        "perdure_runs_ended counts them as completed, too.",
        ("flow",),
        counts.sample("moves:unfinished"),
    )
    yield counter(
        "perdure_runs_stopped",
        "Runs that were stopped, by the requested mode.",
        ("flow", "mode"),
        counts.sample_by_label("stops", *MODES),
    )


def _yield_recoveries_and_waits(counts: FlowCounts) -> Iterator[Metric]:
    """Yield counts of recoveries, waits and parked rounds."""
    yield counter(
        "perdure_recoveries",
        "Rounds taken from their worker: it went silent, once (freed) or again (delayed), "
        "or the round passed its limit (overran).",
        ("flow", "kind"),
        counts.sample_by_label("moves", *RECOVERIES),
    )
    yield counter(
        "perdure_provider_waits",
        "Rounds that wait because their provider is busy or away; no attempt is counted.",
        ("flow",),
        counts.sample("moves:provider_waits"),
    )
    yield counter(
        "perdure_code_waits",
        "Rounds that wait because the worker's code does not fit the run; no attempt is counted.",
        ("flow",),
        counts.sample("moves:code_waits"),
    )
    yield counter(
        "perdure_parks",
        "Rounds that ended because their node waits for a time, a signal or child runs.",
        ("flow",),
        counts.sample("moves:parked"),
    )


def _yield_communication(counts: FlowCounts) -> Iterator[Metric]:
    """Yield counts of signals, child runs, lost messages and expired questions."""
    yield counter(
        "perdure_signals",
        "Signals that were stored in a run's mailbox.",
        ("flow",),
        counts.sample("moves:signalled"),
    )
    yield counter(
        "perdure_child_runs",
        "Child runs that were started, and that completed, errored or were stopped; a continued "
        "one may end again.",
        ("flow", "event"),
        counts.sample_by_label("children", *CHILD_EVENTS),
    )
    yield counter(
        "perdure_messages_resent",
        "Messages that were lost on their way and sent again.",
        ("flow",),
        counts.sample("moves:resent"),
    )
    yield counter(
        "perdure_questions_expired",
        "Questions without an answer before their deadline; the run continued with the default.",
        ("flow",),
        counts.sample("moves:answered"),
    )


def _counts(gathered: MetricsSnapshot) -> FlowCounts:
    """Return the counts of runs and transitions that Lua scripts have stored."""
    counts = {}
    for name, text in gathered.look.queues.items():
        what, _, rest = name.partition(":")
        word, colon, flow = rest.partition(":")
        amount = number(text)
        if what in ("runs", "stops", "moves", "children") and colon and amount is not None:
            counts[f"{what}:{word}", flow] = amount
    return FlowCounts(sorted({*gathered.flows, *(flow for _, flow in counts)}), counts)
