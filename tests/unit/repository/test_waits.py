"""Waits have a bound, and waits close to theirs are listed at the end of a test run."""

from __future__ import annotations

import pytest

from tests.support import waits

pytest_plugins = ["pytester"]


def test_a_wait_in_vain_names_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match="in vain for: the first commit"):
        waits.until(lambda: False, "the first commit", 0.01)


def test_a_wait_near_its_bound_is_in_the_summary(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest('pytest_plugins = ["tests.support.wait_report"]')
    pytester.makepyfile(
        """
        from tests.support.waits import report_wait

        def test_near():
            report_wait("a commit", 11.0, 20.0)

        def test_far():
            report_wait("an answer", 1.0, 20.0)
        """
    )
    summary = pytester.runpytest_inprocess("-p", "no:cacheprovider").outlines
    assert [line for line in summary if " s of " in line] == [
        "11.0 s of 20 s for a commit: test_a_wait_near_its_bound_is_in_the_summary.py::test_near"
    ]
