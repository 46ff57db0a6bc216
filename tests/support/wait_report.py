"""Waits that came near their bound, in the summary of a run. A pytest plugin for tests/conftest.py.

A wait that took more than half of its bound passes today and fails on a slower machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.waits import SLOW

#: How a report names the waits of its test.
PROPERTY = "slow wait"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport]:
    if call.when == "teardown":
        item.user_properties.extend((PROPERTY, str(wait)) for wait in SLOW)
        SLOW.clear()
    return (yield)


@pytest.hookimpl
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        f"{text}: {report.nodeid}"
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "teardown"
        for name, text in report.user_properties
        if name == PROPERTY
    ]
    if lines:
        terminalreporter.section("waits that took more than half of their bound")
        for line in sorted(lines):
            terminalreporter.line(line)
