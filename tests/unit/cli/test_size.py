"""``perdure size`` computes the figures in the tables of docs/operations/sizing.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from perdure.worker.cli.commands.size import bytes_text, number_text, share_text, size_command
from perdure.worker.domain.size import DAY, FIGURES, Load, advice_on, size_of

PAGE = (Path(__file__).parents[3] / "docs/operations/sizing.md").read_text("utf-8")


def rows_of(begin: str) -> list[list[str]]:
    """Return the cells of the rows of the page's table whose first row begins so."""
    lines = PAGE[PAGE.index(begin) :].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


def test_the_measured_runs_are_those_of_the_page() -> None:
    rows = rows_of("| run | rounds | bytes, queued")
    for kind, (_, rounds, _, ended, written) in zip(
        ("workflow", "workflow", "agent"), rows, strict=True
    ):
        size = size_of(Load(1, 1, kind, int(rounds)))  # type: ignore[arg-type]
        assert size.run_bytes == pytest.approx(int(ended.replace(",", "")), rel=0.01)
        assert size.written_bytes_a_day == pytest.approx(int(written.replace(",", "")), rel=0.01)


def test_the_table_of_memory_is_what_the_command_computes() -> None:
    rows = rows_of("| runs a day | retention | 1 step")
    assert len(rows) == 8
    for runs, retention, *expected in rows:
        days = float(retention.split()[0])
        sizes = [
            size_of(Load(int(runs.replace(",", "")), days, kind, rounds, live=0)).memory_bytes
            for kind, rounds in (("workflow", 1), ("workflow", 10), ("agent", 21))
        ]
        assert [bytes_text(each - 10_000_000) for each in sizes] == expected, (runs, retention)


def test_the_table_of_rates_is_what_the_command_computes() -> None:
    for runs, average, peak, server, slots in rows_of("| runs a day | agents of 21 rounds"):
        size = size_of(Load(int(runs.replace(",", "")), 1))
        assert number_text(size.rounds_a_second) == average.replace(",", "")
        assert number_text(size.peak_rounds_a_second) == peak
        assert share_text(size.server_share) == server.replace(" of a core", "")
        assert size.slots == pytest.approx(int(slots.replace(",", "")), rel=0.05)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(size_command, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_the_command_prints_names_and_values_and_one_document_with_json() -> None:
    code, out, err = run("--runs", "100000", "--retention", "7d")
    assert code == 0 and "shorten the retention" not in err
    assert "memory of the runs: 29 GB: 100,000 a day, for 7 days, of 42,000 bytes" in out
    assert "CPU of the state server: 2.4 % of its one core at the peak" in out
    code, out, _ = run("--runs", "100000", "--retention", "7d", "--fsync", "always", "--json")
    told = json.loads(out)
    assert code == 0 and told["server_share"] == pytest.approx(122 * 0.00033, rel=0.01)
    assert told["advice"] == [] and told["slots"] == 244 and told["workers"] == 16


def test_what_was_measured_takes_the_place_of_the_figures() -> None:
    size = size_of(Load(1000, 10, run_bytes=84_000, live=500))
    assert size.memory_bytes == 1000 * 10 * 84_000 + 500 * 87_000 + 10_000_000
    assert size.written_bytes_a_day == pytest.approx(2 * 1000 * 114_000, rel=0.01)
    assert size.rounds == FIGURES["agent"].rounds and size.rounds_a_second == 1000 * 21 / DAY


def test_a_load_that_is_too_large_for_one_server_gets_advice() -> None:
    load = Load(3_000_000, 30)
    memory, servers = advice_on(load, size_of(load))
    assert "shorten the retention" in memory and "over 2 servers" in servers
    assert "shorten the retention" in run("--runs", "1000000")[2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "Missing option '--runs'"),
        (("--runs", "0"), "0 is not in the range x>=1"),
        (("--runs", "10", "--retention", "soon"), "'soon' is not a duration; expected 90s"),
        (("--runs", "10", "--kind", "job"), "is not one of 'workflow', 'agent'"),
        (("--runs", "10", "--peak", "0.5"), "is not in the range x>=1"),
    ],
)
def test_bad_input_says_what_was_expected(arguments: tuple[str, ...], expected: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2 and expected in re.sub(r"\s+", " ", err)


def test_the_example_of_the_page_is_what_the_command_prints() -> None:
    block = PAGE.partition("$ perdure size ")[2].partition("```")[0]
    arguments, _, printed = block.partition("\n")
    assert run(*arguments.split())[1] == printed
