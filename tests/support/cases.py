"""Tables of cases, each table played by one test: all its cases run, and all that fail are listed.

The fixture ``each_case`` plays them. ``pytest TEST --case NAME`` plays the case of that name alone,
and shows the whole traceback if it fails. With ``-x``, a table ends at its first failure.
"""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

#: Case by name: the values that its check gets.
Cases = Mapping[str, tuple[Any, ...]]

TESTS = Path(__file__).parents[1]
#: Under this name, a report has the number of cases that its test played.
PLAYED = "cases"
#: A longer value is cut in the name of its case.
LONGEST_NAME = 60
#: Lines of each error in the list. A case that is played alone shows all.
ERROR_LINES = 12
#: In the failure by which pytest-timeout ends a test: it ends the table, too.
OUT_OF_TIME = "from pytest-timeout"


class EachCase:
    """Player of tables of cases for one test.

    Args:
        test: id of the test, for the command that plays one case.
        chosen: names of the only cases to play. Empty: all cases.
        stops: whether the first failure ends the table.
    """

    def __init__(self, test: str = "TEST", chosen: Sequence[str] = (), stops: bool = False) -> None:
        self.test, self.chosen, self.stops = test, chosen, stops
        self.played = 0

    def __call__(self, cases: Cases, check: Callable[..., object]) -> None:
        """Call the check with the values of each case, and fail with the name of each failing case.

        Only the errors of failing cases are collected. An interrupt or an exit ends the test at
        once.
        """
        if not cases:
            pytest.fail("the table has no cases", pytrace=False)
        if self.chosen:
            for name in self.chosen:
                values = _case(cases, name)
                self.played += 1
                check(*values)
            return
        failures: dict[str, str] = {}
        played = 0
        for name, values in cases.items():
            played += 1
            try:
                check(*values)
            except pytest.skip.Exception as skip:
                failures[name] = f"a case cannot skip; leave it out of the table: {skip}"
            except (Exception, pytest.fail.Exception) as error:
                failures[name] = _summary_of(error)
                if self.stops or OUT_OF_TIME in str(error):
                    break
        self.played += played
        if failures:
            pytest.fail(self._report(failures, played, len(cases)), pytrace=False)

    def _report(self, failures: Mapping[str, str], played: int, total: int) -> str:
        of = f"{total} cases" if played == total else f"{played} cases played, of {total},"
        alone = ["python", "-m", "pytest", self.test, "--case", next(iter(failures))]
        return "\n".join(
            [
                f"{len(failures)} of {of} failed: {', '.join(map(repr, failures))}",
                *(f"--- {name}\n{error}" for name, error in failures.items()),
                f"One alone, with its traceback: {shlex.join(alone)}",
            ]
        )


def _case(cases: Cases, name: str) -> tuple[Any, ...]:
    if name not in cases:
        near = get_close_matches(name, cases, n=3) or list(cases)[:3]
        pytest.fail(f"no case is named {name!r}; near: {', '.join(map(repr, near))}", pytrace=False)
    return cases[name]


def _summary_of(error: BaseException) -> str:
    """Return an error as the list shows it: its way through the tests, then its first lines."""
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first one is the loop's own
    places = [(Path(frame.filename), frame.lineno) for frame in frames]
    way = [f"{path.name}:{line}" for path, line in places if path.is_relative_to(TESTS)]
    lines = "".join(traceback.format_exception_only(error)).rstrip().splitlines()
    more = len(lines) - ERROR_LINES
    rest = [f"... {more} more lines"] if more > 0 else []
    return "\n".join([" > ".join(way), *lines[:ERROR_LINES], *rest])


def cases_of(*columns: Iterable[Any]) -> dict[str, tuple[Any, ...]]:
    """Return each combination of the columns' values, by a name that consists of the values."""
    return cases_named((", ".join(map(name_of, values)), values) for values in product(*columns))


def cases_named(cases: Iterable[tuple[str, tuple[Any, ...]]]) -> dict[str, tuple[Any, ...]]:
    """Return the cases by name.

    Raises:
        ValueError: two cases have the same name, so that one would be lost.
    """
    named: dict[str, tuple[Any, ...]] = {}
    for name, values in cases:
        if name in named:
            raise ValueError(f"two cases are named {name!r}")
        named[name] = values
    return named


def name_of(value: Any) -> str:
    """Return a value as a case's name has it: one line, short, the same in each process.

    Raises:
        TypeError: the value has no such name; give the case one by `cases_named`.
    """
    if isinstance(value, type | FunctionType):
        return value.__name__
    if not isinstance(value, str | bytes | int | float | None):
        raise TypeError(f"a case needs a name: {value!r}")
    plain = isinstance(value, str) and value.isprintable() and value == value.strip() != ""
    text = value if plain else repr(value)
    assert isinstance(text, str)
    if len(text) <= LONGEST_NAME:
        return text
    return f"{text[:LONGEST_NAME]}... ({len(text)} characters)"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--case",
        action="append",
        default=[],
        metavar="NAME",
        help="of a test that plays a table of cases, only the case of this name",
    )


@pytest.fixture
def each_case(request: pytest.FixtureRequest) -> Iterator[EachCase]:
    """Play each case of a table: ``each_case(cases, check)``."""
    option = request.config.getoption
    made = EachCase(request.node.nodeid, option("--case"), stops=option("maxfail") == 1)
    yield made
    request.node.user_properties.append((PLAYED, made.played))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == PLAYED and report.when == "teardown"
    ]
    if counts:
        terminalreporter.write_line(f"{sum(counts)} cases in {len(counts)} tests with a table")
