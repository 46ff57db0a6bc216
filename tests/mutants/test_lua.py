"""Every mutant of the Lua files is killed, by the test that is named for its rule; and the harness can tell when one is not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.mutants.lua import MUTANTS
from tests.mutants.mutant import LUA, Mutant, RottenMutant
from tests.mutants.running import STORE
from tests.support.servers import CrashableServer
from worker.store import scripts

ROOT = Path(__file__).parents[2]


def written() -> set[str]:
    """``test_x.py::test_y`` of all that are there."""
    found = {path.name: re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE) for path in STORE.glob("test_*.py")}
    return {f"{file}::{name}" for file, names in found.items() for name in names}


def test_each_mutant_has_a_name_of_its_own_and_its_killer_or_the_reason_why_there_is_none() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    there = written()
    assert [mutant.name for mutant in MUTANTS if bool(mutant.killed_by) == bool(mutant.equivalent)] == []
    assert [mutant.name for mutant in MUTANTS if mutant.killed_by and mutant.killed_by not in there] == []


def test_every_transition_that_writes_and_every_part_has_mutants() -> None:
    assert {path.stem for path in LUA.glob("*.lua")} - {mutant.file for mutant in MUTANTS} == {"examine_run"}


def test_no_mutant_has_rotted() -> None:
    """The text that it changes is there, once."""
    assert all(mutant.text() for mutant in MUTANTS)


@pytest.mark.parametrize("old", ["no such text", "redis.call"])
def test_a_mutant_whose_text_is_not_there_exactly_once_fails_loudly(old: str) -> None:
    with pytest.raises(RottenMutant, match="expected once in sweep_due"):
        Mutant("rotten", "sweep_due", old, "", "none").text()


def test_every_mutant_is_a_script_that_the_server_takes(server: CrashableServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not compile is killed by anything."""
    original = {name: scripts.source(name) for name in scripts.TRANSITIONS}
    with redis.Redis.from_url(server.url) as client:
        for mutant in MUTANTS:
            folder = tmp_path / mutant.name
            folder.mkdir()
            mutant.write(folder)
            monkeypatch.setattr(scripts, "files", lambda package, folder=folder: folder)
            text = scripts.source.__wrapped__(mutant.transition)
            assert text != original[mutant.transition]
            client.script_load(text)


def play(*names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutants", *names]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_every_mutant_is_killed() -> None:
    played = play()
    print(played.stdout[-2_000:])
    assert played.returncode == 0, played.stdout + played.stderr


@pytest.mark.slow
def test_a_mutant_that_its_tests_do_not_notice_survives() -> None:
    """The harness can fail: this one is killed by tests of the claim, and by none of the memory."""
    played = play("claim.by_time", "--against", "test_push.py")
    assert played.returncode == 1 and "survives: claim.by_time" in played.stdout
