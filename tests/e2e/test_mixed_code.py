"""Workers with the old and the new code beside each other: the example of
docs/operations/mixed-fleet.md, and a bad deployment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, RunStatus, Settings, VerdictCode
from tests.support.redis_servers import until
from tests.support.workers import WorkerProcess

ROOT = Path(__file__).parents[2]
EXAMPLES = dict(
    re.findall(
        r"```python\n# (\S+)\n(.*?)```",
        (ROOT / "docs/operations/mixed-fleet.md").read_text("utf-8"),
        re.DOTALL,
    )
)
RUNS = 20
#: No worker sweeps, and no run stays with its worker: a run that waits would wait to the end of the
#: test.
UNSWEPT = {
    "PERDURE_SWEEP_SECONDS": "1000",
    "PERDURE_HEARTBEAT_SECONDS": "60",
    "PERDURE_LEASE_SECONDS": "200",
    "PERDURE_FETCH": "0",
}
WAITS = '''
from perdure import Steps, workflow


@workflow("parcel")
def parcel(steps: Steps, item: str) -> str:
    """Ship an item when it is paid."""
    steps.step(ship, item, {name}idempotent=True)
    return steps.wait_for("paid")["signal"]


def ship(item):
    return item
'''


@pytest.fixture
def fleet(settings: Settings, tmp_path: Path) -> Iterator[dict[str, WorkerProcess]]:
    """Workers by name, which are killed afterwards."""
    running: dict[str, WorkerProcess] = {}
    yield running
    for worker in running.values():
        worker.close()


def worker(settings: Settings, directory: Path, code: str, **environment: str) -> WorkerProcess:
    """Start a worker whose flows are in this code."""
    directory.mkdir(exist_ok=True)
    (directory / "parcels.py").write_text(code, "utf-8")
    options = ("--pool", "threads", "--concurrency", "2")
    paths = {"PYTHONPATH": f"{directory}:{ROOT}", "PERDURE_FLOW_MODULES": "parcels"}
    return WorkerProcess(settings, *options, root=directory, **paths, **environment)


def test_in_a_mixed_fleet_no_run_ends_for_its_code(
    client: Client, settings: Settings, tmp_path: Path, fleet: dict[str, WorkerProcess]
) -> None:
    for name, code in EXAMPLES.items():
        fleet[name] = worker(settings, tmp_path / name.removesuffix(".py"), code, **UNSWEPT)
    for each in fleet.values():
        each.ready()
    ids = [client.submit("parcel", inputs={"item": f"item {n}"}).id for n in range(RUNS)]
    handed_on = 0
    for run_id in ids:
        run = client.wait(run_id, 60)
        assert (run.status, run.answer) == (
            RunStatus.COMPLETED,
            f"parcel with {run.inputs['item']}",
        )
        events = list(client.events(run_id, follow=False))
        handed_on += any(event.type == "handed_on" for event in events)
        assert all(
            event.data["to"] == fleet["parcels.py"].name
            for event in events
            if event.type == "handed_on"
        )
    assert handed_on, "no old worker has got a run that the new one began"


def test_after_a_bad_deployment_and_a_rollback_all_runs_complete_by_themselves(
    client: Client, settings: Settings, tmp_path: Path, fleet: dict[str, WorkerProcess]
) -> None:
    good, bad = WAITS.format(name=""), WAITS.format(name="name='renamed', ")
    fleet["good"] = worker(settings, tmp_path / "good", good).ready()
    ids = [client.submit("parcel", inputs={"item": f"item {n}"}).id for n in range(RUNS)]
    until(
        lambda: all(client.get(each).phase == "parked" for each in ids), "all runs are parked", 60
    )
    fleet["good"].kill()
    fleet["bad"] = worker(settings, tmp_path / "bad", bad).ready()
    for run_id in ids:
        client.signal(run_id, "paid")
    until(
        lambda: any(client.why(each).code is VerdictCode.CODE_DOES_NOT_FIT for each in ids),
        "a run waits for code that fits",
        60,
    )
    assert not any(client.get(each).status.ended for each in ids)
    fleet["bad"].kill()
    fleet["back"] = worker(settings, tmp_path / "good", good).ready()
    for run_id in ids:
        assert client.wait(run_id, 120).status is RunStatus.COMPLETED
