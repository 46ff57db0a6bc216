"""A test fails if it exceeds its tier."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

STARTS_A_PROCESS = """
    import subprocess

    def test_it():
        subprocess.run(["true"], check=True)
"""
SWALLOWS_THE_REFUSAL = """
    import subprocess

    def test_it():
        try:
            subprocess.run(["true"], check=True)
        except Exception:
            pass
"""
BINDS_A_SOCKET = """
    import socket

    def test_it():
        with socket.socket() as opened:
            opened.bind(("127.0.0.1", 0))
"""


@pytest.mark.parametrize(
    ("tier", "source", "refusal"),
    [
        ("unit", STARTS_A_PROCESS, "move it to tests/e2e"),
        ("store", STARTS_A_PROCESS, "move it to tests/e2e"),
        ("run/web", STARTS_A_PROCESS, "move it to tests/e2e"),
        ("golden", SWALLOWS_THE_REFUSAL, "move it to tests/e2e"),
        ("unit", BINDS_A_SOCKET, "move it to tests/run"),
        ("e2e", STARTS_A_PROCESS, None),
        ("crash", STARTS_A_PROCESS, None),
        ("run", BINDS_A_SOCKET, None),
    ],
)
def test_a_test_may_start_what_its_tier_allows(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    tier: str,
    source: str,
    refusal: str | None,
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # some bind a socket
    pytester.makeconftest('pytest_plugins = ["tests.support.tier_guard"]')
    folder = pytester.mkdir("tests").joinpath(tier)
    folder.mkdir(parents=True)
    pytester.makepyfile(test_it=source)
    pytester.path.joinpath("test_it.py").rename(folder / "test_it.py")
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "tests")
    done.assert_outcomes(passed=refusal is None, failed=refusal is not None)
    assert refusal is None or refusal in done.stdout.str()
