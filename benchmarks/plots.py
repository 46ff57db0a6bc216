"""Plots of a report, if matplotlib is installed. It is in the extra ``bench``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from benchmarks.measure import Measure
from benchmarks.report import Options, Report

#: Colours: ours, the others'.
OURS, OTHERS = "#2a6f97", "#b8b8b8"


def plot(report: Report, options: Options) -> str:
    """Draw ``NAME.svg`` beside the figures. Return a word about it."""
    if find_spec("matplotlib") is None:
        return "no plot: matplotlib is missing (pip install 'perdure[bench]')"
    if not report.measures:
        return "no plot: nothing was measured"
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = "perdure"  # the same figures give the same file
    if report.draw is not None:
        figure = pyplot.figure(figsize=(9, 5))
        report.draw(figure)
    else:
        figure = _chart(pyplot, report)
    figure.suptitle(report.name)
    figure.tight_layout()
    figure.savefig(options.into / f"{report.name}.svg", metadata={"Date": None})
    pyplot.close(figure)
    return f"plot in {report.name}.svg"


def _chart(pyplot: Any, report: Report) -> Any:
    """Draw bars, with those of one unit side by side."""
    units = list(dict.fromkeys(measure.unit for measure in report.measures))
    groups = [[measure for measure in report.measures if measure.unit == unit] for unit in units]
    heights = [0.4 + 0.3 * len(group) for group in groups]
    figure, axes = pyplot.subplots(
        len(groups),
        1,
        squeeze=False,
        figsize=(9, sum(heights) + 0.8 * len(groups)),
        height_ratios=heights,
    )
    for axis, group in zip(axes[:, 0], groups, strict=True):
        bars(axis, {measure.name: measure for measure in group}, group[0].unit)
    return figure


def bars(axis: Any, measures: Mapping[str, Measure], label: str) -> None:
    """Draw one bar for each measure. A line goes from the least to the greatest of its passes."""
    several = list(measures.values())
    reach = [[one.median - one.low for one in several], [one.high - one.median for one in several]]
    colours = [OURS if "perdure" in name.lower() else OTHERS for name in measures]
    axis.barh(
        list(measures),
        [one.median for one in several],
        xerr=reach,
        color=colours,
        ecolor="#555555",
        capsize=2,
    )
    if not axis.yaxis_inverted():
        axis.invert_yaxis()
    axis.set_xlabel(label)
    axis.spines[["top", "right"]].set_visible(False)
