"""Nodes that wait for a time or for signals: parked without a worker, and played again when the
wait is over.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, InvalidTransition, RoundContext, RunStatus, Settings, node
from perdure.flows.loading import sources
from perdure.flows.loading.directories import Directories
from perdure.testing import Lab, LabError
from perdure.worker.domain.verdict import VerdictCode
from perdure.worker.errors import Conflict, DamagedRun
from tests.support.example_flows import waits  # noqa: F401 -- registers flows
from tests.support.flow_registry import own_registry
from tests.support.parked_runs import asleep, parked
from tests.support.redis_servers import CrashableServer
from tests.support.round_driver import LASTING, driving
from tests.support.runs import hash_of, phase
from tests.support.runs_in_every_status import play

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.waits",))


def test_a_parked_run_whose_task_is_missing_keeps_the_signal_that_cannot_wake_it(
    client: Client, settings: Settings
) -> None:
    run = parked(client, settings)
    client._store.redis.hdel(client._store.keys.run(run.id), "task")
    with pytest.raises(DamagedRun, match=f"run {run.id}: its task is ''"):
        client.signal(run.id, "paid")
    assert client.unread(run.id) == {"paid": 1}


def test_a_signal_that_ends_a_wait_is_two_scripts_and_no_read_of_the_run(
    client: Client, settings: Settings
) -> None:
    run = parked(client, settings)
    redis: Any = client._store.redis
    redis.config_resetstat()
    client.signal(run.id, "paid")
    calls = redis.info("commandstats")
    assert [calls[f"cmdstat_{name}"]["calls"] for name in ("evalsha", "hgetall")] == [2, 2]


def test_a_signal_wakes_the_run_and_what_it_did_before_is_not_done_again(
    client: Client, settings: Settings
) -> None:
    run = parked(client, settings)
    fields = hash_of(client._store, run.id)
    assert "lease_until" not in fields and fields["message"] == ""
    assert client.get(run.id).status is RunStatus.RUNNING
    receipt = client.signal(run.id, "paid", {"amount": 12})
    assert (receipt.name, receipt.number, receipt.status) == ("paid", 1, "parked")
    assert phase(client._store, run.id) == "queued", "its sender has brought the message"
    play(settings, run.id)
    assert client.get(run.id).answer == ["charge of attempt 1", ["paid", 1, {"amount": 12}]]
    kinds = [event.type for event in client.events(run.id)]
    assert kinds == ["submitted", "parked", "signalled", "woken", "committed", "completed"]


def test_a_signal_that_comes_before_the_wait_is_there_at_once(
    client: Client, settings: Settings
) -> None:
    run = client.submit("payment", "g", {"times": 2})
    client.signal(run.id, "withdrawn", "first")
    client.signal(run.id, "paid", "second")
    play(settings, run.id)
    assert client.get(run.id).answer == [
        "charge of attempt 1",
        ["withdrawn", 1, "first"],
        ["paid", 1, "second"],
    ]


def test_a_signal_sent_again_under_its_key_is_stored_once(
    client: Client, settings: Settings
) -> None:
    run = parked(client, settings, times=2)
    first = client.signal(run.id, "paid", 1, key="event-1")
    assert client.signal(run.id, "paid", 1, key="event-1").number == first.number == 1
    with pytest.raises(Conflict, match="event-1"):
        client.signal(run.id, "paid", 2, key="event-1")
    play(settings, run.id)
    assert phase(client._store, run.id) == "parked"
    client.signal(run.id, "paid", 3, key="event-2")
    play(settings, run.id)
    assert client.get(run.id).answer == ["charge of attempt 1", ["paid", 1, 1], ["paid", 2, 3]]
    with pytest.raises(InvalidTransition, match="completed"):
        client.signal(run.id, "paid")


@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_each_signal_that_a_later_step_waits_for_ends_its_wait(
    client: Client, settings: Settings, before: int
) -> None:
    """A later step needs no more signals than the first, whatever earlier steps took.

    Args:
        before: how many signals have come before the run begins.
    """
    run = client.submit("stamps", "g", {"rounds": [1, 2, 3]})
    numbers = iter(range(6))
    names = ["stamp", "stamp", "seal", "stamp", "seal", "stamp"]

    def signal() -> None:
        number = next(numbers)
        client.signal(run.id, names[number], number)

    for _ in range(before):
        signal()
    play(settings, run.id)
    for _ in range(before, 6):
        assert phase(client._store, run.id) == "parked"
        signal()
        assert phase(client._store, run.id) == "queued", "the signal ended the wait"
        play(settings, run.id)
    expected = list(zip(names, range(6), strict=True))
    assert client.get(run.id).answer == [
        [list(each) for each in expected[:1]],
        [list(each) for each in expected[1:3]],
        [list(each) for each in expected[3:]],
    ]
    assert client.unread(run.id) == {}


@pytest.mark.parametrize(
    ("inputs", "code", "signals"),
    [
        ({}, VerdictCode.WAITING_FOR_A_SIGNAL, ["paid", "withdrawn"]),
        ({"timeout": 60}, VerdictCode.WAITING_FOR_A_SIGNAL, ["paid", "withdrawn"]),
        ({"nap": 60}, VerdictCode.SLEEPING, None),
    ],
    ids=["for a signal", "for a signal or a time", "for a time"],
)
@pytest.mark.settings(**LASTING)
def test_why_says_what_a_run_waits_for(
    client: Client,
    settings: Settings,
    inputs: dict[str, Any],
    code: VerdictCode,
    signals: list[str] | None,
) -> None:
    run = asleep(client, settings) if "nap" in inputs else parked(client, settings, **inputs)
    with driving(settings) as driver:
        driver.sweeper_of_a_worker().announce()
    verdict = client.why(run.id)
    assert (verdict.code, verdict.details.get("signals")) == (code, signals)
    assert (verdict.details["until"] is not None) == bool(inputs)


def test_a_sleeper_that_nothing_will_wake_is_damaged(client: Client, settings: Settings) -> None:
    run = asleep(client, settings)
    client._store.redis.zrem(client._store.keys.due, run.id)
    assert client.why(run.id).code is VerdictCode.QUARANTINED


@pytest.mark.parametrize("name", ["confirm", "gentle"])
def test_a_command_that_says_so_may_wait(client: Client, settings: Settings, name: str) -> None:
    run = client.submit("orders", "g", {"command": name})
    play(settings, run.id)
    assert phase(client._store, run.id) == "parked"
    assert "intent" not in hash_of(client._store, run.id), "it is written again behind the wait"
    client.signal(run.id, "confirmed", "yes")
    play(settings, run.id)
    assert client.get(run.id).answer == "yes"


def test_a_command_that_waits_and_does_not_say_so_is_refused_by_name(
    client: Client, settings: Settings
) -> None:
    run = client.submit("orders", "g", {"command": "hasty"})
    play(settings, run.id)
    ended = client.get(run.id)
    assert ended.status is RunStatus.ERRORED and ended.error is not None
    assert "'hasty'" in ended.error and "@command(waits=True)" in ended.error


def test_a_node_that_catches_its_own_wait_errors(client: Client, settings: Settings) -> None:
    run = client.submit("swallower", "g")
    play(settings, run.id)
    ended = client.get(run.id)
    assert ended.status is RunStatus.ERRORED and ended.error is not None
    assert "'Nap' caught its own wait" in ended.error


INVOICE = """
flow: circular
inputs: {due: {type: string}}
output_keys: [payment]
topology:
- {name: Paid, wait_for: {signal: [paid, cancelled], timeout: 1d, into: payment}}
- {name: Cool, sleep: 10m}
- {name: Due, until: due}
- {name: End, flow: tests.end}
"""


@node("tests.end")
def end(state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
    return {"EARLY_EXIT": True, "answer": state["payment"], "status": "finished"}


@pytest.fixture
def invoice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a flow whose nodes wait, written in YAML."""
    own_registry(monkeypatch)
    monkeypatch.setattr(sources, "_directories", Directories())
    (tmp_path / "invoice.yaml").write_text(INVOICE)
    sources.add_directory(tmp_path)
    return "invoice"


