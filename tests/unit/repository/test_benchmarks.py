"""The benchmarks' use of their figures: medians, spreads, ratios within passes, tables, and the
stored data.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks import latency, rounds, workers
from benchmarks.measure import Measure, best, percentile, ratio
from benchmarks.parts import PARTS, part
from benchmarks.report import Options, Report, matrix, number, table
from benchmarks.sides.registry import BASE, sides
from benchmarks.work import SIZES, state_after

pytestmark = pytest.mark.slow  # no run depends on it

SLOW_THIRD_PASS = (100.0, 110.0, 30.0)


def test_the_median_and_the_spread_are_those_of_the_passes() -> None:
    measure = Measure("rounds", "rounds/s", (90.0, 100.0, 130.0))
    assert measure.median == 100
    assert (measure.low, measure.high) == (90, 130)
    assert measure.spread == pytest.approx(0.4)


def test_a_measure_without_a_value_is_refused() -> None:
    with pytest.raises(ValueError, match="rounds has no value"):
        Measure("rounds", "rounds/s", ())


def test_a_ratio_is_taken_within_each_pass() -> None:
    """The machine was three times as slow in the last pass, for both; the ratio of the medians
    would be 1.82.
    """
    ours, theirs = (
        Measure("ours", "1", (200.0, 220.0, 60.0)),
        Measure("theirs", "1", SLOW_THIRD_PASS),
    )
    assert ratio(ours, theirs) == 2
    drifted = Measure("drifted", "1", (200.0, 60.0, 220.0))
    assert ratio(drifted, theirs) == 2
    assert drifted.median / theirs.median == 2
    assert ratio(Measure("a", "1", (1.0, 10.0, 12.0)), Measure("b", "1", (1.0, 20.0, 3.0))) == 1


def test_measures_of_other_passes_do_not_compare() -> None:
    with pytest.raises(ValueError, match="ours has 2 passes and theirs 3"):
        ratio(Measure("ours", "1", (1.0, 2.0)), Measure("theirs", "1", SLOW_THIRD_PASS))


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert percentile(values[::-1], 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile([7.0], 0.99) == 7
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_the_best_is_the_one_with_the_greatest_median() -> None:
    lucky = Measure("lucky", "1", (1.0, 1.0, 9.0))
    assert best([lucky, Measure("steady", "1", (2.0, 2.0, 2.0))]).name == "steady"


def test_numbers_have_the_digits_that_mean_something() -> None:
    assert [number(value) for value in (12345.6, 98.76, 1.234, 0.01234, 0.0, float("nan"))] == [
        "12,346",
        "98.8",
        "1.23",
        "0.0123",
        "0.00",
        "-",
    ]


def test_a_table_is_aligned() -> None:
    assert table([("side", "n"), ("a", "10"), ("longer", "5")], right=(1,)) == [
        "side     n",
        "a       10",
        "longer   5",
    ]


def a_report() -> Report:
    ours = Measure("rounds: ours", "rounds/s", (200.0, 220.0, 60.0), "rounds: theirs")
    theirs = Measure("rounds: theirs", "rounds/s", SLOW_THIRD_PASS)
    return Report(
        "rounds",
        "About.",
        [ours, theirs],
        missing={"another": "it is not installed"},
        notes=["A note."],
    )


def test_a_report_shows_medians_ratios_and_what_is_missing() -> None:
    lines = a_report().text().splitlines()
    assert lines[0] == "About."
    assert lines[2].split() == [
        "rounds:",
        "ours",
        "200",
        "60.0",
        "220",
        "rounds/s",
        "2.00",
        "rounds:",
        "theirs",
    ]
    assert lines[-2:] == ["missing: another: it is not installed", "A note."]


def test_a_matrix_has_one_line_a_side() -> None:
    assert matrix(a_report()).splitlines()[1:] == [
        "        rounds (rounds/s)",
        "ours           200 (2.00)",
        "theirs                100",
    ]


def test_a_report_is_stored_with_what_its_figures_depend_on(tmp_path: Path) -> None:
    path = a_report().store(Options(passes=3, into=tmp_path / "new"))
    stored = json.loads(path.read_text())
    assert path.name == "rounds.json"
    assert stored["measures"][0] == {
        "name": "rounds: ours", "unit": "rounds/s", "median": 200, "spread": 0.8, "values": [200, 220, 60],
        "base": "rounds: theirs", "ratio": 2,
    }  # fmt: skip
    assert stored["passes"] == 3 and stored["machine"]["cores"] == os.cpu_count()
    assert stored["packages"]["celery"]
    assert str(tmp_path) not in path.read_text() and str(Path.cwd()) not in path.read_text()


def test_a_base_that_was_not_measured_gives_no_ratio() -> None:
    report = Report("alone", "About.", [Measure("ours", "1", (1.0,), "theirs")])
    assert report.ratio_of(report.find("ours")) is None


def test_states_are_of_the_size_that_is_asked_for_and_no_two_are_equal() -> None:
    states = [state_after(done, size) for size in SIZES for done in range(30)]
    assert {len(state) for state in states} == set(SIZES)
    assert len(set(states)) == len(states)


def test_every_side_has_a_name_of_its_own_and_the_base_is_one_of_them() -> None:
    names = [side.name for side in sides()]
    assert len(set(names)) == len(names)
    assert {BASE, *rounds.MAIN, *latency.SIDES, *workers.SIDES} <= set(names)


def test_a_side_whose_package_is_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchmarks.sides.self_report.find_spec", lambda name: None)
    others = [side for side in sides() if side.name.startswith(("DBOS", "LangGraph"))]
    assert len(others) == 4
    assert all("pip install 'perdure[bench]'" in (side.missing() or "") for side in others)


@pytest.mark.parametrize("name", PARTS)
def test_every_part_that_is_listed_can_be_imported(name: str) -> None:
    assert callable(part(name))


def test_sides_are_chosen_by_name_or_pattern() -> None:
    chosen = [side.name for side in sides() if Options(only=(BASE, "restate*")).wants(side.name)]
    assert chosen == [BASE, "Restate, steps", "Restate, queued"]
    assert all(Options().wants(side.name) for side in sides())


def rates(**values: float) -> Report:
    names = {
        "ours": "Perdure, threads",
        "base": BASE,
        "solo": "Celery, solo, late acks",
        "early": "Celery, solo, early acks",
    }
    measures = [
        Measure(f"rounds, 500 bytes: {names[key]}", "rounds/s", (value, value))
        for key, value in values.items()
    ]
    return Report("rounds", "About.", measures)


def test_an_aim_is_held_against_the_best_setting_that_its_pattern_fits() -> None:
    assert rounds.verdicts(rates(ours=600.0, base=100.0, solo=300.0, early=900.0), "500 bytes") == [
        f"Perdure, threads: 6.00 x {BASE}; aim 5: reached",
        "Perdure, threads: 2.00 x Celery, solo, late acks; aim 2.5: NOT reached",
    ]


def test_an_aim_whose_sides_were_not_measured_is_not_told() -> None:
    assert (
        rounds.verdicts(rates(ours=600.0), "500 bytes")
        == rounds.verdicts(rates(base=600.0), "500 bytes")
        == []
    )


def test_a_hop_is_held_against_the_base_and_against_the_fastest() -> None:
    hops = {"Perdure, threads": 1.0, BASE: 4.0, "Celery, solo, late acks": 2.0}
    report = Report(
        "latency",
        "About.",
        [Measure(f"hop, p50: {name}", "ms", (value,)) for name, value in hops.items()],
    )
    assert latency.verdicts(report) == [
        f"Perdure, threads: a hop takes 0.25 of that of {BASE}; aim at most 0.35",
        "Perdure, threads: a hop takes 0.50 of that of Celery, solo, late acks; aim at most 0.35",
    ]
