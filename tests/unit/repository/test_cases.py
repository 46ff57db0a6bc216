"""A table of cases that one test plays loses no case and no failure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pytest_timeout import PYTEST_FAILURE_MESSAGE

from tests.support.cases import ERROR_LINES, LONGEST_NAME, EachCase, cases_named, cases_of

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
NUMBERS = cases_of(range(5))


def even(number: int) -> None:
    assert number % 2 == 0, f"{number} is odd"


def report_of(
    check: object, chosen: Sequence[str] = (), stops: bool = False, cases: object = NUMBERS
) -> str:
    """Return the text of a table's failure."""
    each_case = EachCase("a.py::test[valkey]", chosen, stops)
    with pytest.raises(pytest.fail.Exception) as failed:
        each_case(cases, check)  # type: ignore[arg-type]
    return str(failed.value)


def test_every_case_is_played_and_counted(each_case: EachCase) -> None:
    seen: list[int] = []
    each_case(NUMBERS, seen.append)
    assert seen == list(range(5)) and each_case.played == 5


def test_all_failures_are_reported_by_name_and_how_to_play_one() -> None:
    report = report_of(even)
    assert report.startswith("2 of 5 cases failed: '1', '3'\n")
    assert report.count("1 is odd") == report.count("3 is odd") == 1 and "2 is odd" not in report
    assert f"test_cases.py:{even.__code__.co_firstlineno + 1}" in report
    assert "python -m pytest 'a.py::test[valkey]' --case 1" in report


def test_an_error_and_what_was_not_raised_are_failures_too() -> None:
    def check(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            1 / number
        {0: 0}[number]

    report = report_of(check)
    assert report.startswith("4 of 5 cases failed: '1', '2', '3', '4'\n")
    assert report.count("DID NOT RAISE") == 4
    assert "KeyError: 7" in report_of(lambda number: {}[7])


def test_a_case_that_skips_is_a_failure_and_hides_no_other() -> None:
    def check(number: int) -> None:
        if number == 1:
            pytest.skip("not here")
        even(number)

    report = report_of(check)
    assert report.startswith("2 of 5 cases failed: '1', '3'\n") and "not here" in report


def test_a_table_without_cases_is_a_failure() -> None:
    assert report_of(even, cases={}) == "the table has no cases"


def test_one_case_is_played_alone_and_raises_its_own_error() -> None:
    seen: list[int] = []
    EachCase(chosen=["3"])(NUMBERS, seen.append)
    assert seen == [3]
    with pytest.raises(AssertionError, match="3 is odd"):
        EachCase(chosen=["3"])(NUMBERS, even)


def test_a_name_that_no_case_has_is_a_failure_with_the_nearest_names() -> None:
    cases = cases_of(["claiming", "ending"])
    assert report_of(even, ["claimin"], cases=cases) == (
        "no case is named 'claimin'; near: 'claiming'"
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_the_test_at_once(error: type[BaseException]) -> None:
    seen: list[int] = []

    def check(number: int) -> None:
        seen.append(number)
        raise error

    with pytest.raises(error):
        EachCase()(NUMBERS, check)
    assert seen == [0]


def test_the_first_failure_ends_the_table_where_it_ends_the_session() -> None:
    assert report_of(even, stops=True).startswith("1 of 2 cases played, of 5, failed: '1'\n")


def test_the_time_limit_of_the_test_ends_its_table() -> None:
    """It is set once a test, so it would not end the cases that follow."""

    def check(number: int) -> None:
        if number == 2:
            pytest.fail(PYTEST_FAILURE_MESSAGE % 120)
        even(number)

    report = report_of(check)
    assert report.startswith("2 of 3 cases played, of 5, failed: '1', '2'\n")


def test_a_long_error_is_cut() -> None:
    def check(number: int) -> None:
        pytest.fail("\n".join("line" for _ in range(ERROR_LINES + 7)) if number == 1 else "short")

    report = report_of(check)
    assert report.count("line\n") == ERROR_LINES and "... 7 more lines\n--- 2\n" in report


def test_no_two_cases_have_one_name() -> None:
    with pytest.raises(ValueError, match="two cases are named 'a, 1'"):
        cases_of(["a", "a"], [1])
    with pytest.raises(ValueError, match="two cases are named 'a'"):
        cases_named([("a", ()), ("a", ())])


def test_a_name_is_one_line_and_the_same_in_each_process() -> None:
    long = "9" * 2 * LONGEST_NAME
    values = ["plain", "", " x", "two\nlines", None, 1.5, b"\xff", long, EachCase, even]
    assert list(cases_of(values)) == [
        "plain", "''", "' x'", r"'two\nlines'", "None", "1.5", r"b'\xff'",
        f"{long[:LONGEST_NAME]}... ({len(long)} characters)", "EachCase", "even",
    ]  # fmt: skip
    with pytest.raises(TypeError, match="needs a name"):
        cases_of([object()])


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ((), ["2 of 5 cases failed: '1', '3'", "5 cases in 1 tests with a table"]),
        (("--case", "3"), ["assert (3 % 2) == 0", "1 cases in 1 tests with a table"]),
        (("--case", "4"), ["1 cases in 1 tests with a table"]),
        (("-x",), ["1 of 2 cases played, of 5, failed: '1'"]),
    ],
)
def test_the_options_of_pytest_reach_the_table(
    option: Sequence[str],
    expected: Sequence[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "test_table.py").write_text(
        "from tests.support.cases import cases_of\n"
        "def even(number):\n    assert number % 2 == 0\n"
        "def test_table(each_case):\n    each_case(cases_of(range(5)), even)\n"
    )
    # A separate time limit would replace this test's.
    quiet = ["-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    options = ["-c", str(PYPROJECT), "--timeout", "0", "-p", "tests.support.cases", *quiet]
    code = pytest.main([*options, *option, str(tmp_path)])
    output = capsys.readouterr().out
    assert all(text in output for text in expected), output
    assert code == (0 if option == ("--case", "4") else 1)
