"""The jitter tool sees a verdict that changes, reaches every process, and counts its pauses.

These tests start pytest, because they prove how the tool does so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.worker.settings import Settings
from tests.jitter.comparison import find_changes, find_flaky
from tests.jitter.execution import ROOT, Pass, count_pauses, read_verdicts
from tests.jitter.faults import SINGLE, parse_fault, parse_faults, read_pace
from tests.jitter.verdicts import INJECTION, add_injection

#: A test that waits, and a test that passes only undisturbed.
WAITING = """
import os
from tests.support.waits import until

def test_waits():
    until(lambda: True, "nothing")

def test_is_disturbed():
    until(lambda: True, "nothing")
    assert "TESTS_JITTER" not in os.environ
"""
#: A test that no fault can reach.
IDLE = "def test_does_nothing():\n    pass\n"
#: Two tests. The second needs the state that the first left behind.
ORDERED = """
SEEN = []

def test_leaves_something():
    SEEN.append(1)

def test_relies_on_it():
    assert SEEN
"""
#: A test whose process has a separate environment. It plays more rounds than the faults disturb.
#: Another test is about rounds in pytest's own process: pytest's finder must not come first there.
PROCESS = """
import os, subprocess, sys

ROUNDS = '''
from perdure import Client
from perdure.worker.settings import Settings
from tests.support.example_flows import rings
from tests.support.in_process_runtime import runtime_of

client = Client(settings=Settings(redis_url={url!r}, prefix={prefix!r}))
run = client.submit("ledger", "goal", {{"rounds": 5}})
for step in range(5):
    runtime_of(client).rounds.run(run.id, 0, step)
assert client.get(run.id).phase == "completed"
client.close()
'''

def test_process():
    environment = {{"PYTHONPATH": {root!r}}}
    subprocess.run([sys.executable, "-P", "-c", ROUNDS], env=environment, check=True)

def test_finder():
    if "TESTS_JITTER" in os.environ:
        assert sys.meta_path[0] is sys.modules["sitecustomize"].FINDER
"""


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tool, without the variables of a tool that runs these tests."""
    environment = {
        name: text for name, text in os.environ.items() if not name.startswith("TESTS_JITTER")
    }
    command = [sys.executable, "-m", "tests.jitter", *arguments]
    # Empty texts, because a tool that runs these tests would add its own.
    environment |= {"TESTS_JITTER": "", "TESTS_JITTER_LOG": os.devnull}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # 0.2 s of CPU a pass instead of 2.6 s
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_a_test_that_changes_under_a_fault_is_named_with_what_pytest_says(tmp_path: Path) -> None:
    file = tmp_path / "test_waiting.py"
    file.write_text(WAITING)
    done = run_tool("--json", "--faults", "late-looks", str(file))
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    undisturbed, late = report["faults"]
    assert undisturbed["verdicts"] == {"passed": 2} and not undisturbed["pauses"]
    assert late["verdicts"] == {"passed": 1, "failed": 1}
    assert late["pauses"] == {"first-look": 2} and late["processes"] == 1
    (change,) = late["changes"]
    assert change["test"].endswith("test_is_disturbed")
    assert (change["before"], change["under"]) == ("passed", "failed")
    assert "not in os.environ" in change["text"] and report["flaky"] == {}


def test_a_fault_that_reaches_no_process_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "test_idle.py"
    file.write_text(IDLE)
    done = run_tool("--faults", "behind-claim", str(file))
    assert done.returncode == 2 and "behind-claim: no process made a pause" in done.stderr


