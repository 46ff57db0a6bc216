"""``deps`` in worker processes: made once in each, shared by its rounds, closed at its end, and no run is lost if that fails."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure import (
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    RoundContext,
    RunStatus,
    Settings,
    Steps,
    command,
    lifespan,
    register,
    workflow,
)
from perdure.testing import Lab
from tests.support.flow_registry import own_registry
from tests.support.os_processes import end_all
from tests.support.redis_servers import CrashableServer, until
from tests.support.round_driver import Driver, driving
from tests.support.workers import WorkerProcess


class Bank:
    """Something that is expensive to open."""

    opened = 0

    def __init__(self) -> None:
        self.is_open = True
        Bank.opened += 1

    def balance(self) -> int:
        assert self.is_open
        return 12


#: Errors with which the next openings fail.
FAULTS: list[Exception] = []


@lifespan(name="a_bank")
def a_bank() -> Iterator[Bank]:
    if FAULTS:
        raise FAULTS.pop()
    bank = Bank()
    yield bank
    bank.is_open = False


class Asking(ControllerExecutorFlow):
    """Asks for the balance."""

    lifespan = a_bank

    def decide(self, context: RoundContext[Bank]) -> Command | Finish:
        assert context.deps.is_open
        if len(context.history) == 0:
            return Command("balance")
        return Finish(context.observation)

    @command(idempotent=True)
    async def balance(self, context: RoundContext[Bank]) -> int:
        """Return the balance."""
        return context.deps.balance()


@pytest.fixture
def driver(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    own_registry(monkeypatch)
    register("asking")(Asking)

    @workflow("asking_in_steps", lifespan=a_bank)
    def asking_in_steps(steps: Steps) -> int:
        return int(steps.step(steps.deps.balance))

    monkeypatch.setattr(Bank, "opened", 0)
    FAULTS.clear()
    with driving(settings) as made:
        yield made
    a_bank.close()


@pytest.mark.parametrize("flow", ["asking", "asking_in_steps"])
def test_all_rounds_of_a_process_share_what_the_first_has_opened(
    client: Client, driver: Driver, flow: str
) -> None:
    runs = [client.submit(flow, "x") for _ in range(3)]
    driver.play()
    assert [client.result(run, 1) for run in runs] == [12, 12, 12]
    assert Bank.opened == 1


def test_a_round_whose_lifespan_cannot_be_opened_is_tried_again_and_nothing_is_lost(
    client: Client, driver: Driver
) -> None:
    FAULTS.append(ConnectionError("no bank at port 1"))
    run = client.submit("asking", "x")
    driver.play()
    waiting = client.get(run.id)
    assert waiting.phase == "waiting" and waiting.details["failures"] == 1
    assert "the lifespan 'a_bank' could not be opened" in waiting.details["last_error"]
    assert "no bank at port 1" in waiting.details["last_error"]
    for _ in range(100):
        if client.get(run.id).status.ended:
            break
        driver.sweep_and_play()
        time.sleep(0.05)
    assert client.result(run, 1) == 12


def test_after_its_last_attempt_the_run_is_errored_and_can_be_retried(
    client: Client, driver: Driver
) -> None:
    FAULTS.append(ConnectionError("no bank at port 1"))
    run = client.submit("asking", "x", retry={"max_attempts": 1})
    driver.play()
    assert client.get(run.id).status is RunStatus.ERRORED
    client.retry(run.id)
    driver.play()
    assert client.result(run, 1) == 12


@pytest.mark.slow
def test_each_story_of_the_crash_lab_opens_its_own(server: CrashableServer, driver: Driver) -> None:
    with Lab(server.url) as lab:
        report = lab(Asking, limit=10)
    assert report.undisturbed.answer == 12
    assert Bank.opened == 2 + 10


FLOW = """
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from perdure import Finish, ControllerExecutorFlow, RoundContext, lifespan, register

LOG = Path(os.environ["LOG"])


def tell(what: str) -> None:
    with LOG.open("a") as log:
        log.write(f"{what} {os.getpid()}\\n")


@lifespan
async def here() -> AsyncIterator[int]:
    tell("opened")
    yield os.getpid()
    tell("closed")


@register("where")
class Where(ControllerExecutorFlow):
    \"\"\"Says in which process it is.\"\"\"

    lifespan = here

    def decide(self, context: RoundContext[int]) -> Finish:
        assert context.deps == os.getpid()
        return Finish(context.deps)
"""


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", "solo", "prefork"])
def test_a_worker_opens_it_once_in_each_process_and_closes_it_at_its_end(
    client: Client, worker_process: Callable[..., WorkerProcess], tmp_path: Path, pool: str
) -> None:
    (tmp_path / "where.py").write_text(FLOW, "utf-8")
    log = tmp_path / "log"
    log.touch()
    worker = worker_process(
        "--pool", pool, "--concurrency", "2", root=tmp_path,
        PERDURE_FLOW_MODULES="where", PYTHONPATH=str(Path.cwd()), LOG=str(log),
    )  # fmt: skip
    assert log.read_text() == ""
    runs = [client.submit("where", "x") for _ in range(6)]
    pids = {client.result(run, 30) for run in runs}
    assert sorted(log.read_text().split("\n")[:-1]) == sorted(f"opened {pid}" for pid in pids)
    assert (worker.process.pid in pids) is (pool != "prefork")
    worker.terminate()
    worker.process.wait(20)
    lines = log.read_text().split()
    assert set(lines[1::2]) == {str(pid) for pid in pids}
    assert lines.count("opened") == lines.count("closed") == len(pids)


@pytest.mark.slow
def test_a_supervised_worker_closes_its_own_in_each_process(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    import os
    import signal
    import subprocess

    (tmp_path / "where.py").write_text(FLOW, "utf-8")
    log = tmp_path / "log"
    log.touch()
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("PERDURE_")},
        "PERDURE_REDIS_URL": str(settings.redis_url),
        "PERDURE_PREFIX": settings.prefix,
        "PERDURE_FLOW_MODULES": "where",
        "PYTHONPATH": str(Path.cwd()),
        "LOG": str(log),
    }
    worker = subprocess.Popen(
        [sys.executable, "-m", "perdure", "worker", "--processes", "2"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until(lambda: len(client.workers()) == 2, "two worker processes", 30)
        pids = {client.result(client.submit("where", "x"), 30) for _ in range(8)}
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)
    finally:
        end_all(worker)
    lines = log.read_text().split()
    assert lines.count("opened") == lines.count("closed") == len(pids)
