"""A test of a commit is a stranger's command: it leaves nothing behind, however it behaves."""

from __future__ import annotations

import threading
from pathlib import Path
from uuid import uuid4

import pytest

from perdure.flows.core.errors import RoundStopped
from perdure.flows.executors.subprocesses import TAIL_BYTES, ProcessEnding, run_watched
from perdure.flows.library.git.environment import clean_environment
from tests.support.os_processes import alive, numbers, wait_for


def shell(
    command: str,
    directory: Path,
    timeout: float | None = None,
    cancelled: threading.Event | None = None,
) -> ProcessEnding:
    return run_watched(
        ["sh", "-c", command],
        directory,
        clean_environment(),
        # Of its own: processes are killed by it, and tests may run beside each other.
        mark=f"BISECT_WORKTREE_{uuid4().hex}",
        timeout=timeout,
        cancelled=cancelled or threading.Event(),
    )


#: A hanging test with a child, a grandchild, a child in another process group and another in a new
#: session.
HANGING = """
echo $$ >>pids
sleep 600 & echo $! >>pids
sh -c 'sleep 600 & echo $! >>pids; wait' &
python3 -c 'import os, time; os.setpgid(0, 0); print(os.getpid(), file=open("pids", "a"), flush=True); time.sleep(600)' &
python3 -c 'import os, time; os.setsid(); print(os.getpid(), file=open("pids", "a"), flush=True); time.sleep(600)' &
wait
"""


def ended(file: Path) -> int:
    """Wait until all processes with their ids in ``file`` have ended; return their number."""
    processes = [int(word) for word in file.read_text().split()]
    wait_for(lambda: not any(alive(process) for process in processes))
    return len(processes)


def test_a_hanging_test_is_killed_with_all_its_processes(tmp_path: Path) -> None:
    # A busy machine may need longer than the first timeouts to start all five.
    for timeout in (1.5, 6, 24):
        directory = tmp_path / str(timeout)
        directory.mkdir()
        ending = shell(HANGING, directory, timeout=timeout)
        assert ending.exit is None
        started = ended(directory / "pids")
        if started == 5:
            return
    pytest.fail(f"{started} of five processes started within {timeout} s")


def test_a_cancelled_round_kills_its_test_and_raises_round_stopped(tmp_path: Path) -> None:
    cancelled = threading.Event()

    def cancel_once_it_runs() -> None:
        numbers(tmp_path / "pids", 5)
        cancelled.set()

    canceller = threading.Thread(target=cancel_once_it_runs)
    canceller.start()
    with pytest.raises(RoundStopped):
        shell(HANGING, tmp_path, timeout=60, cancelled=cancelled)
    canceller.join()
    processes = numbers(tmp_path / "pids", 5)
    wait_for(lambda: not any(alive(process) for process in processes))


def test_what_a_test_left_in_the_background_ends_with_it(tmp_path: Path) -> None:
    ending = shell("sleep 600 & echo $! >pids; exit 3", tmp_path, timeout=60)
    assert ending.exit == 3
    [process] = numbers(tmp_path / "pids", 1)
    wait_for(lambda: not alive(process))


def test_the_end_of_the_output_is_kept_and_no_more(tmp_path: Path) -> None:
    ending = shell("seq 1 100000; echo the end >&2", tmp_path)
    assert ending.tail.endswith("100000\nthe end\n")
    assert len(ending.tail.encode()) <= TAIL_BYTES


def test_output_without_end_does_not_outlast_the_timeout(tmp_path: Path) -> None:
    ending = shell("yes", tmp_path, timeout=0.3)
    assert ending.exit is None
    assert ending.tail.startswith(("y", "\n"))


def test_a_test_that_closes_its_output_is_still_waited_for(tmp_path: Path) -> None:
    assert shell("exec >&- 2>&-; sleep 0.2; exit 7", tmp_path).exit == 7


def test_output_that_is_not_utf_8_is_kept_readable(tmp_path: Path) -> None:
    assert shell(r"printf 'caf\351\n'", tmp_path).tail == "caf\N{REPLACEMENT CHARACTER}\n"


def test_a_test_sees_neither_gits_nor_perdures_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("PERDURE_REDIS_URL", "redis://:password@localhost")
    tail = shell("env", tmp_path).tail
    assert "GIT_DIR" not in tail
    assert "PERDURE_" not in tail


def test_a_test_gets_nothing_on_its_standard_input(tmp_path: Path) -> None:
    assert shell("read -r line", tmp_path, timeout=60).exit == 1
