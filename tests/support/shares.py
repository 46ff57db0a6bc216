"""``pytest --share K/N [--touched COMMIT]``: the share of the slow tests that CI has time for.

A table of two hundred cases is one rule, and playing it whole would take longer than CI has time
for. With ``--share`` alone, each Nth case from the Kth on is played, so that N commits in turn play
all. Tests that are marked as long are the cases of one table, of which twice as many are played.
Slow tests of few cases are one table as well, of which every second is played.
With ``--touched``, tests of code that changed since the commit play four times as many cases, and
all others half as many. If the change touches more than a third of the slow test files, it says
nothing about which cases matter, and each test plays its plain share. Tests of what users and
programs see (``ALWAYS``) are always played. ``make test-all`` plays all.

Files with long and slow tests begin first, so that no process is left alone with one at the end.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.module_imports import Imports

ROOT = Path(__file__).parents[2]
#: Slow tests with this number of cases or fewer are together one table.
FEW = 2
#: Every second case of that table is played.
EACH_OF_FEW = 2
#: Folders whose slow tests are all played.
ALWAYS = ("tests/golden/", "tests/e2e/golden/", "tests/fundamentals/")
#: How many times as many of the long tests are played.
LONG = 2
#: Cases of a touched test, as a multiple of its share.
MORE = 4
#: A change that touches more than this part of the slow test files is a change of everything.
MOST = 1 / 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share",
        metavar="K/N",
        help="of slow tests with many cases, only each Nth from the Kth on",
    )
    parser.addoption(
        "--touched",
        metavar="COMMIT",
        help="with --share: more cases of tests of what changed since COMMIT, fewer of the others",
    )


def share_of(text: str) -> tuple[int, int]:
    """Return the numbers of ``K/N``, with K from 0 on.

    Raises:
        UsageError: The text has another form.
    """
    first, _, each = text.partition("/")
    if not (first.isdecimal() and each.isdecimal() and int(each) > 0):
        raise pytest.UsageError(f"--share is {text!r}; expected K/N, such as 1/4")
    return int(first) % int(each), int(each)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    text = config.getoption("--share")
    if text:
        left_out = not_in_share(items, *share_of(text), config.getoption("--touched"))
        if left_out:
            config.hook.pytest_deselected(items=list(left_out))
            items[:] = [item for item in items if item not in left_out]
    items.sort(key=by_length(items))


def not_in_share(
    items: Sequence[pytest.Item], first: int, each: int, commit: str | None
) -> set[pytest.Item]:
    """Return the cases that the share ``first/each`` leaves out.

    Args:
        commit: Tests of code that changed since this commit play more cases.
    """
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    long: list[pytest.Item] = []
    for item in items:
        if item.nodeid.startswith(ALWAYS):
            continue
        if item.get_closest_marker("long") is not None:
            long.append(item)
        elif item.get_closest_marker("slow") is not None:
            cases[item.nodeid.partition("[")[0]].append(item)
    files = {file_of(item) for item in long} | {file_of(group[0]) for group in cases.values()}
    touched = touched_files(files, changed_files(commit)) if commit else None
    tables = [(each, group) for group in cases.values() if len(group) > FEW]
    few = [item for group in cases.values() if len(group) <= FEW for item in group]
    for each_of_all, tests in ((each // LONG, long), (min(each, EACH_OF_FEW), few)):
        tables.append((max(1, each_of_all), sorted(tests, key=lambda item: item.nodeid)))
    return {
        item
        for each_of_table, table in tables
        for place, item in enumerate(table)
        if not is_played(place, first, each_of_table, touched, file_of(item))
    }


def file_of(item: pytest.Item) -> str:
    """Return the path of a test's file."""
    return item.nodeid.partition("::")[0]


def by_length(items: Sequence[pytest.Item]) -> Callable[[pytest.Item], int]:
    """Return a sort key: files with long tests come first, then files with slow tests."""
    ranks: dict[str, int] = {}
    for item in items:
        marks = [item.get_closest_marker(name) is not None for name in ("long", "slow")]
        rank = 0 if marks[0] else 1 if marks[1] else 2
        ranks[file_of(item)] = min(rank, ranks.get(file_of(item), 2))
    return lambda item: ranks[file_of(item)]


def is_played(place: int, first: int, each: int, touched: set[str] | None, file: str) -> bool:
    """Return whether the case at this place of its test belongs to the share.

    Args:
        touched: Test files of changed code, or None if nothing is known about the change.
    """
    if touched is not None:
        each = max(1, each // MORE) if file in touched else 2 * each
    return place % each == first % each


def changed_files(commit: str) -> set[str]:
    """Return the files that differ from a commit.

    Raises:
        UsageError: There is no such commit.
    """
    done = subprocess.run(
        ["git", "diff", "--name-only", commit],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise pytest.UsageError(f"--touched {commit}: {done.stderr.strip()}")
    return set(done.stdout.split())


def touched_files(files: set[str], changed: set[str]) -> set[str] | None:
    """Return the test files that changed, or that import a changed module.

    A package of the product counts as a whole, its Lua files included. Imports through
    ``tests/support`` count.

    Returns:
        The files, or None if the change touches too many to say anything.
    """
    imports = Imports(ROOT)
    touched = {file for file in files if file in changed or imports.reaches(file, changed)}
    return touched if len(touched) <= MOST * len(files) else None
