"""The cost of a round on the wire: one command if its commit prefetches the next, else three:
BRPOP, claim and commit.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import tests.support.named_crash_points  # noqa: F401 (registers its flow)
from perdure import Client, Settings
from perdure.worker.store.scripts import TRANSITIONS, source
from tests.conftest import StartsWorkers
from tests.support import named_crash_points  # noqa: F401 -- registers flows
from tests.support.in_process_runtime import runtime_of
from tests.support.redis_commands import monitored
from tests.support.redis_servers import server
from tests.support.workers import workers

RUNS = 10
ROUNDS = 51


CLAIMING = {
    "claim_round",
    "commit_round",
    "commit_and_continue",
    "extend_leases",
    "sweep_due",
    "submit_run",
    "HGETALL",
    "XREAD",
}
#: About once a second; figures of rounds are some thirty, in one exchange.
ANNOUNCING = {
    "TIME", "MULTI", "ZADD", "HSET", "ZRANGEBYSCORE", "EXEC", "HINCRBY", "HINCRBYFLOAT", "PEXPIRE",
}  # fmt: skip
#: A round that waited for more than a few ms looks at its run's stop and lease.
LOOKING = {"HMGET"}
CONNECTING = {"HELLO", "CLIENT", "SCRIPT", "PING", "ECHO"}


@pytest.mark.slow
def test_a_round_is_three_commands_on_the_wire_where_commits_do_not_fetch(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process(PERDURE_FETCH="false")
    counts = counted(client)
    assert counts["claim_round"] == RUNS * ROUNDS
    # An idle worker's BRPOP ends empty once a second; beyond that each pops one message.
    assert RUNS * ROUNDS <= counts["BRPOP"] <= RUNS * ROUNDS + 60
    assert set(counts) <= {"BRPOP"} | CLAIMING | ANNOUNCING | LOOKING | CONNECTING, counts


def test_a_round_is_mostly_one_command_on_the_wire(
    client: Client, worker_process: StartsWorkers
) -> None:
    worker_process()
    counts = counted(client)
    asked_for = counts["claim_round"]
    assert asked_for < RUNS * ROUNDS / 3 and asked_for <= counts["BRPOP"] <= asked_for + 60
    assert set(counts) <= {"BRPOP"} | CLAIMING | ANNOUNCING | LOOKING | CONNECTING, counts


@pytest.mark.slow
def test_in_the_outbox_a_round_is_two_commands_of_the_server_that_holds_the_runs(
    settings: Settings,
) -> None:
    with server("valkey", "everysec") as other:
        apart = settings.model_copy(update={"broker_url": other.url})
        client = Client(settings=apart)
        with workers(1, apart):
            counts = counted(client)
        client.close()
    assert set(counts) <= CLAIMING | ANNOUNCING | LOOKING | CONNECTING, counts


def test_a_command_that_is_not_idempotent_is_one_command_more_on_the_wire(
    client: Client, tmp_path: Path
) -> None:
    """The rounds are played in this process: decide, charge, finish.

    The intent before the charge is the one extra exchange.
    """

    def played() -> str:
        run = client.submit(
            "mortal", "charge once", {"ledger": str(tmp_path / "ledger"), "policy": "tell"}
        )
        for step in range(3):
            runtime_of(client).rounds.run(run.id, 0, step)
        return run.id

    played()  # from here on the server knows the scripts
    with monitored(client._store) as counts:
        run_id = played()
    assert client.get(run_id).answer == "charged"
    moves = {
        name: count
        for name, count in counts.items()
        if name.endswith(("_round", "_intent", "_once"))
    }
    assert moves == {"claim_round": 3, "commit_round": 3, "record_intent": 1}
    assert set(counts) <= {*moves, "submit_run"} | CLAIMING | ANNOUNCING | LOOKING | CONNECTING, (
        counts
    )


def counted(client: Client) -> Counter[str]:
    """Count the commands that the runs' server receives while some runs are played."""
    for name in TRANSITIONS:  # an unknown script is sent once more, whole
        client._store.redis.script_load(source(name))
    warm = client.submit("countdown", "warm up", {"rounds": 2})
    client.wait(warm.id, 30)
    ids = [f"wire{number}" for number in range(RUNS)]
    with monitored(client._store) as counts:
        for run_id in ids:
            client.submit("countdown", "count", {"rounds": ROUNDS // 2}, run_id=run_id)
        for run_id in ids:
            client.wait(run_id, 60)
    rounds = RUNS * ROUNDS
    print(f"{rounds} rounds: {dict(counts)}")
    assert counts["commit_round"] + counts["commit_and_continue"] == rounds
    return counts
