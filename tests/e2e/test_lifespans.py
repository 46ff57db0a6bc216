"""``deps`` in worker processes: made once in each, shared by its rounds, closed at its end, and no
run is lost if that fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import Client, Settings
from tests.support.os_processes import end_all
from tests.support.redis_servers import until
from tests.support.workers import WorkerProcess

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
