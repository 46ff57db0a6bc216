"""A process that dies while it forks a run."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from multiprocessing import get_context
from typing import Any

import pytest

from perdure import Client, Settings
from tests.support.forked_runs import DONE, history, played, registered
from tests.support.round_driver import Driver

__all__ = ["registered"]


def fork_and_die(settings: Settings, old: str, at: int) -> None:
    """Fork a run in a process that is killed after the server has the submission, or before."""
    with closing(Client(settings=settings)) as client:
        script = client._store._call

        def call(name: str, *args: Any) -> Any:
            if name == "submit_run" and at == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = script(name, *args)
            if name == "submit_run":
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        client._store._call = call  # type: ignore[method-assign]
        client.fork(old, 4, run_id="fork", idempotency_key="k")


@pytest.mark.parametrize("at", [0, 1], ids=["before", "behind"])
def test_a_kill_amid_a_fork_loses_nothing_and_doubles_nothing(
    client: Client, driver: Driver, settings: Settings, at: int
) -> None:
    old = played(client, driver, "adder")
    process = get_context("fork").Process(target=fork_and_die, args=(settings, old, at))
    process.start()
    process.join(20)
    assert process.exitcode == -signal.SIGKILL
    fork = client.fork(old, 4, run_id="fork", idempotency_key="k")
    driver.sweep_and_play()
    driver.play()
    assert client.get(fork.id).answer == client.get(old).answer
    assert history(client, fork.id) == history(client, old)
    assert dict(DONE) == {"add 2": 1, "add 3": 1}
