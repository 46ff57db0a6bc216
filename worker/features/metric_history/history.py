"""MetricHistory: sums of the metrics of rounds, for each of the equal parts of a time span."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Histograms, each with the field of a part that counts all its buckets.
_COUNTS = {"waited": "waits"}
#: Amounts that a part stores by their first label: the flow or the queue's role.
_SUMS = frozenset({"rounds", "took_ms", "waited_ms"})
#: Kinds of spending that a part stores.
_SPENT = frozenset({"tokens", "money"})

Amounts = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class MetricHistory:
    """The sums of a span (an hour, a day or a week), oldest part first.

    Attributes:
        begins: The time at which each part begins, in ms of the state server's clock.
        parts: The sums of each part, by name (such as ``rounds``) and label. The label is a flow or
            the role of a queue.
    """

    begins: Sequence[int]
    parts: Sequence[Amounts]

    def of(self, name: str) -> dict[str, list[float]]:
        """Return the sums with this name, by label: one number for each part, 0 if it has none."""
        labels = sorted({label for part in self.parts for what, label in part if what == name})
        return {label: [part.get((name, label), 0) for part in self.parts] for label in labels}


def summed(amounts: Mapping[tuple[str, ...], float]) -> dict[tuple[str, str], float]:
    """Convert the amounts of a worker's metrics to the sums that a part stores.

    Args:
        amounts: The amounts, by the total's name and labels. Amounts that no chart shows are left
            out.

    Returns:
        The sums, by name and label.
    """
    sums: dict[tuple[str, str], float] = defaultdict(int)
    for (name, label, *rest), amount in amounts.items():
        if name in _SUMS:
            sums[name, label] += amount
        elif name in _COUNTS:
            sums[_COUNTS[name], label] += amount
        elif name == "spent" and rest[0] in _SPENT:
            sums[rest[0], label] += amount
    return dict(sums)


def parsed(fields: Mapping[str, str]) -> Amounts:
    """Return the sums of a stored part, by name and label. Fields of another form are ignored."""
    amounts: dict[tuple[str, str], float] = {}
    for field, text in fields.items():
        try:
            name, label = json.loads(field)
            amount = float(text)
        except (ValueError, TypeError, RecursionError):
            continue
        if isinstance(name, str) and isinstance(label, str) and 0 <= amount < math.inf:
            amounts[name, label] = amount
    return amounts
