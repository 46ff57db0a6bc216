"""An embedded server and the processes that share it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perdure.worker.embedded import EmbeddedServer
from perdure.worker.embedded.binary import EmbeddedServerError
from tests.support.embedded_servers import binary, directory

__all__ = ["binary", "directory"]

ROOT = Path(__file__).parents[2]

#: A process that starts the server at a line of input, prints the result, and stops the server at
#: another line.
STARTER = """
import sys
from pathlib import Path
from perdure.worker.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]), sys.argv[2])
print("ready", flush=True)
for word in sys.stdin:
    getattr(server, word.strip())()
    print(server.pid, server.owned, flush=True)
"""


class Starter:
    """Another process with an EmbeddedServer of the same directory."""

    def __init__(self, directory: Path, binary: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", STARTER, str(directory), str(binary)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
        )  # fmt: skip
        assert self.heard() == ["ready"]

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def heard(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()

    def do(self, word: str) -> list[str]:
        self.say(word)
        return self.heard()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait(20)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(20)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


@pytest.fixture
def starters(directory: Path, binary: Path) -> Iterator[Any]:
    made: list[Starter] = []

    def make() -> Starter:
        made.append(Starter(directory, binary))
        return made[-1]

    yield make
    for starter in made:
        starter.close()


def test_processes_that_start_at_once_get_one_server(
    directory: Path, binary: Path, starters: Any
) -> None:
    racers = [starters() for _ in range(4)]
    for racer in racers:
        racer.say("start")
    answers = [racer.heard() for racer in racers]
    assert len({pid for pid, _ in answers}) == 1
    assert [owned for _, owned in answers].count("True") == 1
    # Each server begins a new log, and reports in it that it is ready: one log, one server.
    assert not (directory / "server.log.1").exists()
    assert (directory / "server.log").read_text().count("eady to accept connections") == 1


def test_only_the_owner_stops_the_server(directory: Path, binary: Path, starters: Any) -> None:
    owner, guest = starters(), starters()
    pid, owned = owner.do("start")
    assert owned == "True"
    assert guest.do("start") == [pid, "False"]
    assert guest.do("stop") == [pid, "False"]
    assert owner.do("stop") == ["None", "False"]
    assert EmbeddedServer.running(directory) is None


def test_a_server_outlives_its_killed_starter_and_the_next_starter_owns_it(
    directory: Path, binary: Path, starters: Any
) -> None:
    first = starters()
    pid, _ = first.do("start")
    first.kill()
    heir = starters()
    assert heir.do("start") == [pid, "True"]
    assert heir.do("stop") == ["None", "False"]


def test_ctrl_c_at_the_starters_terminal_does_not_reach_the_server(
    directory: Path, binary: Path, starters: Any
) -> None:
    starter = starters()
    pid, _ = starter.do("start")
    assert os.getsid(int(pid)) != os.getsid(starter.process.pid)
    os.killpg(starter.process.pid, signal.SIGINT)
    starter.process.wait(20)
    assert EmbeddedServer.running(directory) is not None


def test_stale_files_of_a_dead_server_do_not_hinder_the_next(directory: Path, binary: Path) -> None:
    bystander = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    try:
        (directory / "server.pid").write_text(f"{bystander.pid}\n")
        (directory / "server.sock").write_text("not a socket")
        (directory / "server.lock").write_text("")
        (directory / "owner.lock").write_text("")
        assert EmbeddedServer.running(directory) is None
        with EmbeddedServer(directory, binary) as running:
            assert running.pid not in (bystander.pid, None)
        assert bystander.poll() is None
    finally:
        bystander.communicate()


def test_a_server_that_answers_under_another_process_id_is_not_taken_for_ours(
    directory: Path, binary: Path
) -> None:
    bystander = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    try:
        with EmbeddedServer(directory, binary) as running:
            pid = running.pid
            (directory / "server.pid").write_text(f"{bystander.pid}\n")
            assert running.pid is None
            assert not running.alive()
            with pytest.raises(EmbeddedServerError, match="did not stop"):
                running.stop()
            assert bystander.poll() is None
            (directory / "server.pid").write_text(f"{pid}\n")
            running.start()
            assert running.owned
    finally:
        bystander.communicate()


def test_a_program_that_is_no_server_is_a_clear_error(directory: Path) -> None:
    with pytest.raises(EmbeddedServerError, match="cannot be run"):
        EmbeddedServer(directory, directory / "absent").start()
    with pytest.raises(EmbeddedServerError, match="refused to start"):
        EmbeddedServer(directory, shutil.which("false")).start()
    with pytest.raises(EmbeddedServerError, match="ended while starting"):
        EmbeddedServer(directory, shutil.which("true")).start()
