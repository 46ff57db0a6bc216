"""People's view and answers, over a real server: the inbox, approvals, doubts, budgets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Settings
from tests.support.command_line import CommandLine
from tests.support.example_flows import costs_and_questions  # noqa: F401 -- registers its flows
from tests.support.redis_servers import until
from tests.support.workers import WorkerProcess


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_person_approves_refuses_changes_and_pays_for_more(
    tmp_path: Path, settings: Settings, client: Client, worker_process: Callable[..., WorkerProcess]
) -> None:
    worker_process(PERDURE_FLOW_MODULES="tests.support.example_flows.costs_and_questions")
    command = CommandLine(tmp_path, settings)

    def asks(run_id: str) -> dict[str, Any]:
        until(
            lambda: run_id in [waiting.run_id for waiting in client.inbox()],
            f"{run_id} in the inbox",
        )
        [found] = [each for each in command("inbox", "--json").json if each["run_id"] == run_id]
        return dict(found)

    answers: dict[str, tuple[list[str], Any]] = {
        "yes": (["--approve"], "removed build/ and all in it"),
        "no": (["--refuse", "it is needed"], {"refused": "it is needed", "by": "ann"}),
        "other": (
            ["--edit", '{"path": "tmp/"}'],
            {"result": "removed tmp/", "edited": {"by": "ann", "args": {"path": "tmp/"}}},
        ),
    }
    for run_id, (options, answer) in answers.items():
        assert command("submit", "careful", "build/", "--id", run_id).code == 0
        asked = asks(run_id)
        assert (asked["command"], asked["args"]) == (
            "remove",
            {"path": "build/", "recursive": True},
        )
        assert (
            command("resume", run_id, *options, "--interrupt", asked["id"], "--by", "ann").code == 0
        )
        assert client.wait(run_id, 20).answer == answer

    spending = [
        "--input-json",
        "notes=4",
        "--input-json",
        "tokens=700",
        "--input-json",
        "money=0.01",
    ]
    assert (
        command("submit", "thinker", "x", "--id", "much", *spending, "--budget", "tokens=2000").code
        == 0
    )
    assert asks("much")["data"] == {"budget": "tokens", "limit": 2000, "spent": 2100}
    shown = command("show", "much").out
    assert (
        "budget: tokens 2,100 of 2,000 (105 %)" in shown
        and "model: parrot-1" in shown
        and "money $0.03 of $1.00" in shown.replace("0.0300", "0.03")
    )
    assert command("resume", "much", "--add", "tokens=1400").code == 0
    ended = command("watch", "much")
    assert (
        ended.code == 0
        and "resumed with 1,400 more tokens" in ended.out
        and "before I forget it · note number 3" in ended.out
    )
    listed = command("list", "--flow", "thinker").out
    assert "\t3500\t" in listed
    rounds = command("show", "much", "--transcript").out
    assert (
        "note number 3  observation " in rounds
        and "parrot-1  700 tokens" in rounds
        and "attempt 2" in rounds
    )
    flow = command("flows", "thinker").out
    assert "budgets: tokens 10,000, money $1.00" in flow
