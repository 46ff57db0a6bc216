"""``perdure worker --processes N``: several workers under one supervisor, which leaves no run and
no process behind.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest

from perdure import Client, RunStatus
from perdure.worker.app import engine_of, make_app
from perdure.worker.cli.processes.restarts import pause
from perdure.worker.runtime.process_loss import release_after_death
from perdure.worker.settings import Settings
from perdure.worker.store import Claim
from tests.support.command_line import COMMAND, CommandLine, CommandProcess, wait_for_line
from tests.support.os_processes import children, ended, open_files, process_of
from tests.support.redis_servers import until
from tests.support.terminal import CONTROL_C, terminal

MODULE = "tests.support.example_flows.rings"
#: Longer than any test waits: a run that goes on within it knew that the lease was released.
LONG_LEASE = "120"
TWO = ("worker", "--processes", "2", "--concurrency", "1")


pytestmark = pytest.mark.settings(flow_modules=(MODULE,))


@pytest.fixture
def perdure(tmp_path: Path, settings: Settings) -> CommandLine:
    return CommandProcess(
        tmp_path, settings, PERDURE_FLOW_MODULES=MODULE, PERDURE_LEASE_SECONDS=LONG_LEASE
    )


def two_rounds(client: Client, seconds: float) -> list[str]:
    """Submit two runs, and wait until each is in the middle of a round of this length: one in each
    process, as each plays one at a time.
    """
    ids = [client.submit("ledger", "g", {"rounds": 2, "seconds": seconds}).id for _ in range(2)]
    until(
        lambda: all("beat_at" in (client._store.reads.fields(each) or {}) for each in ids),
        "two rounds in flight",
    )
    assert len({process_of(client, each) for each in ids}) == 2
    return ids


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def sockets(pid: int) -> list[str]:
    return [name for name in open_files(pid) if name.startswith("socket:")]


@pytest.mark.slow
def test_each_process_is_a_worker_and_the_command_tells_of_all_in_one_document(
    perdure: CommandLine, client: Client
) -> None:
    with perdure.running(*TWO, "--json") as supervisor:
        assert supervisor.stdout is not None
        told = json.loads(supervisor.stdout.readline())
        assert told["pid"] == supervisor.pid and sorted(told["processes"]) == sorted(
            children(supervisor.pid)
        )
        assert {os.getpgid(pid) for pid in told["processes"]} == {supervisor.pid}, (
            "one process group"
        )
        assert threads(supervisor.pid) == 1 and sockets(supervisor.pid) == [], (
            "what is forked has modules and nothing else to copy"
        )
        assert sorted(worker["pid"] for worker in client.workers()) == sorted(told["processes"])


@pytest.mark.slow
def test_another_process_takes_the_place_of_a_killed_one_and_its_run_goes_on(
    tmp_path: Path, settings: Settings, client: Client
) -> None:
    perdure = CommandLine(
        tmp_path,
        settings,
        PERDURE_FLOW_MODULES=MODULE,
        PERDURE_LEASE_SECONDS="2",
        PERDURE_HEARTBEAT_SECONDS="0.5",
    )
    with perdure.worker(*TWO[1:]) as supervisor:
        first, _ = two_rounds(client, seconds=1.5)
        victim = process_of(client, first)
        assert victim in children(supervisor.pid)
        os.kill(victim, signal.SIGKILL)
        assert str(victim) in wait_for_line(supervisor, "restarting now")
        run = client.wait(first, 60)
        assert run.status is RunStatus.COMPLETED and run.answer == [0, 1]
        assert "lost" in [event.type for event in client.events(first, follow=False)]
        until(
            lambda: (
                sum(worker["pid"] in children(supervisor.pid) for worker in client.workers()) == 2
            ),
            "two workers",
        )
        assert victim not in children(supervisor.pid)


def test_the_leases_of_a_killed_process_are_let_go_at_once(
    perdure: CommandLine, client: Client
) -> None:
    """Their lease is longer than the test waits."""
    with perdure.worker(*TWO[1:]) as supervisor:
        ids = two_rounds(client, seconds=600)
        victim = process_of(client, ids[0])
        assert victim in children(supervisor.pid)
        os.kill(victim, signal.SIGKILL)
        until(
            lambda: (client._store.reads.fields(ids[0]) or {}).get("attempt") == "2",
            "the next attempt",
        )
        assert [event.type for event in client.events(ids[0], follow=False)].count("lost") == 1
        other = client._store.reads.fields(ids[1]) or {}
        assert (other["phase"], other["attempt"]) == ("leased", "1"), (
            "the other process keeps its lease"
        )
        assert victim not in {worker["pid"] for worker in client.workers()}
        until(lambda: len(children(supervisor.pid)) == 2, "the mourner to end")


def test_a_message_that_a_dead_process_had_not_yet_claimed_is_sent_again_at_once(
    settings: Settings, client: Client
) -> None:
    """The time after which a message is looked for is longer than the test waits."""
    queue = client._store.keys.queue("controller")
    settings = settings.model_copy(update={"resend_seconds": 120.0})
    with (
        closing(Client(settings=settings)) as patient,
        closing(engine_of(make_app(settings))) as engine,
    ):
        popped, claimed = [patient.submit("ledger", "g", {"rounds": 1}).id for _ in range(2)]
        assert popped in str(client._store.redis.rpop(queue))
        claim = engine.store.rounds.claim(
            claimed,
            epoch=0,
            step=0,
            claim="living:1.1",
            owner="living:1",
            lease=60_000,
            known=["ledger"],
        )
        assert isinstance(claim, Claim), "by a living worker: the line has passed the other run"
        assert release_after_death(engine, ended_pid()) == []
    assert popped in str(client._store.redis.rpop(queue)), "at the consuming end"
    kinds = {
        run_id: [event.type for event in client.events(run_id, follow=False)]
        for run_id in (popped, claimed)
    }
    assert kinds == {popped: ["submitted", "resent"], claimed: ["submitted"]}


def ended_pid() -> int:
    """Return the id of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


