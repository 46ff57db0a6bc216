"""Each command once as a separate process, in its plain form, on a real server.

Processes are the subject: the entry, the streams, the exit code, and the signals that end a lasting
command. The work of the commands is tested in tests/run/commands.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import redis

from perdure import Client, Settings
from perdure.worker.cli.main import COMMANDS
from tests.support.command_line import CommandLine, CommandProcess, wait_for_line
from tests.support.leftover_keys import keys_under
from tests.support.redis_servers import CrashableServer
from tests.support.round_driver import Driver, driving

PREFIX = "smoke"


class Ends(NamedTuple):
    """A command that ends by itself: its arguments, its exit code, and a text that it prints."""

    words: str
    code: int
    text: str


class GoesOn(NamedTuple):
    """A command that goes on: its arguments, how it says that it has begun, and its end."""

    words: str
    ready: str
    signal: signal.Signals
    code: int


#: The runs of the fixture `runs` are named by their state. Each is changed by one command at most.
ENDING = {
    "workers": Ends("", 0, "threads"),
    "flows": Ends("", 0, "trouble\t1 worker"),
    "again": Ends("done", 0, "perdure watch"),
    "submit": Ends("countdown try", 0, "perdure watch"),
    "fork": Ends("done 2", 0, "forked from done before step 2"),
    "list": Ends("", 0, "done\tcompleted\tcountdown"),
    "show": Ends("done", 0, "answer: counted down from 1"),
    "watch": Ends("done", 0, "answer: counted down from 1"),
    "wait": Ends("done", 0, "answer: counted down from 1"),
    "history": Ends("done", 2, "is not a graph"),
    "tree": Ends("done", 0, "done"),
    "why": Ends("done", 0, "why: ended"),
    "inbox": Ends("", 0, "asks\tquestion"),
    "stop": Ends("to-stop", 0, "to-stop is stopped"),
    "resume": Ends('to-answer --answer "blue"', 0, "to-answer continues"),
    "add": Ends("to-add tokens=5", 0, "tokens"),
    "signal": Ends("waits paid", 0, "number 1"),
    "send": Ends("ada hello --flow countdown", 0, "\n"),
    "thread": Ends("ben", 0, "you: hello"),
    "say": Ends("waits hello", 0, "said to waits"),
    "ask": Ends("waits hello --timeout 0.01", 9, "has not replied"),
    "value": Ends("done", 0, "counted down from 1"),
    "notes": Ends("put pets hen", 0, "pets"),
    "retry": Ends("to-retry", 0, "to-retry is retried"),
    "delete": Ends("to-delete", 0, "to-delete is deleted"),
    "notifications": Ends("list", 0, ""),
    "token": Ends("create ann --scope read", 0, "hf_"),
    "doctor": Ends("", 0, "ok       append-only-file"),
    "size": Ends("--runs 10", 0, "worker processes"),
}
GOING_ON = {
    "demo": GoesOn("--json", "Started a server", signal.SIGINT, 130),
    "up": GoesOn("--no-server --concurrency 1", "worker ready", signal.SIGINT, 0),
    "worker": GoesOn("--concurrency 1", "worker ready", signal.SIGTERM, 0),
    "server": GoesOn("--port 0", "serving at", signal.SIGTERM, 0),
}


@pytest.fixture(scope="module")
def worker(server: CrashableServer) -> Iterator[Driver]:
    """A worker that has left a run in each state that a command needs."""
    modules = ("tests.support.example_flows.rings",)
    settings = Settings(redis_url=server.url, prefix=PREFIX, flow_modules=modules)
    with driving(settings) as worker:
        make_runs(worker.client)
        worker.play()
        for run_id in ("waits", "to-stop", "to-add"):
            worker.client.submit("countdown", "x", run_id=run_id, budgets={"tokens": 1})
        yield worker
    with redis.Redis.from_url(server.url) as client:
        client.delete(*keys_under(client, PREFIX))


@pytest.fixture
def runs(worker: Driver) -> Settings:
    """The settings of a server with such runs, on which the worker has just announced itself."""
    worker.sweeper_of_a_worker().announce()
    return worker.client.settings


def make_runs(client: Client) -> None:
    """Submit the runs that are to be played."""
    for run_id in ("done", "to-delete"):
        client.submit("countdown", "x", {"rounds": 1}, run_id=run_id)
    for run_id in ("asks", "to-answer"):
        client.submit("question", "which colour?", run_id=run_id)
    client.submit("trouble", "x", {"kind": "fatal"}, run_id="to-retry")
    client.send("ben", "hello", flow="countdown", inputs={"rounds": 0})


@pytest.mark.parametrize("command", ENDING)
def test_a_command_does_its_work_and_ends(command: str, runs: Settings, tmp_path: Path) -> None:
    words, code, text = ENDING[command]
    done = CommandProcess(tmp_path, runs)(command, *words.split())
    assert (done.code, text in done.out + done.err) == (code, True), done


@pytest.mark.parametrize("command", GOING_ON)
def test_a_command_that_goes_on_begins_and_ends_by_a_signal(
    command: str, runs: Settings, tmp_path: Path
) -> None:
    words, ready, number, code = GOING_ON[command]
    own = {"TMPDIR": str(tmp_path)}  # `demo` and `up` have a server of their own
    perdure = CommandLine(tmp_path, None if command in ("demo", "up") else runs, **own)
    with perdure.running(command, *words.split()) as process:
        wait_for_line(process, ready)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in said) == (code, False), said


def test_each_command_is_tried() -> None:
    assert {*ENDING, *GOING_ON} == set(COMMANDS)
