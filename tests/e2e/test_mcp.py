"""Tools of real MCP servers as commands: mcp-server-time and mcp-server-git, disturbed in every way
that a worker may meet.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Command, ControllerExecutorFlow, Finish, RunStatus, Settings, register
from perdure.flows.controllers.model import ModelController
from perdure.flows.core.errors import (
    BadReply,
    FatalError,
    OutcomeUnknown,
    RetryableError,
    RoundStopped,
)
from perdure.flows.executors.mcp import liveness, mcp_commands
from perdure.flows.executors.mcp.config import ServerConfig
from perdure.flows.executors.mcp.event_loop import CLOSING_SECONDS, background
from perdure.flows.executors.mcp.results import ToolFailed
from perdure.flows.executors.mcp.session import McpSession
from perdure.flows.rounds.context import RoundContext
from perdure.testing import FakeModel
from tests.conftest import StartsWorkers
from tests.support.flow_registry import own_registry
from tests.support.mcp_servers import (
    TIME,
    context,
    git_over_http,
    needs_servers,
    no_server_stays,
    servers_of,
    time_command,
)
from tests.support.os_processes import children, ended
from tests.support.ports import free_port
from tests.support.redis_servers import until
from tests.support.round_driver import driving

__all__ = ["context", "no_server_stays"]

pytestmark = needs_servers
ROOT = Path(__file__).parents[2]
UTC = {"timezone": "UTC"}
CANARY = "hunter2-canary"
PICTURE = b"\x89PNG\r\n\x1a\n..."
CAMERA = f"""
from mcp.server import MCPServer
from mcp.server.mcpserver import Image

server = MCPServer("camera")


@server.tool()
def take() -> Image:
    return Image(data={PICTURE!r}, format="png")


server.run()
"""
WORDS = "words of a commit"


@pytest.fixture
def repository(tmp_path: Path) -> str:
    """A git repository with one commit."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", WORDS]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return str(tmp_path)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Suspend the process during the block, so that a call of it is in flight for as long as the
    test wants.
    """
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if not ended(pid):
            os.kill(pid, signal.SIGCONT)


def the_server() -> int:
    [pid] = servers_of(os.getpid())
    return pid


def living_sessions() -> int:
    """Count the sessions of this process, also those of tests in other files."""
    return sum(not session.ended for session in background._sessions.values())


def in_flight() -> int:
    """Count this process's calls that wait for an answer."""
    assert background._loop is not None
    return sum("call_tool" in str(task.get_coro()) for task in asyncio.all_tasks(background._loop))


