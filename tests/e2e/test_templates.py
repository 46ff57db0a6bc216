"""Real workers play rounds whose messages come from templates; Celery builds all of them if a
receiver is connected.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from perdure import Client, Settings
from perdure.worker.messaging.fast.template import SAMPLES
from perdure.worker.messaging.message import TASKS
from tests.support.workers import ONE_AND_SLOWLY_THE_OTHERS, workers

RUNS, ROUNDS = 4, 12


def told(
    client: Client, settings: Settings, path: Path, pool: str, **environment: str
) -> list[list[str]]:
    """Return the records of tests.support.apps.message_recorder during some runs."""
    path.touch()
    with workers(
        1,
        settings,
        "-P",
        pool,
        "-c",
        "2",
        app="tests.support.apps.message_recorder",
        BUILDING_TOLD=str(path),
        **environment,
    ):
        ids = [client.submit("ledger", "g", {"rounds": ROUNDS}).id for _ in range(RUNS)]
        for run_id in ids:
            assert client.wait(run_id, 60).answer == list(range(ROUNDS))
            assert {event.type for event in client.events(run_id, follow=False)}.isdisjoint(
                {"lost", "failed", "quarantined"}
            )
    return [line.split() for line in path.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("pool", ONE_AND_SLOWLY_THE_OTHERS)
def test_a_worker_lets_celery_build_samples_and_no_more(
    client: Client, settings: Settings, tmp_path: Path, pool: str
) -> None:
    counts = Counter(tuple(line) for line in told(client, settings, tmp_path / "told", pool))
    assert {task for _, _, task in counts} == set(TASKS.values())
    # Two threads may come upon the need for a template at the same moment, and both learn it.
    assert set(counts.values()) <= {len(SAMPLES), 2 * len(SAMPLES)}, counts


@pytest.mark.slow
def test_a_worker_in_which_somebody_listens_lets_celery_build_all(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    lines = told(client, settings, tmp_path / "told", "threads", BUILDING_HEARD="1")
    pushed = RUNS * (ROUNDS - 1)  # the first of each run is the client's
    assert Counter(what for _, what, _ in lines) == {"built": pushed, "heard": pushed}
