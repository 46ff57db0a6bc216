"""``pytest --share K/N``: of a slow test with many cases, only each Nth, from the Kth on.

CI plays an eighth of them in turns, by the number of the commit: a table of two hundred cases is one rule,
and the whole would take longer than CI may. ``make test-all`` plays all.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

#: A slow test with no more cases than this is played whole.
FEW = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share",
        metavar="K/N",
        help="of slow tests with many cases, only each Nth from the Kth on",
    )


def share_of(text: str) -> tuple[int, int]:
    """The numbers of ``K/N``, with K from 0 on.

    Raises:
        UsageError: it has another form.
    """
    first, _, each = text.partition("/")
    if not (first.isdecimal() and each.isdecimal() and int(each) > 0):
        raise pytest.UsageError(f"--share is {text!r}; expected K/N, such as 1/4")
    return int(first) % int(each), int(each)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    text = config.getoption("--share")
    if not text:
        return
    first, each = share_of(text)
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is not None:
            cases[item.nodeid.partition("[")[0]].append(item)
    left_out = {
        item
        for group in cases.values()
        if len(group) > FEW
        for place, item in enumerate(group)
        if place % each != first
    }
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
