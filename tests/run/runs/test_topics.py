"""Signals by a business key: to the run that holds a topic, from before its submission on, by
Python, HTTP and the command line.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from perdure import (
    Client,
    Conflict,
    InvalidInput,
    MailboxFull,
    RemoteClient,
    Run,
    Settings,
    Taken,
)
from perdure.worker.cli.main import perdure
from perdure.worker.client.tokens import Tokens
from perdure.worker.errors import DamagedRun
from perdure.worker.operations.validation import MOST_KEPT
from tests.support.command_line import CommandLine
from tests.support.example_flows import waits  # noqa: F401 -- registers flows
from tests.support.in_process_server import Site, site_on
from tests.support.redis_servers import CrashableServer, until
from tests.support.round_driver import playing
from tests.support.runs import hash_of, phase
from tests.support.runs_in_every_status import play
from tests.support.threaded_server import serving

MODULE = "tests.support.example_flows.waits"
TOPIC = "order:4711"


pytestmark = pytest.mark.settings(flow_modules=(MODULE,))


def held(client: Client, **options: object) -> Run:
    """Submit a run that holds the topic."""
    return client.submit("payment", "g", topic=TOPIC, **options)  # type: ignore[arg-type]


def test_a_signal_reaches_the_run_before_and_after_its_submission(
    client: Client, settings: Settings
) -> None:
    receipt = client.signal(topic=TOPIC, name="paid", payload=1, key="event-1")
    assert (receipt.run_id, receipt.number, receipt.status) == (None, 1, "kept")
    run = held(client, inputs={"times": 2})
    assert client.get(run.id).details["topic"] == TOPIC
    again = client.signal(topic=TOPIC, name="paid", payload=1, key="event-1")
    assert (again.run_id, again.number, again.status) == (run.id, 1, "queued")
    play(settings, run.id)
    assert phase(client._store, run.id) == "parked"
    verdict = client.why(run.id)
    assert "by its topic order:4711" in verdict.sentence and verdict.details["topic"] == TOPIC
    receipt = client.signal(topic=TOPIC, name="paid", payload=2)
    assert (receipt.run_id, receipt.ends_wait) == (run.id, True)
    play(settings, run.id)
    assert client.get(run.id).answer[1:] == [["paid", 1, 1], ["paid", 2, 2]]


def test_a_topic_is_held_by_one_live_run(client: Client) -> None:
    run = held(client)
    with pytest.raises(Taken, match="order:4711") as refused:
        held(client)
    assert run.id not in str(refused.value)
    assert client.submit("payment", "g", topic="order:4712").details["topic"] == "order:4712"
    client.request_stop(run.id)
    assert held(client).id != run.id


def test_the_topic_is_part_of_what_an_idempotency_key_stands_for(client: Client) -> None:
    run = held(client, idempotency_key="k")
    assert held(client, idempotency_key="k").id == run.id
    with pytest.raises(Conflict):
        client.submit("payment", "g", topic="order:4712", idempotency_key="k")


def test_what_a_signal_to_a_topic_cannot_be_is_refused(client: Client) -> None:
    for given, why in (
        ({}, "a run_id or a topic"),
        ({"run_id": "r", "topic": TOPIC}, "not both"),
        ({"run_id": "r", "keep": 1}, "keep is for a signal to a topic"),
        ({"topic": TOPIC, "keep": 0}, "keep should be seconds"),
        ({"topic": TOPIC, "keep": MOST_KEPT + 1}, "30 days"),
        ({"topic": TOPIC, "keep": True}, "keep should be seconds"),
        ({"topic": "a b"}, "topic should be letters"),
        ({"topic": "x" * 201}, "at most 200"),
        ({"topic": "a/b/c"}, "topic should be letters"),
        ({"topic": TOPIC, "name": ""}, "name should be letters"),
    ):
        with pytest.raises(InvalidInput, match=why):
            client.signal(**{"name": "paid", **given})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="topic should be letters"):
        client.submit("payment", "g", topic="")


def test_what_a_topic_cannot_take_is_named(client: Client) -> None:
    sent = client.signal(topic=TOPIC, name="paid", payload=1, key="k", keep=MOST_KEPT)
    with pytest.raises(Conflict, match="signal 1 that waits"):
        client.signal(topic=TOPIC, name="paid", payload=2, key="k")
    for _ in range(99):
        client.signal(topic=TOPIC, name="paid")
    with pytest.raises(MailboxFull, match="100 signals wait"):
        client.signal(topic=TOPIC, name="paid")
    assert sent == client.signal(topic=TOPIC, name="paid", payload=1, key="k")
    for _ in range(4):
        client.signal(topic="large", name="paid", payload="x" * 262_000)
    with pytest.raises(MailboxFull, match="1 MiB of signals wait"):
        client.signal(topic="large", name="paid", payload="x" * 262_000)
    run = held(client)
    with pytest.raises(Conflict, match=f"run {run.id}"):
        client.signal(topic=TOPIC, name="paid", payload=2, key="k")
    client._store.redis.set(client._store.keys.topic("odd"), "x")
    with pytest.raises(DamagedRun, match="topic odd"):
        client.signal(topic="odd", name="paid")
    with pytest.raises(DamagedRun, match="topic:odd"):
        client.submit("payment", "g", topic="odd")


def test_signals_from_before_to_after_the_submission_are_all_taken_once(
    client: Client, settings: Settings
) -> None:
    """Each is sent twice under its key, as by a sender who got no reply."""
    senders, each = 4, 60
    started = threading.Event()

    def send(sender: int) -> None:
        for number in range(each):
            if number == each // 3:
                started.wait(30)
            for _ in range(2):
                client.signal(
                    topic=TOPIC, name="paid", payload=[sender, number], key=f"{sender}-{number}"
                )

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(senders)]
    with playing(settings):
        for thread in threads:
            thread.start()
        until(
            lambda: client.signal(topic=TOPIC, name="other").number > senders * (each // 4),
            "signals that wait",
        )
        run = client.submit("collector", "g", {"total": senders * each}, topic=TOPIC)
        started.set()
        done = client.wait(run.id, 60)
    for thread in threads:
        thread.join(30)
    taken = [tuple(payload) for payload in done.answer]
    assert len(taken) == len(set(taken)) == senders * each, "0 taken twice, 0 lost"
    for sender in range(senders):
        numbers = [number for who, number in taken if who == sender]
        assert numbers == list(range(each)), "in the order of their sender"


@pytest.fixture
def site(server: CrashableServer) -> Iterator[Site]:
    with site_on(server) as made:
        yield made


def test_over_http_topics_belong_to_their_callers(site: Site) -> None:
    ann = site.asking(site.token("ann", "submit", "signal", "read"))
    bob = site.asking(site.token("bob", "submit", "signal"))
    path = f"/api/v1/topics/{TOPIC}/signals/paid"
    told = ann.post(f"{path}?keep=60", json={"payload": 1}, headers={"idempotency-key": "k"})
    assert (told.status_code, told.json()["run_id"], told.json()["status"]) == (202, None, "kept")
    body = {"flow": "countdown", "goal": "g", "topic": TOPIC}
    made = ann.post("/api/v1/runs", json=body)
    assert made.json()["details"]["topic"] == TOPIC
    run_id = made.json()["id"]
    assert ann.post(path).json()["run_id"] == run_id
    assert bob.post(path).json()["run_id"] is None
    assert site.client.signal(topic=f"ann/{TOPIC}", name="paid").run_id == run_id
    refused = ann.post("/api/v1/runs", json=body)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:perdure:taken")
    assert bob.post("/api/v1/runs", json=body).status_code == 201
    assert f">{TOPIC}<" in ann.get(f"/runs/{run_id}").text
    assert ann.post(f"{path}?keep=0").status_code == 422
    assert ann.post("/api/v1/topics/a b/signals/paid").status_code == 422


def test_the_remote_client_signals_topics(client: Client, settings: Settings) -> None:
    token = Tokens(client).create("ann", ["submit", "signal", "read"]).text
    with serving(settings) as url:
        remote = RemoteClient(url, token)
        kept = remote.signal(topic=TOPIC, name="paid", payload=1, key="k", keep=60)
        assert (kept.run_id, kept.status) == (None, "kept")
        store = client._store
        assert 0 < store.redis.pttl(store.keys.topic(f"ann/{TOPIC}")) <= 60_000
        run = remote.submit("payment", "g", topic=TOPIC)
        assert remote.signal(topic=TOPIC, name="paid", payload=1, key="k").run_id == run.id
        with pytest.raises(Taken):
            remote.submit("payment", "g", topic=TOPIC)
        with pytest.raises(InvalidInput, match="topic"):
            remote.signal(topic="ann/x", name="paid")
        assert [row.run_id for row in remote.signal_many("paid", flow="payment")] == [run.id]
        remote.close()


def test_the_command_line_signals_topics(
    tmp_path: Path, client: Client, settings: Settings
) -> None:
    command_line = CommandLine(tmp_path, settings)
    told = command_line("signal", "--topic", TOPIC, "paid", "--payload", "1", "--keep", "60")
    assert "number 1 of those that wait; no run holds the topic now" in told.out
    told = command_line("submit", "countdown", "g", "--topic", TOPIC, "--json")
    run_id = told.json["id"]
    assert hash_of(client._store, run_id)["topic"] == TOPIC
    told = command_line("signal", "--topic", TOPIC, "paid", "--json")
    assert (told.json["run_id"], told.json["number"]) == (run_id, 2)


def test_the_command_line_says_that_a_run_has_completed_which_knows_the_signal(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    command_line, run = CommandLine(tmp_path, settings), held(client)
    send = ("signal", run.id, "paid", "--payload", "1", "--key", "event-1")
    assert "may take it later" in command_line(*send).out
    play(settings, run.id)
    assert client.get(run.id).status.value == "completed"
    again = command_line(*send)
    assert again.code == 0 and "has completed" in again.out and "later" not in again.out


def test_a_payload_is_read_from_a_file_and_a_wrong_one_is_not_shown_whole(
    tmp_path: Path, client: Client, settings: Settings
) -> None:
    command_line = CommandLine(tmp_path, settings)
    run = client.submit("countdown", "g")
    large = tmp_path / "large.json"
    large.write_text(json.dumps("x" * 200_000))
    told = command_line("signal", run.id, "paid", "--payload", f"@{large}", "--json")
    assert told.json["number"] == 1
    large.write_text('"cut off' + "x" * 200_000)
    told = command_line("signal", run.id, "paid", "--payload", f"@{large}")
    assert (told.code, len(told.err) < 1_000, str(large) in told.err) == (2, True, True)
    told = command_line("signal", run.id, "paid", "--payload", "@no.json")
    assert (told.code, "no.json" in told.err) == (2, True)


@pytest.mark.parametrize(
    "wrong",
    [
        ["paid"],
        ["--topic", TOPIC],
        ["r", "paid", "--topic", TOPIC],
        ["--flow", "f", "--topic", "t", "n"],
    ],
)
def test_a_signal_names_a_run_or_a_topic(wrong: list[str]) -> None:
    assert CliRunner().invoke(perdure, ["signal", *wrong]).exit_code == 2


def test_a_signal_to_many_runs_is_stored_once_by_each_that_matches(client: Client) -> None:
    def submitted(run_id: str, flow: str = "payment", **labels: str) -> None:
        client.submit(
            flow, "g", {"total": 1} if flow == "collector" else {}, run_id=run_id, labels=labels
        )

    submitted("one", region="eu")
    submitted("two", region="eu")
    submitted("three", region="us")
    submitted("four", flow="collector", region="eu")
    submitted("done", region="eu")
    client.request_stop("done")
    client.signal("two", "paid", 2, key="k")
    for _ in range(2):
        rows = client.signal_many("paid", 1, flow="payment", labels={"region": "eu"}, key="k")
        assert {row.run_id: row.why_not is None for row in rows} == {"one": True, "two": False}
    assert "another payload" in str(next(row.why_not for row in rows if row.run_id == "two"))
    assert {row.run_id for row in client.signal_many("paid", 1, labels={"region": "eu"})} == {
        "one",
        "two",
        "four",
    }
    assert {row.run_id for row in client.signal_many("paid", 1, flow="payment")} == {
        "one",
        "two",
        "three",
    }
    counts = {
        run_id: client._store.signals.counts_of(run_id, ["paid"])["paid"][1]
        for run_id in ("one", "two", "three", "four", "done")
    }
    assert counts == {"one": 3, "two": 3, "three": 1, "four": 1, "done": 0}
    with pytest.raises(InvalidInput, match="a flow, labels, or both"):
        client.signal_many("paid")


def test_the_command_line_signals_many_runs(
    tmp_path: Path, client: Client, settings: Settings
) -> None:
    for run_id, region in (("one", "eu"), ("two", "us")):
        client.submit("payment", "g", run_id=run_id, labels={"region": region})
    command_line = CommandLine(tmp_path, settings)
    told = command_line("signal", "--label", "region=eu", "paid", "--key", "k", "--json")
    assert told.json == [{"run_id": "one", "why_not": None}]
    told = command_line("signal", "--flow", "payment", "paid", "--payload", "1", "--key", "k")
    assert "two has the signal" in told.out and "one is unchanged: run one: the key" in told.out