def test_nodes_that_wait_are_written_in_yaml(server: CrashableServer, invoice: str) -> None:
    with Lab(server.url) as lab:
        due = {"due": (datetime.now(UTC) + timedelta(days=2)).isoformat()}
        report = lab(invoice, "g", inputs=due, signals={"paid": [12]}, only="each round", limit=1)
        assert report.undisturbed.answer == {"name": "paid", "payload": 12}
        assert [each.place for each in report.boundaries].count("parked") == 3
        report = lab(invoice, "g", inputs=due, only="each round", limit=1)
        assert report.undisturbed.answer is None, "its time was over"


def test_a_time_that_is_none_is_a_clear_error(server: CrashableServer, invoice: str) -> None:
    with Lab(server.url) as lab, pytest.raises(LabError, match="node Due waits until due"):
        lab(invoice, "g", inputs={"due": "tomorrow"}, signals={"paid": [1]})


def test_stop_and_resume_skip_no_wait_and_begin_none_anew(
    client: Client, settings: Settings
) -> None:
    run = parked(client, settings, timeout=3600)
    ends = hash_of(client._store, run.id)["wait_until"]
    assert client.request_stop(run.id).stopped
    client.signal(run.id, "other")
    client.resume(run.id)
    play(settings, run.id)
    fields = hash_of(client._store, run.id)
    assert (fields["phase"], fields["wait_until"]) == ("parked", ends)
    client.signal(run.id, "paid")
    play(settings, run.id)
    assert client.get(run.id).answer == ["charge of attempt 1", ["paid", 1, None]]