@pytest.mark.slow
def test_a_process_that_dies_again_and_again_is_started_after_growing_pauses(
    perdure: CommandLine,
) -> None:
    with perdure.worker(*TWO[1:]) as supervisor:
        (victim, other), pauses = sorted(children(supervisor.pid)), []
        for _ in range(3):
            os.kill(victim, signal.SIGKILL)
            pauses.append(
                wait_for_line(supervisor, f"process {victim} ended (signal 9)")
                .rpartition("restarting ")[2]
                .strip()
            )
            victim = int(
                re.findall(r"process (\d+) is ready", wait_for_line(supervisor, "is ready"))[0]
            )
        assert pauses == ["now", "in 1 s", "in 2 s"]
        assert other in children(supervisor.pid)


@pytest.mark.slow
def test_no_process_outlives_a_killed_supervisor_and_what_is_in_flight_is_committed(
    perdure: CommandLine, client: Client
) -> None:
    with perdure.worker(*TWO[1:]) as supervisor:
        ids, processes = two_rounds(client, seconds=2.5), children(supervisor.pid)
        assert len(processes) == 2
        supervisor.kill()
        try:
            until(lambda: all(map(ended, processes)), "the processes to end")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(supervisor.pid, signal.SIGKILL)
        assert [client.get(each).state.step for each in ids] == [1, 1] and client.workers() == []


