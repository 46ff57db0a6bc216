"""A topic that a run takes in its rounds, when workers are killed and while signals arrive."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from perdure import Client, Settings
from tests.support.example_flows import waits  # noqa: F401 -- registers flows
from tests.support.redis_servers import until
from tests.support.workers import workers

MODULE = "tests.support.example_flows.waits"
TOPIC = "order:4711"

pytestmark = pytest.mark.settings(flow_modules=(MODULE,))


def test_a_worker_that_dies_behind_listen_leaves_the_topic_to_the_next_attempt(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    client.signal(topic=TOPIC, name="paid", payload=1, key="event-1")
    environment = {
        "PERDURE_FLOW_MODULES": MODULE,
        "PERDURE_LEASE_SECONDS": "1",
        "PERDURE_HEARTBEAT_SECONDS": "0.2",
    }
    hangs = tmp_path / "hangs"
    run = client.submit("listener", TOPIC, {"total": 2, "hangs": str(hangs)})
    with workers(1, settings, **environment) as (worker,):
        until(hangs.exists, "a round behind listen", 30)
        worker.kill()
        for _ in range(2):
            receipt = client.signal(topic=TOPIC, name="paid", payload=2, key="event-2")
            assert (receipt.run_id, receipt.number) == (run.id, 2)
    with workers(1, settings, **environment):
        assert client.wait(run.id, 60).answer == [1, 2]


def test_signals_from_before_to_after_listen_are_all_taken_once(
    client: Client, settings: Settings
) -> None:
    """Each is sent twice under its key, as by a sender who got no reply."""
    total = 40

    def send() -> None:
        for number in range(total):
            for _ in range(2):
                client.signal(topic=TOPIC, name="paid", payload=number, key=f"event-{number}")

    sender = threading.Thread(target=send)
    sender.start()
    run = client.submit("listener", TOPIC, {"total": total})
    with workers(1, settings, PERDURE_FLOW_MODULES=MODULE):
        assert client.wait(run.id, 90).answer == list(range(total))
    sender.join(30)
