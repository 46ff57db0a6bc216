"""Mutants of the Lua files are killed by the tests that guard them, and the harness can tell when
one survives.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import catalog

ROOT = Path(__file__).parents[2]


def play(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutants", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("chosen", [("--sample", "40"), (":by_hand:",)], ids=["sample", "by_hand"])
def test_the_guards_kill_the_mutants(chosen: tuple[str, ...]) -> None:
    """All mutants take hours: ``make mutants``."""
    if chosen == (":by_hand:",):
        chosen = tuple(m.name for m in catalog.mutants() if ":by_hand:" in m.name)
    played = play(*chosen)
    print(played.stdout[-2_000:])
    assert played.returncode == 0, played.stdout + played.stderr


@pytest.mark.slow
def test_a_mutant_that_its_tests_do_not_notice_survives() -> None:
    """The harness can fail: tests of the claim kill this one, and none of the history's."""
    played = play("claim_round:by_hand:by_time", "--against", "test_trace.py")
    assert played.returncode == 1 and "survives: claim_round:by_hand:by_time" in played.stdout