def unread(port: int) -> int:
    """Count the bytes that a server on this port has been sent, and has not read."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].partition(":")[2], 16) for row in rows if row[1].endswith(f":{port:04X}"))


def test_a_tool_is_a_command_with_the_schema_and_words_of_its_server(context: RoundContext) -> None:
    command = time_command()
    schema = command.schema()
    assert (schema["name"], schema["description"]) == (
        "time.get_current_time",
        "Get current time in a specific timezone",
    )
    assert schema["parameters"]["required"] == ["timezone"]
    assert command.carry_out(UTC, context)["timezone"] == "UTC"
    # The tool's own error is passed on, and is no failure of the round.
    with pytest.raises(ToolFailed, match="No time zone found with key Nowhere"):
        command.carry_out({"timezone": "Nowhere"}, context)
    with pytest.raises(BadReply, match="'timezone' is a required property"):
        command.carry_out({}, context)
    [unknown] = mcp_commands("time", command=TIME, tools=["get_curent_time"])
    with pytest.raises(FatalError, match="did you mean 'get_current_time'"):
        unknown.check({})
    assert len(servers_of(os.getpid())) == 1, "one session served them all"


def test_a_person_approves_the_call_of_a_tool_and_may_change_it(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_registry(monkeypatch)

    @register("careful_remote")
    class CarefulRemote(ControllerExecutorFlow):
        """Asks for the time, if a person lets it."""

        commands = mcp_commands(
            "time", command=TIME, tools={"get_current_time": {"approval": "always"}}
        )

        def decide(self, context: RoundContext) -> Command | Finish:
            if len(context.history):
                return Finish(context.observation)
            return Command("time.get_current_time", {"timezone": "Europe/Rome"})

    with driving(settings) as driver:
        run = client.submit("careful_remote", "when?")
        driver.play()
        [waiting] = client.inbox()
        assert (waiting.command, waiting.args) == (
            "time.get_current_time",
            {"timezone": "Europe/Rome"},
        )
        client.resume(run.id, {"edit": UTC}, interrupt=waiting.id)
        driver.play()
    answer = client.get(run.id).answer
    assert answer["result"]["timezone"] == "UTC", answer


def test_a_model_sees_the_picture_of_a_tool(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own_registry(monkeypatch)
    (tmp_path / "camera.py").write_text(CAMERA)

    @register("photographer")
    class Photographer(ControllerExecutorFlow):
        """Looks at a picture."""

        controller = ModelController()
        commands = mcp_commands(
            "camera", command=[sys.executable, str(tmp_path / "camera.py")], tools=["take"]
        )

    with driving(settings) as driver, FakeModel([Command("camera.take"), Finish("seen")]) as model:
        run = client.submit("photographer", "What is there?")
        driver.play()
    assert client.get(run.id).answer == "seen", client.get(run.id)
    assert client.file(run.id, "1-image-1.png").content == PICTURE
    seen = [file.content for each in model.requests[-1].messages for file in each.files]
    assert seen == [PICTURE]


def test_a_description_of_the_flows_own_wins() -> None:
    [command] = mcp_commands(
        "time",
        command=TIME,
        tools={"get_current_time": {"description": "what time it is", "idempotent": True}},
    )
    assert command.schema()["description"] == "what time it is" and command.idempotent


def test_rounds_at_once_share_a_session(context: RoundContext) -> None:
    command = time_command()
    command.check(UTC)
    with (
        stopped(the_server()),
        ThreadPoolExecutor(8) as rounds,
    ):  # so that all wait at the same time
        asked = [rounds.submit(command.carry_out, UTC, context) for _ in range(8)]
        until(lambda: in_flight() == 8, "eight calls in flight")
        os.kill(the_server(), signal.SIGCONT)
        assert [each.result(20)["timezone"] for each in asked] == ["UTC"] * 8
    assert len(servers_of(os.getpid())) == 1


def test_a_round_that_nobody_wants_stops_waiting_and_the_session_lives_on(
    context: RoundContext,
) -> None:
    command = time_command()
    command.check(UTC)
    before = the_server()
    with stopped(before):
        threading.Timer(0.1, context.cancelled.set).start()
        with pytest.raises(RoundStopped):
            command.carry_out(UTC, context)
    assert command.carry_out(UTC, RoundContext("g"))["timezone"] == "UTC"
    assert the_server() == before


def test_a_call_has_a_time_limit_and_the_session_lives_on(context: RoundContext) -> None:
    command = time_command(timeout_seconds=0.3)
    command.check(UTC)
    before = the_server()
    with (
        stopped(before),
        pytest.raises(
            OutcomeUnknown, match=r"MCP server 'time' .*'get_current_time': no answer within 0.3 s"
        ),
    ):
        command.carry_out(UTC, context)
    assert time_command().carry_out(UTC, context)["timezone"] == "UTC"
    assert the_server() == before


def odd_tool(*does: str, seconds: float = 10) -> Any:
    """Return the tool of a server over stdio, whose bytes and silence only a process can have."""
    program = [sys.executable, "-m", "tests.support.odd_mcp_program", *does]
    environment = {"PYTHONPATH": str(ROOT)}
    [command] = mcp_commands(
        "odd", command=program, env=environment, tools=["big"], timeout_seconds=seconds
    )
    return command


def test_a_line_that_is_no_utf_8_does_not_make_a_session_deaf(context: RoundContext) -> None:
    command = odd_tool("latin1")
    assert [command.carry_out({}, context) for _ in range(2)] == ["ok", "ok"]


def test_an_error_without_an_id_is_named_by_the_call_that_gets_no_answer(
    context: RoundContext,
) -> None:
    with pytest.raises(OutcomeUnknown, match=r"no answer within 0.5 s; .*reported: Parse error"):
        odd_tool("complain", seconds=0.5).carry_out({}, context)


def test_a_program_that_hangs_is_replaced_after_a_ping_without_an_answer(
    context: RoundContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "PING_SECONDS", 0.5)
    mark = tmp_path / "hung"
    before = servers_of(os.getpid(), "odd_mcp_program")
    with pytest.raises(OutcomeUnknown, match=r"no answer within 0.5 s"):
        odd_tool("hang", str(mark), seconds=0.5).carry_out({}, context)
    assert mark.exists()
    [hung] = set(servers_of(os.getpid(), "odd_mcp_program")) - set(before)
    assert odd_tool("hang", str(mark)).carry_out({}, context) == "ok"
    until(lambda: ended(hung), "the end of the program that hangs")


def test_a_session_with_a_program_that_reads_no_input_is_closed_in_time(tmp_path: Path) -> None:
    async def close() -> float:
        session = McpSession("odd", odd_tool("hang", str(tmp_path / "hung")).takes.server)
        await session.tool("big")
        for length in (1, 3_000_000):  # The ping after the first call waits behind the second.
            with pytest.raises(OutcomeUnknown, match="no answer"):
                await session.call("big", {"x": "x" * length}, 0.5)
        begin = asyncio.get_running_loop().time()
        await session.close()
        return asyncio.get_running_loop().time() - begin

    before = set(servers_of(os.getpid(), "odd_mcp_program"))
    assert asyncio.run(close()) < CLOSING_SECONDS
    assert before.issuperset(servers_of(os.getpid(), "odd_mcp_program"))


@pytest.mark.parametrize("start_seconds", [60, 0.5])
def test_a_session_whose_program_does_not_start_is_closed_in_time(
    tmp_path: Path, start_seconds: float
) -> None:
    async def close() -> float:
        session = McpSession("odd", server)
        await asyncio.to_thread(until, (tmp_path / "begun").exists, "the program")
        limit = session._start._limit
        assert limit is not None
        if start_seconds < 1:  # The library is ending the program already.
            await asyncio.to_thread(
                until, lambda: limit.when() is None or limit.expired(), "the end"
            )
        begin = asyncio.get_running_loop().time()
        await session.close()
        return asyncio.get_running_loop().time() - begin

    begins = "import sys, time, pathlib; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    program = [sys.executable, "-c", begins, str(tmp_path / "begun"), "never_starts"]
    server = ServerConfig(command=program, tools=["big"], start_seconds=start_seconds)
    assert asyncio.run(close()) < CLOSING_SECONDS
    assert not servers_of(os.getpid(), "never_starts")


@pytest.mark.slow
def test_a_server_killed_in_the_middle_of_a_call_is_retryable_and_the_next_attempt_starts_it_anew(
    context: RoundContext,
) -> None:
    command = time_command()
    command.check(UTC)
    before = the_server()
    with stopped(before), ThreadPoolExecutor(1) as rounds:
        asked = rounds.submit(command.carry_out, UTC, context)
        until(lambda: in_flight() == 1, "the call in flight")
        os.kill(before, signal.SIGKILL)
        with pytest.raises(OutcomeUnknown, match="MCP server 'time'"):
            asked.result(20)
    assert command.carry_out(UTC, context)["timezone"] == "UTC"
    assert the_server() != before


@pytest.mark.slow
def test_a_server_that_died_between_calls_costs_no_attempt(context: RoundContext) -> None:
    command = time_command()
    command.check(UTC)
    before, alive = the_server(), living_sessions()
    os.kill(before, signal.SIGKILL)
    until(lambda: living_sessions() == alive - 1, "the session to notice")
    assert command.carry_out(UTC, context)["timezone"] == "UTC"
    assert the_server() != before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([*TIME[:-1], "Nowhere/Else"], "Error: invalid --local-timezone"),
        (["/nowhere/mcp-server"], "No such file"),
        (["false"], "Connection closed"),
        (["sleep", "1000"], "start_seconds"),
    ],
)
def test_a_server_that_does_not_start_is_retryable_and_its_last_words_are_told(
    context: RoundContext, program: list[str], message: str
) -> None:
    [command] = mcp_commands("bad", command=program, tools=["a"], start_seconds=1.5)
    with pytest.raises(RetryableError, match=message) as failed:
        command.carry_out({}, context)
    assert not isinstance(failed.value, OutcomeUnknown), (
        "nothing was called, so nothing is in doubt"
    )


@pytest.mark.slow
def test_a_round_that_nobody_wants_does_not_wait_for_a_server_to_start() -> None:
    class Waiting(ControllerExecutorFlow):
        commands = mcp_commands("slow", command=["sleep", "1000"], tools=["a"], start_seconds=60)

        def decide(self, context: RoundContext) -> Command:
            return Command("slow.a")

    context = RoundContext("g", node="Controller")
    threading.Timer(0.2, context.cancelled.set).start()
    with pytest.raises(RoundStopped):
        Waiting().play("Controller", context)


@pytest.mark.slow
def test_a_program_sees_the_harmless_variables_and_those_declared(
    context: RoundContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "PERDURE_REDIS_URL", "ANYTHING"):
        monkeypatch.setenv(name, f"{CANARY}-{name}")
    [command] = mcp_commands(
        "own",
        command=TIME,
        env={"A_TOKEN": "env:ANYTHING", "PLAIN": "text"},
        tools=["get_current_time"],
    )
    before = servers_of(os.getpid())
    command.carry_out(UTC, context)
    [pid] = set(servers_of(os.getpid())) - set(before)
    seen = dict(
        item.split("=", 1) for item in Path(f"/proc/{pid}/environ").read_text().split("\0") if item
    )
    assert (seen["A_TOKEN"], seen["PLAIN"]) == (f"{CANARY}-ANYTHING", "text")
    assert "PATH" in seen and not {"OPENAI_API_KEY", "PERDURE_REDIS_URL", "ANYTHING"} & set(seen)


@pytest.mark.slow
def test_a_secret_is_in_no_error_no_log_and_no_result(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the server itself says it: on stderr, in an error, in a result."""
    monkeypatch.setenv("ANYTHING", CANARY)
    caplog.set_level(logging.DEBUG)
    shout = "import os, sys; sys.exit('I was given ' + os.environ['A_TOKEN'])"
    [command] = mcp_commands(
        "loud", command=[sys.executable, "-c", shout], env={"A_TOKEN": "env:ANYTHING"}, tools=["a"]
    )
    with pytest.raises(RetryableError, match=r"I was given \[secret\]") as failed:
        command.check({})
    told = [repr(failed.value), repr(failed.value.__cause__), caplog.text]
    assert "stderr of MCP server loud: I was given [secret]" in caplog.text
    # The time server repeats a zone that it does not know.
    [command] = mcp_commands(
        "own", command=TIME, env={"A_TOKEN": "env:ANYTHING"}, tools=["get_current_time"]
    )
    with pytest.raises(ToolFailed, match=r"\[secret\]") as refused:
        command.carry_out({"timezone": CANARY}, RoundContext("g"))
    assert not any(CANARY in text for text in [*told, repr(refused.value)])
    # And a variable that it knows, in its result.
    monkeypatch.setenv("ANOTHER", "Europe/Paris")
    [command] = mcp_commands(
        "own", command=TIME, env={"A_TOKEN": "env:ANOTHER"}, tools=["get_current_time"]
    )
    assert (
        command.carry_out({"timezone": "Europe/Paris"}, RoundContext("g"))["timezone"] == "[secret]"
    )


