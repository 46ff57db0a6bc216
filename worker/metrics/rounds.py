"""Rounds: what workers added up of the rounds that they played (worker/figures.py)."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import Metric
from prometheus_client.core import HistogramMetricFamily

from worker.figures import LABELS
from worker.metrics.families import Labels, counter, written
from worker.metrics.gathering import Gathered

#: How many labels a figure has, by its name.
SIZES = {"rounds": 3, "took": 3, "took_ms": 2, "waited": 2, "waited_ms": 1, "spent": 2}
Told = Mapping[str, Mapping[Labels, float]]


def families(gathered: Gathered) -> Iterator[Metric]:
    """Of the rounds of all workers, the ones that are gone too."""
    told = _told(gathered.look.rounds)
    yield counter(
        "holdfast_rounds",
        "Rounds played, by what came of them: the word of the commit, such as continued, completed, interrupted, waiting (failed, to be "
        "tried again), errored, stopped, queued (given back), fenced (too late, refused).",
        ("flow", "node", "outcome"),
        sorted(told["rounds"].items()),
    )
    yield _histogram(
        "holdfast_round_duration_seconds",
        "How long a round took from its claim until its result was there.",
        ("flow", "node"),
        told["took"],
        told["took_ms"],
    )
    yield _histogram(
        "holdfast_round_wait_seconds",
        "How long a round had been queued when it was claimed.",
        ("queue",),
        told["waited"],
        told["waited_ms"],
    )
    yield counter(
        "holdfast_tokens",
        "Tokens that models read (input) and wrote (output), as their providers counted them; unspecified where a flow told only a sum.",
        ("flow", "kind"),
        _tokens(told["spent"]),
    )
    yield counter("holdfast_model_requests", "Requests to models.", ("flow",), _spent(told["spent"], "requests"))
    yield counter(
        "holdfast_cost_dollars",
        "US dollars that models cost, by the model library's price list.",
        ("flow",),
        _spent(told["spent"], "money"),
    )


def _told(rounds: Mapping[str, str]) -> Told:
    """Name to labels to amount; what does not read was written by somebody else."""
    found: dict[str, dict[Labels, float]] = defaultdict(dict)
    for field, text in rounds.items():
        try:
            name, *labels = json.loads(field)
            amount = float(text)
        except (ValueError, TypeError, RecursionError):
            continue
        if is_whole(name, labels) and text.isascii() and 0 <= amount < math.inf:
            found[name][tuple(labels)] = amount
    return found


def is_whole(name: object, labels: Sequence[object]) -> bool:
    """Whether it is a figure's name, with as many labels as it has."""
    return isinstance(name, str) and SIZES.get(name) == len(labels) and all(isinstance(label, str) for label in labels)


def _histogram(
    name: str, text: str, labels: Sequence[str], buckets: Mapping[Labels, float], sums: Mapping[Labels, float]
) -> HistogramMetricFamily:
    """Cumulative, as Prometheus wants it; sums are in ms."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for of in sorted({key[:-1] for key in buckets}):
        total, cumulative = 0.0, []
        for bound in LABELS:
            total += buckets.get((*of, bound), 0)
            cumulative.append((bound, total))
        family.add_metric(written(of), cumulative, sums.get(of, 0) / 1000)
    return family


def _spent(spent: Mapping[Labels, float], name: str) -> list[tuple[Labels, float]]:
    return sorted(((flow,), amount) for (flow, what), amount in spent.items() if what == name)


def _tokens(spent: Mapping[Labels, float]) -> list[tuple[Labels, float]]:
    found: list[tuple[Labels, float]] = []
    for flow in sorted({flow for flow, what in spent if what.endswith("tokens")}):
        read, wrote = (spent.get((flow, f"{kind}_tokens"), 0) for kind in ("input", "output"))
        rest = max(0, spent.get((flow, "tokens"), 0) - read - wrote)
        found += [((flow, "input"), read), ((flow, "output"), wrote), ((flow, "unspecified"), rest)]
    return found