def test_only_the_first_rounds_pause_at_each_place_in_a_process_with_its_own_environment(
    settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "test_process.py"
    places = ["before-claim", "behind-claim", "before-commit", "behind-commit"]
    file.write_text(PROCESS.format(url=settings.redis_url, prefix=settings.prefix, root=str(ROOT)))
    done = run_tool("--json", "--faults", "+".join(places), str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    fault = json.loads(done.stdout)["faults"][1]
    assert fault["pauses"] == dict.fromkeys(places, 3) and fault["processes"] == 1


def test_load_keeps_the_cores_busy(tmp_path: Path) -> None:
    file = tmp_path / "test_idle.py"
    file.write_text(IDLE)
    done = run_tool("--json", "--faults", "load", str(file))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["faults"][1]["load_cpu_seconds"] > 0


def test_a_test_that_relies_on_the_one_before_it_changes_in_another_order(tmp_path: Path) -> None:
    file = tmp_path / "test_order.py"
    file.write_text(ORDERED)
    done = run_tool("--json", "--repeat", "4", "--faults", "other-order", str(file))
    assert done.returncode == 1, done.stdout + done.stderr
    (change,) = json.loads(done.stdout)["faults"][1]["changes"]
    assert change["test"].endswith("test_relies_on_it")


def test_the_verdict_of_a_test_comes_from_all_its_phases() -> None:
    phases = [
        {"tests": 5},
        *phases_of("good", begin="passed", setup="passed", call="passed", teardown="passed"),
        *phases_of("leaks", begin="passed", setup="passed", call="passed", teardown="failed"),
        *phases_of("broken", begin="passed", setup="failed", teardown="passed"),
        *phases_of("lacks", begin="passed", setup="skipped", teardown="passed"),
        *phases_of("dies", begin="passed", setup="passed"),
    ]
    assert read_verdicts(phases) == {
        "good": "passed",
        "leaks": "failed",
        "broken": "failed",
        "lacks": "skipped",
        "dies": "unfinished",
    }


def phases_of(test: str, **outcomes: str) -> list[dict[str, str]]:
    """Return the plugin's lines for one test."""
    return [{"test": test, "when": when, "outcome": word} for when, word in outcomes.items()]


def test_a_test_that_fails_undisturbed_is_flaky_and_not_changed() -> None:
    undisturbed = [
        Pass({"steady": "passed", "flaky": "passed", "broken": "failed", "pace": "passed"}),
        Pass({"steady": "passed", "flaky": "failed", "broken": "failed", "pace": "passed"}),
    ]
    assert set(find_flaky(undisturbed)) == {"flaky", "broken"}
    good = Pass({"steady": "passed", "flaky": "failed", "broken": "passed"})
    assert find_changes(undisturbed, [good], ["pace"]) == []
    bad = Pass({"steady": "failed", "flaky": "failed"}, {"steady": "why"})
    (change,) = find_changes(undisturbed, [good, bad, good], ["pace"])
    assert (change.test, change.under, change.text) == ("steady", "failed", "why")


def test_a_test_that_is_not_played_under_a_fault_has_changed() -> None:
    (change,) = find_changes([Pass({"lost": "passed"})], [Pass({})])
    assert (change.test, change.under) == ("lost", "not played")


def test_faults_are_joined_by_their_names() -> None:
    joined = parse_fault("load+late-looks")
    assert joined.has_load and joined.pauses == SINGLE["late-looks"].pauses
    assert [fault.name for fault in parse_faults("load,load+late-looks")] == [
        "load",
        "load+late-looks",
    ]
    with pytest.raises(ValueError, match="no fault is named 'loud'; there are behind-claim"):
        parse_faults("load,loud")


def test_pauses_are_counted_by_place_and_process() -> None:
    assert count_pauses("7 a\n8 a\n7 b\n") == ({"a": 2, "b": 1}, 2)


def test_the_injection_is_first_on_the_path_and_only_once() -> None:
    path = add_injection("/elsewhere")
    assert path == f"{INJECTION}{os.pathsep}/elsewhere"
    assert add_injection(path) == path


def test_every_test_that_measures_pace_exists_and_has_a_reason() -> None:
    for test, reason in read_pace().items():
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(), test
        assert reason.endswith("."), test