@pytest.mark.slow
def test_a_service_is_spoken_to_over_http_and_met_again_after_its_death(
    context: RoundContext, repository: str
) -> None:
    port = free_port()
    [command] = mcp_commands("git", url=f"http://127.0.0.1:{port}/mcp", tools=["git_log"])
    log = {"repo_path": repository}
    with git_over_http(port) as running:
        assert WORDS in command.carry_out(log, context)
        with pytest.raises(ToolFailed, match="/nowhere"):
            command.carry_out({"repo_path": "/nowhere"}, context)
        with stopped(running.pid), ThreadPoolExecutor(1) as rounds:
            asked = rounds.submit(command.carry_out, log, context)
            until(lambda: unread(port) > 0, "the call in flight")
            running.kill()
            with pytest.raises(OutcomeUnknown, match="MCP server 'git'"):
                asked.result(20)
    for _ in range(2):  # in the session that was, and in a new one
        with pytest.raises(RetryableError) as failed:
            command.carry_out(log, context)
        assert not isinstance(failed.value, OutcomeUnknown), "nobody was there to do anything"
    with git_over_http(port):
        assert WORDS in command.carry_out(log, context)


ASKING = """
import os, sys, time
from perdure import Command, ControllerExecutorFlow
from perdure.flows.rounds.context import RoundContext
from tests.support.mcp_servers import time_command
command = time_command()
print(command.carry_out({"timezone": "UTC"}, RoundContext("g"))["timezone"], flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, None], ids=["killed", "of its own"])
def test_servers_end_with_the_process_that_started_them(end: signal.Signals | None) -> None:
    wait = "sys.stdin.read()\n"
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKING + wait],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert asking.stdin is not None and asking.stdout is not None
    try:
        assert asking.stdout.readline() == b"UTC\n"
        [pid] = servers_of(asking.pid)
        if end is not None:
            asking.send_signal(end)
        asking.stdin.close()
        asking.wait(20)
        until(lambda: ended(pid), "the server's end")
    finally:
        asking.kill()
        asking.wait()
        asking.stdout.close()


@pytest.mark.slow
def test_a_forked_process_has_sessions_of_its_own() -> None:
    forked = """
