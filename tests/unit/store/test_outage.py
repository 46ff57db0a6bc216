"""The log's account of an outage: its start, now and then that it lasts, and its end."""

from __future__ import annotations

import pytest

from perdure.worker.store.outage import REMINDED, Outage
from tests.support.outages import AWAY, outage

__all__ = ["outage"]


def count(caplog: pytest.LogCaptureFixture) -> int:
    return len(caplog.records)


def test_one_line_at_the_start_and_one_at_the_end(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    for second in range(10):
        outage.failed("sweep", AWAY, now=100.0 + second)
    assert count(caplog) == 1 and "no answer" in caplog.text
    outage.passed("sweep", now=112.5)
    outage.passed("sweep", now=113.0)
    assert count(caplog) == 2 and "12.5 s" in caplog.text and not outage.is_on


def test_where_it_lasts_the_log_says_so_once_a_minute(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    for half in range(2 * 3 * int(REMINDED)):
        outage.failed("sweep", AWAY, now=half / 2)
    assert count(caplog) == 3


def test_it_is_over_when_all_that_failed_has_passed_or_is_given_up(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    """A full server refuses commits and goes on answering sweeps."""
    outage.failed("commit", AWAY, now=0.0)
    outage.failed("beat", AWAY, now=1.0)
    outage.passed("sweep", now=2.0)
    outage.passed("beat", now=2.0)
    assert outage.is_on and count(caplog) == 1
    outage.dropped("commit")
    assert outage.is_on, "given up, so nothing says yet that the server works"
    outage.passed("sweep", now=3.0)
    assert not outage.is_on and count(caplog) == 2


def test_what_never_failed_says_nothing(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    outage.passed("sweep")
    outage.dropped("commit")
    assert count(caplog) == 0
