"""A backlog is not a loss: runs waiting in the queue are left alone, and a run that is lost from it
is still found.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from perdure import Client, Settings
from tests.support.brokers import ground
from tests.support.in_process_runtime import sweeping
from tests.support.redis_servers import until
from tests.support.workers import workers

RESEND_SECONDS = 0.2
#: Events that go with a push of the stored message, beside the first push of a round.
PUSHED_AGAIN = ("resent", "lost", "given_back")


@pytest.fixture(
    params=[
        "fused",
        pytest.param("redis", marks=pytest.mark.slow),
        pytest.param("rabbit", marks=pytest.mark.slow),
    ]
)
def settings(request: pytest.FixtureRequest) -> Iterator[Settings]:
    """On servers that are not killed here, so they may write their logs at leisure."""
    options = {
        "flow_modules": ("tests.support.example_flows.rings",),
        "resend_seconds": RESEND_SECONDS,
    }
    with ground(request.param, "line", "everysec", **options) as (settings, _, _):
        yield settings


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("settings", ["fused", "rabbit"], indirect=True)
def test_ten_thousand_runs_in_line_without_a_worker_are_sent_once_and_the_lost_one_is_found(
    settings: Settings,
) -> None:
    patient = settings.model_copy(update={"resend_seconds": 2.0})
    late = let_a_line_wait(patient, runs=10_000)
    assert 0 <= late <= 2 * 2.0, "found within two graces of the line's having passed it"


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_runs_in_line_without_a_worker_are_sent_once_and_the_lost_one_is_found(
    settings: Settings,
) -> None:
    assert let_a_line_wait(settings, runs=500) >= 0, "while others were in line, so was it"


def let_a_line_wait(settings: Settings, runs: int) -> float:
    """Return the seconds until the lost run is sent again, once the queue has passed it."""
    client = Client(settings=settings)
    line = client._store.keys.queue("controller")
    redis = client._store.redis
    with sweeping(client, settings):
        ids = [client.submit("ledger", "g", {"rounds": 1}).id for _ in range(runs - 1)]
        lost = submit_and_lose(
            client
        )  # the tail of the line: nothing behind it will ever move the cursor past it
        ids.append(lost)
        threading.Event().wait(10 * settings.resend_seconds)
        moved = [run_id for run_id in ids if pushed_again(client, run_id)]
        assert moved == [], "nothing may be sent again while nobody takes anything"
        # A broker that confirms too late gets the message a second time.
        if not client._connection.publisher.outbox:
            assert redis.llen(line) == runs - 1
        with workers(2, settings):
            until(
                lambda: redis.zcard(client._store.keys.index("completed")) >= runs - 1,
                "the end of the line",
                240,
            )
            run = client.wait(lost, 120)

    assert run.answer == [0]
    logs = {run_id: [entry for _, entry in client._store.events.read(run_id)] for run_id in ids}
    commits = {
        run_id: [entry["step"] for entry in log if entry["type"] == "committed"]
        for run_id, log in logs.items()
    }
    assert [run_id for run_id in ids if commits[run_id] != ["0"]] == []
    if not client._connection.publisher.outbox:
        assert redis.info("commandstats")["cmdstat_lpush"]["calls"] == runs, (
            "each round is pushed to the far end once"
        )
    again = {run_id: pushed_again(client, run_id) for run_id in ids}
    messages = runs + sum(map(len, again.values()))
    print(f"{messages} messages for {runs} commits; pushed again: {messages - runs}")
    assert messages <= 1.1 * runs
    assert again[lost] == ["resent"], "it was found by one mark and one push"
    passed = max(
        entry["at"]
        for run_id, log in logs.items()
        if run_id != lost
        for entry in log
        if entry["type"] == "committed"
    )
    found = next(entry["at"] for entry in logs[lost] if entry["type"] == "resent")
    print(f"the lost one was sent again {int(found) - int(passed)} ms after the line had passed it")
    client.close()
    return (int(found) - int(passed)) / 1000


def pushed_again(client: Client, run_id: str) -> list[str]:
    """Return the events of a run that go with a later push of its stored message."""
    return [
        entry["type"]
        for _, entry in client._store.events.read(run_id)
        if entry["type"] in PUSHED_AGAIN
    ]


def submit_and_lose(client: Client) -> str:
    """Submit a run whose first message never reaches the broker, though it has its place there."""
    dispatcher = client._connection.publisher
    if dispatcher.outbox:
        silenced = Client(settings=client.settings)
        silenced._connection.publisher.publish = lambda messages: None  # type: ignore[method-assign]
        run_id = silenced.submit("ledger", "g", {"rounds": 1}).id
        silenced.close()
        return run_id
    run_id = client.submit("ledger", "g", {"rounds": 1}).id
    redis, keys = client._store.redis, client._store.keys
    assert redis.lrem(keys.queue("controller"), 1, redis.hget(keys.run(run_id), "message")) == 1
    return run_id
