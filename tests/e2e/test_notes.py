"""A note of a round whose worker is killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure import Client
from tests.support.example_flows import notes  # noqa: F401 -- registers flows
from tests.support.workers import WorkerProcess

MODULE = "tests.support.example_flows.notes"


@pytest.mark.slow
def test_a_worker_that_dies_behind_its_note_has_kept_it_once(
    client: Client, worker_process: Callable[..., WorkerProcess]
) -> None:
    def worker() -> WorkerProcess:
        times = {"PERDURE_LEASE_SECONDS": "1", "PERDURE_HEARTBEAT_SECONDS": "0.3"}
        return worker_process(
            "--pool", "solo", PERDURE_FLOW_MODULES=MODULE, PERDURE_SWEEP_SECONDS="0.2", **times
        )

    first = worker()
    run = client.submit("note_taker", "die", submitted_by="ada")
    assert first.process.wait(30) == -9
    [note] = client.notes("user:ada")
    second = worker()
    assert client.wait(run.id, 30).answer == []
    [again] = client.notes("user:ada")
    assert (again.key, again.run_id) == (note.key, run.id)
    assert again.value == {"pid": second.process.pid}
    assert client.result(client.submit("note_taker", "later", submitted_by="ada"), 30) == ["die"]