child = os.fork()
from tests.support.mcp_servers import servers_of
assert command.carry_out({"timezone": "UTC"}, RoundContext("g"))["timezone"] == "UTC"
assert len(servers_of(os.getpid())) == 1
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert command.carry_out({"timezone": "UTC"}, RoundContext("g"))["timezone"] == "UTC"
print("both")
"""
    done = subprocess.run(
        [sys.executable, "-c", ASKING + forked],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "UTC\nboth\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_run_asks_for_the_time_and_the_log_of_a_repository(
    client: Client, worker_process: StartsWorkers, pool: str, repository: str
) -> None:
    worker = worker_process(
        "--pool",
        pool,
        "--concurrency",
        "2",
        PERDURE_FLOW_MODULES="tests.support.example_flows.mcp_tools",
    )
    run = client.wait(
        client.submit("remote", "when, and what?", {"repository": repository}).id, timeout=60
    )
    assert run.status is RunStatus.COMPLETED, run.error
    turns = client.transcript(run.id)["history"]
    assert [turn["command"]["name"] for turn in turns] == [
        "time.get_current_time",
        "time.get_current_time",
        "git.git_log",
    ]
    assert turns[0]["observation"]["timezone"] == "UTC"
    assert "No time zone found with key Nowhere" in turns[1]["observation"]["error"]
    assert WORDS in turns[2]["observation"]
    playing = [worker.process.pid, *children(worker.process.pid)]
    started = [pid for process in playing for pid in servers_of(process, "mcp_server")]
    assert started
    worker.kill()
    until(lambda: all(map(ended, started)), "the servers' end")