@pytest.mark.slow
@pytest.mark.parametrize("to_all", [False, True], ids=["supervisor", "all"])
def test_sigterm_drains_all_processes_also_where_each_gets_it(
    perdure: CommandLine, client: Client, to_all: bool
) -> None:
    with perdure.worker(*TWO[1:]) as supervisor:
        ids = two_rounds(client, seconds=2.5)
        (os.killpg if to_all else os.kill)(supervisor.pid, signal.SIGTERM)
        _, said = supervisor.communicate(timeout=30)
    assert supervisor.returncode == 0 and "ended" not in said
    assert [(client.get(each).phase, client.get(each).state.step) for each in ids] == [
        ("queued", 1)
    ] * 2
    assert client.workers() == []


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_drains_and_a_second_one_does_not_wait(
    perdure: CommandLine, client: Client
) -> None:
    with terminal([*COMMAND, *TWO], perdure.directory, perdure.environment) as window:
        until(lambda: "worker ready" in window.text, "the processes")
        ids = two_rounds(client, seconds=2.5)
        window.type(CONTROL_C)
        assert window.process.wait(30) == 0
        assert "Ctrl-C again leaves them" in window.text and "Traceback" not in window.text
    assert [(client.get(each).phase, client.get(each).state.step) for each in ids] == [
        ("queued", 1)
    ] * 2
    for each in ids:
        client.request_stop(each, mode="now")
    with terminal([*COMMAND, *TWO], perdure.directory, perdure.environment) as window:
        until(lambda: "worker ready" in window.text, "the processes")
        ids, processes = two_rounds(client, seconds=600), children(window.process.pid)
        window.type(CONTROL_C)
        until(lambda: "Ctrl-C again leaves them" in window.text, "the first to be heard")
        window.type(CONTROL_C)
        assert window.process.wait(30) == 130
        assert all(map(ended, processes)) and "Traceback" not in window.text
    assert client.workers() == []
    with perdure.worker("--concurrency", "2"):
        until(
            lambda: all(client.get(each).details["attempt"] == 2 for each in ids),
            "the next attempts",
        )


@pytest.mark.slow
def test_processes_that_refuse_to_start_say_why_once_and_end_the_command_as_a_lone_worker(
    perdure: CommandLine, client: Client
) -> None:
    lone = perdure("worker", "--enable", "no-such-flow")
    several = perdure("worker", "--processes", "3", "--enable", "no-such-flow")
    assert (several.code, several.err) == (lone.code, lone.err) and lone.code == 2
    assert client.workers() == []


@pytest.mark.slow
def test_where_no_process_can_be_started_any_more_the_command_ends(
    tmp_path: Path, settings: Settings
) -> None:
    module = tmp_path / "my_flows.py"
    module.write_text("")
    with CommandLine(tmp_path, settings, PERDURE_FLOW_MODULES="my_flows").worker(
        *TWO[1:]
    ) as supervisor:
        module.write_text("import no_such_module")
        for process in children(supervisor.pid):
            os.kill(process, signal.SIGKILL)
        _, said = supervisor.communicate(timeout=30)
    assert supervisor.returncode not in (0, None) and "no_such_module" in said


@pytest.mark.slow
def test_the_processes_leave_when_who_started_them_is_gone(
    perdure: CommandLine, client: Client
) -> None:
    command = [*COMMAND, *TWO, "--until-stdin-ends"]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    with subprocess.Popen(
        command, cwd=perdure.directory, env=perdure.environment, text=True, **pipes
    ) as supervisor:
        wait_for_line(supervisor, "worker ready")
        processes = children(supervisor.pid)
        assert supervisor.stdin is not None
        supervisor.stdin.close()
        assert supervisor.wait(30) == 0 and all(map(ended, processes))
    assert client.workers() == []


def test_processes_do_not_go_with_a_pool_of_processes_nor_below_one(perdure: CommandLine) -> None:
    prefork = perdure("worker", "--processes", "2", "--pool", "prefork")
    assert prefork.code == 2 and "--processes 2 cannot be used with --pool prefork" in prefork.err
    none = perdure("worker", "--processes", "0")
    assert none.code == 2 and "is not a number from 1 on" in none.err


def test_the_pauses_grow_from_none_to_a_minute() -> None:
    assert [pause(deaths) for deaths in (1, 2, 3, 4, 7, 8, 9, 10_000)] == [
        0,
        1,
        2,
        4,
        32,
        60,
        60,
        60,
    ]
