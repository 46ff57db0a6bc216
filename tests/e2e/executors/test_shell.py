"""run_shell: bounded in time and output, in the workspace, without the worker's secrets; and only
where a flow and a worker allow it.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure import Command, ControllerExecutorFlow, Finish, RoundContext
from perdure.flows.commands.command import spec_of
from perdure.flows.core.errors import BadReply, InvalidFlow, RoundStopped
from perdure.flows.core.round_journal import Journal
from perdure.flows.executors import sandbox, shell
from perdure.flows.executors.shell import KEPT_BYTES, run_shell
from perdure.flows.rounds.context import altered


@pytest.fixture
def context(tmp_path: Path) -> RoundContext:
    return RoundContext("g", workspace=str(tmp_path))


def test_a_command_runs_in_the_workspace_and_tells_its_end(
    context: RoundContext, tmp_path: Path
) -> None:
    told = run_shell(context, "pwd; echo oops >&2; exit 3")
    assert (told["exit"], told["output"]) == (3, f"{tmp_path}\noops\n") and told["seconds"] < 30


def test_long_output_loses_its_middle(context: RoundContext) -> None:
    told = run_shell(context, "echo begin; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end")
    assert told["output"].startswith("begin\n") and told["output"].endswith("end\n")
    assert (
        f"{1_000_000 + len('begin') + len('end') + 3 - 2 * KEPT_BYTES} bytes left out"
        in told["output"]
    )


def test_a_command_that_takes_too_long_is_killed_with_all_it_started(
    context: RoundContext, tmp_path: Path
) -> None:
    told = run_shell(context, "(sleep 1.5; touch late) & echo begun; sleep 60", 0.3)
    assert told["exit"] is None and "0.3 s" in told["killed"] and told["output"] == "begun\n"
    assert run_shell(context, "sleep 1.6; ls")["output"] == "", "nothing of it lived on"


def test_a_round_that_nobody_wants_kills_its_command(context: RoundContext) -> None:
    threading.Timer(0.2, context.cancelled.set).start()
    with pytest.raises(RoundStopped):
        run_shell(context, "sleep 60")


def test_the_workers_secrets_are_not_in_its_environment(
    context: RoundContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "PERDURE_REDIS_URL", "AWS_SECRET_ACCESS_KEY", "ANYTHING"):
        monkeypatch.setenv(name, "canary")
    told = run_shell(context, "env")
    assert "PATH=" in told["output"] and "canary" not in told["output"]


@pytest.mark.parametrize("seconds", [0, -1, 1e9, float("nan")])
def test_an_impossible_time_is_a_bad_reply(context: RoundContext, seconds: float) -> None:
    with pytest.raises(BadReply, match="seconds"):
        run_shell(context, "true", seconds)


class Shelled(ControllerExecutorFlow):
    commands = (run_shell,)

    def decide(self, context: RoundContext) -> Any:
        return Finish("done")


def test_a_flow_offers_it_only_if_it_says_so() -> None:
    with pytest.raises(InvalidFlow, match="runs_shell: true"):
        Shelled().check_definition()
    Shelled(runs_shell=True).check_definition()


def test_the_processes_of_two_runs_have_marks_of_their_own(context: RoundContext) -> None:
    """By its mark a process is killed, and ids of runs are the submitter's to choose."""
    names = [
        ("job-1", 0),
        ("job.1", 0),
        ("job_1", 0),
        ("job", 1),
        ("job_1", 1),
        ("a@1", 0),
        ("a:1", 0),
        ("job-11", 1),
        ("job-1", 11),
    ]
    marks = {shell._name_of(altered(context, run_id=run_id, step=step)) for run_id, step in names}
    assert len(marks) == len(names) and all(mark.isalnum() for mark in marks)


def test_what_a_lost_worker_left_running_is_killed_before_its_doubt_is_settled(
    context: RoundContext, tmp_path: Path
) -> None:
    """The command is in doubt, so it is not carried out again, and its processes would go on."""
    endless = f"while :; do echo tick >> {tmp_path}/ticks; sleep 0.05; done"
    mark = f"{sandbox.MARK}_{shell._name_of(context)}"
    left = subprocess.Popen(["/bin/sh", "-c", endless], env={mark: "1"}, start_new_session=True)
    other = subprocess.Popen(["/bin/sleep", "60"], env={f"{mark}0": "1"}, start_new_session=True)
    spec = spec_of(run_shell)
    command = Command("run_shell", {"command_line": endless})
    context = altered(context, journal=Journal(context.key_of(command)))
    try:
        assert "in_doubt" in spec.carry_out(command.args, context)
        assert left.wait(5) == -signal.SIGKILL and other.poll() is None
    finally:
        for process in (left, other):
            process.kill()
            process.wait()
