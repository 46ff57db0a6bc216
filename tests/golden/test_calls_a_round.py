"""The commands that reach Redis for each thing a user or a worker does.

Everything is played in this process, once to open connections and load scripts, then counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import pytest

from perdure import Client
from perdure.worker.runtime.runtime import Runtime
from perdure.worker.settings import Settings
from tests.golden.golden_files import compare
from tests.support.in_process_runtime import begin_fast_path, runtime_of
from tests.support.redis_commands import monitored


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings of a process whose heartbeat and sweeper send nothing meanwhile."""
    quiet = {"heartbeat_seconds": 60.0, "lease_seconds": 300.0, "sweep_seconds": 300.0}
    flows = tuple(f"tests.support.example_flows.{name}" for name in ("rings", "child_runs"))
    return settings.model_copy(update={"flow_modules": flows, **quiet})


@pytest.fixture
def fast_engine(settings: Settings, client: Client) -> Iterator[Runtime]:
    """An engine of its own."""
    made = Runtime(runtime_of(client).app, settings)
    yield made
    made.close()


def test_commands_are_those_of_the_golden_file(client: Client, fast_engine: Runtime) -> None:
    compare(
        "calls_a_round",
        {
            "client": {what: counted(client, *steps) for what, steps in CLIENT.items()},
            "round": counted(client, *ROUND),
            "last round": counted(client, *LAST_ROUND),
            "failing round": counted(client, *FAILING_ROUND),
            "round that starts children": counted(client, *FAN_OUT),
            "round of the fast path": fast_rounds(client, fast_engine),
        },
    )


def counted(
    client: Client, prepare: Callable[[Client], str], act: Callable[[Client, str], object]
) -> dict[str, int]:
    """Return how often each command was sent by ``act`` the second time."""
    act(client, prepare(client))
    run_id = prepare(client)
    with monitored(client._store) as counts:
        act(client, run_id)
    return without_connecting(counts)


def without_connecting(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts without what a connection sends when it is opened."""
    return {name: count for name, count in counts.items() if name not in ("CLIENT", "HELLO")}


def nothing(client: Client) -> str:
    """Prepare nothing."""
    return ""


def ledger(client: Client) -> str:
    """Submit a run of two rounds."""
    return client.submit("ledger", "count", {"rounds": 2}).id


def played(client: Client) -> str:
    """Submit a run and play its first round."""
    run_id = ledger(client)
    runtime_of(client).rounds.run(run_id, 0, 0)
    return run_id


def asker(client: Client) -> str:
    """Submit a run that asks a person."""
    run_id = client.submit("asker", "ask").id
    runtime_of(client).rounds.run(run_id, 0, 0)
    return run_id


def errored(client: Client) -> str:
    """Submit a run that ends with an error."""
    run_id = client.submit("trouble", "fail", {"kind": "fatal"}).id
    runtime_of(client).rounds.run(run_id, 0, 0)
    return run_id


def completed(client: Client) -> str:
    """Play a run to its end."""
    run_id = played(client)
    runtime_of(client).rounds.run(run_id, 0, 1)
    return run_id


CLIENT = {
    "submit": (nothing, lambda client, _: ledger(client)),
    "get": (ledger, lambda client, run_id: client.get(run_id)),
    "events": (ledger, lambda client, run_id: list(client.events(run_id, follow=False))),
    "why": (ledger, lambda client, run_id: client.why(run_id)),
    "stop": (ledger, lambda client, run_id: client.request_stop(run_id)),
    "resume": (asker, lambda client, run_id: client.resume(run_id, answer="yes")),
    "retry": (errored, lambda client, run_id: client.retry(run_id)),
    "delete": (completed, lambda client, run_id: client.delete(run_id)),
}
ROUND = ledger, lambda client, run_id: runtime_of(client).rounds.run(run_id, 0, 0).word
LAST_ROUND = played, lambda client, run_id: runtime_of(client).rounds.run(run_id, 0, 1).word
FAILING_ROUND = (
    lambda client: client.submit("trouble", "fail", {"times": 1}).id,
    lambda client, run_id: runtime_of(client).rounds.run(run_id, 0, 0).word,
)
FAN_OUT = (
    lambda client: client.submit("fan", "do", inputs={"children": [{}, {}]}).id,
    lambda client, run_id: runtime_of(client).rounds.run(run_id, 0, 0).word,
)


def fast_rounds(client: Client, engine: Runtime) -> dict[str, int]:
    """Return the commands of one round in the middle of a run that keeps its worker."""
    counts: dict[str, int] = {}
    fast = begin_fast_path(engine)
    for _ in range(2):
        run_id = client.submit("threads", "go on", {"rounds": 9}).id
        engine.store.redis.delete(*engine.store.keys.queue_names)
        delivery = fast.handoff(until=math.inf)
        engine.rounds.run(run_id, 0, 0, delivery)
        assert delivery.prefetched is not None
        with monitored(client._store) as seen:
            engine.rounds.run(run_id, 0, 1, fast.handoff(delivery.prefetched.claim, until=math.inf))
        counts = without_connecting(seen)
    return counts
