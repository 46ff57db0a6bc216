"""Tables on narrow terminals."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from perdure.worker.cli.output import drawn
from tests.support.cases import EachCase, cases_of

COLUMNS = ("worker", "state", "role", "busy", "flows")
ROWS = (
    (
        "vm:31079",
        "draining",
        "all",
        "0 of 16 threads",
        "CtrlEx, bisect, countdown, human_feedback, memory, question",
    ),
)


def lines(rows: tuple[tuple[str, ...], ...], width: int) -> list[str]:
    console = Console(file=StringIO(), width=width, highlight=False)
    console.print(drawn(COLUMNS, rows, "flows", ("role", "busy"), width))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def test_a_column_is_there_whole_or_was_spared_and_only_one_gives_way(
    each_case: EachCase,
) -> None:
    def check(width: int) -> None:
        head, row = lines(ROWS, width)
        assert len(row) <= width and len(head) <= width
        assert "vm:31079  draining  " in row and "state" in head, "these never go"
        assert ("0 of 16 threads" in row) == ("busy" in head)
        assert ("all" in row.split()) == ("role" in head.split())
        assert "role" not in head or "busy" in head, "the first named goes first"
        assert ("busy" in head) == (width >= 45) and ("role" in head) == (width >= 51)
        if width >= 51:
            assert ROWS[0][-1] in row or len(row) == width, "what room there is, is used"

    each_case(cases_of(range(28, 130)), check)


def test_letters_that_take_two_cells_are_counted_as_two() -> None:
    rows = (("工人", "alive", "all", "0 of 16 threads", "倒数" * 40), *ROWS)
    for width in (40, 60, 100):
        console = Console(width=width)
        assert all(console.measure(line).maximum <= width for line in lines(rows, width))
        assert any("工人" in line for line in lines(rows, width))
