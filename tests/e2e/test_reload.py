"""``perdure up --reload``: the worker gets new code when a file of its flows changes, and live runs
go on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from perdure.worker.cli.processes.reload import FlowSources
from tests.support.command_line import CommandLine, wait_for_line

FLOW = """
from perdure import Finish, ControllerExecutorFlow, RoundContext, register
from words import WORD


@register("saying")
class Saying(ControllerExecutorFlow):
    \"\"\"Says a word.\"\"\"

    def decide(self, context: RoundContext) -> Finish:
        return Finish(WORD)
"""


def names(paths: Sequence[Path]) -> list[str]:
    return [path.name for path in paths]


def test_the_files_of_flows_are_noticed_when_they_change_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flows, package, elsewhere = tmp_path / "config/flows", tmp_path / "shop/parts", tmp_path / "lib"
    for directory in (flows, package, elsewhere):
        directory.mkdir(parents=True)
    for file in (
        "saying.py",
        "words.py",
        "shop/__init__.py",
        "shop/parts/price.py",
        "lib/other.py",
        "lib/near.py",
    ):
        (tmp_path / file).write_text("")
    sources = FlowSources(["saying", "shop.flows", "other", "missing"], [flows], [str(elsewhere)])
    assert sources.changed() == []
    (tmp_path / "words.py").write_text("WORD = 1")
    (package / "price.py").write_text("PRICE = 1")
    (flows / "agent.yaml").write_text("flow: x")
    (elsewhere / "other.py").write_text("OTHER = 1")
    (elsewhere / "near.py").write_text("NEAR = 1")  # not beside a flow module of the project
    (tmp_path / "notes.txt").write_text("")
    assert names(sources.changed()) == ["agent.yaml", "other.py", "price.py", "words.py"]
    assert sources.changed() == []
    os.utime(tmp_path / "words.py", (1, 1))
    (flows / "agent.yaml").unlink()
    assert names(sources.changed()) == ["agent.yaml", "words.py"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_up_restarts_its_worker_and_waits_for_a_correction_of_broken_code(tmp_path: Path) -> None:
    (tmp_path / "saying.py").write_text(FLOW)
    words = tmp_path / "words.py"
    words.write_text("WORD = 'before'")
    perdure = CommandLine(tmp_path, PERDURE_FLOW_MODULES="saying")
    with perdure.running("up", "--reload", "--no-server") as up:
        wait_for_line(up, "worker ready")
        assert "before" in perdure("submit", "saying", "x", "--watch").out
        assert perdure(
            "submit", "countdown", "x", "--input", "rounds=3", "--input", "seconds=1", "--id", "live"
        ).code == 0  # fmt: skip
        words.write_text("WORD = ")
        wait_for_line(up, "words.py changed; restarting the worker")
        wait_for_line(up, "started again when a file changes")
        words.write_text("WORD = 'afterwards'")
        wait_for_line(up, "worker ready")
        assert "afterwards" in perdure("submit", "saying", "x", "--watch").out
        assert perdure("wait", "live", "--timeout", "60").code == 0
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=30)
    assert up.returncode == 0
