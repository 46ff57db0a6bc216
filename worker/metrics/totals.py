"""The totals that workers have counted, from the hash of the metrics."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from perdure.worker.metrics.families import Labels

#: Amounts by labels, by the total's name.
Figures = Mapping[str, Mapping[Labels, float]]


def figures_of(totals: Mapping[str, str], sizes: Mapping[str, int]) -> Figures:
    """Return the amounts of the totals that ``sizes`` names, by label values.

    A total without an entry in the hash has no amounts. An entry that cannot be parsed is ignored,
    because another program wrote it.

    Args:
        totals: The hash of the metrics: amounts by field. A field is a JSON array of the total's
            name and its label values.
        sizes: The number of labels of each total, by the total's name.
    """
    figures: dict[str, dict[Labels, float]] = defaultdict(dict)
    for field, text in totals.items():
        try:
            name, *labels = json.loads(field)
            amount = float(text)
        except (ValueError, TypeError, RecursionError):
            continue
        if _is_whole(name, labels, sizes) and text.isascii() and 0 <= amount < math.inf:
            figures[name][tuple(labels)] = amount
    return figures


def _is_whole(name: object, labels: Sequence[object], sizes: Mapping[str, int]) -> bool:
    return (
        isinstance(name, str)
        and sizes.get(name) == len(labels)
        and all(isinstance(label, str) for label in labels)
    )
