"""context.listen: a run takes a topic in its rounds, and gets the signals sent to it before and
after.
"""

from __future__ import annotations

import pytest

from perdure import Client, InvalidFlow, Mailbox, RoundContext, Run, RunStatus, Settings, Taken
from perdure.flows.core.errors import FatalError
from perdure.testing import crash_lab
from perdure.worker.domain.submission import PLAIN_TOPICS
from perdure.worker.web import Caller, Scope
from perdure.worker.web.auth import AuthorizedClient
from tests.support.example_flows import waits  # noqa: F401 -- registers flows
from tests.support.runs import hash_of, phase
from tests.support.runs_in_every_status import play

TOPIC = "order:4711"

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.waits",))


def parked(client: Client, settings: Settings, goal: str = TOPIC, **options: object) -> Run:
    """Return a run that has listened, and is parked."""
    run = client.submit("listener", goal, **options)  # type: ignore[arg-type]
    play(settings, run.id)
    assert phase(client._store, run.id) == "parked"
    return run


def test_a_signal_reaches_the_run_before_and_after_it_listens(
    client: Client, settings: Settings
) -> None:
    for _ in range(2):
        receipt = client.signal(topic=TOPIC, name="paid", payload=1, key="event-1")
        assert (receipt.run_id, receipt.number) == (None, 1)
    run = client.submit("listener", TOPIC, {"total": 3})
    assert "topic" not in hash_of(client._store, run.id)
    play(settings, run.id)
    assert (phase(client._store, run.id), client.get(run.id).state.step) == ("parked", 1)
    assert client.get(run.id).details["topic"] == TOPIC
    assert "by its topic order:4711" in client.why(run.id).sentence
    receipt = client.signal(topic=TOPIC, name="paid", payload=1, key="event-1")
    assert (receipt.run_id, receipt.number) == (run.id, 1), "the first number"
    for _ in range(2):
        receipt = client.signal(topic=TOPIC, name="paid", payload=2, key="event-2")
        assert (receipt.run_id, receipt.number) == (run.id, 2)
    client.signal(topic=TOPIC, name="paid", payload=3)
    play(settings, run.id)
    assert client.get(run.id).answer == [1, 2, 3]
    assert client.signal(topic=TOPIC, name="paid").run_id is None, "a completed run holds nothing"


def test_of_two_runs_that_listen_to_a_topic_the_second_ends_errored_until_it_is_retried(
    client: Client, settings: Settings
) -> None:
    first = parked(client, settings)
    with pytest.raises(Taken):
        client.submit("listener", TOPIC, topic=TOPIC)
    second = client.submit("listener", TOPIC)
    play(settings, second.id)
    run = client.get(second.id)
    assert run.status is RunStatus.ERRORED and run.error is not None
    for told in (TOPIC, first.id, f"perdure retry {second.id}", second.id, "step 0"):
        assert told in run.error
    assert client.signal(topic=TOPIC, name="paid", payload=1).run_id == first.id
    play(settings, first.id)
    assert client.get(first.id).answer == [1]
    client.signal(topic=TOPIC, name="paid", payload=2)
    client.retry(second.id)
    play(settings, second.id)
    assert client.get(second.id).answer == [2]


def test_a_run_that_was_stopped_gives_its_topic_to_one_that_listens(
    client: Client, settings: Settings
) -> None:
    first = parked(client, settings)
    client.request_stop(first.id)
    second = parked(client, settings)
    assert client.signal(topic=TOPIC, name="paid", payload=2).run_id == second.id
    client.resume(first.id)
    play(settings, first.id)
    error = client.get(first.id).error
    assert error is not None and f"run {second.id} is live and holds" in error


def test_a_run_that_listens_to_a_second_topic_ends_errored(
    client: Client, settings: Settings
) -> None:
    run = client.submit("listener", f"{TOPIC} order:4712")
    play(settings, run.id)
    error = client.get(run.id).error
    assert error is not None and TOPIC in error and "order:4712" in error
    assert client.signal(topic="order:4712", name="paid").run_id is None


def test_a_run_that_errored_behind_listen_has_its_topic_when_it_is_retried(
    client: Client, settings: Settings
) -> None:
    client.signal(topic=TOPIC, name="paid", payload=1, key="k")
    run = client.submit("listener", f"{TOPIC} order:4712")
    play(settings, run.id)
    assert client.get(run.id).status is RunStatus.ERRORED
    assert client.signal(topic=TOPIC, name="paid", payload=1, key="k").run_id == run.id
    client.retry(run.id)
    assert client._store.redis.pttl(client._store.keys.topic(TOPIC)) == -1
    with pytest.raises(Taken):
        client.submit("listener", TOPIC, topic=TOPIC)


def test_a_run_of_client_takes_the_topic_that_client_signals_whoever_submitted_it(
    client: Client, settings: Settings
) -> None:
    listening = parked(client, settings, submitted_by="ann")
    assert client.get(listening.id).details["topic"] == TOPIC
    assert client.signal(topic=TOPIC, name="paid").run_id == listening.id
    client.request_stop(listening.id)
    holding = parked(client, settings, submitted_by="ann", topic=TOPIC)
    assert client.signal(topic=TOPIC, name="paid").run_id == holding.id
    client.request_stop(holding.id)
    sent = client.send("t", TOPIC, flow="listener", submitted_by="ann")
    assert PLAIN_TOPICS in hash_of(client._store, sent.run_id)


@pytest.mark.parametrize("made_by", ["a token", "an earlier release"])
def test_a_run_that_was_submitted_over_http_takes_the_topic_of_its_submitter(
    client: Client, settings: Settings, made_by: str
) -> None:
    ann = AuthorizedClient(client, Caller("ann", frozenset({Scope.SUBMIT, Scope.READ})))
    maker = client if made_by == "an earlier release" else ann
    options = {"submitted_by": "ann"} if maker is client else {}
    run = maker.submit("listener", TOPIC, **options)  # type: ignore[arg-type]
    if maker is client:  # It stored no field for the owner of topics.
        client._store.redis.hdel(client._store.keys.run(run.id), PLAIN_TOPICS)
    play(settings, run.id)
    assert client.get(run.id).details["topic"] == f"ann/{TOPIC}"
    assert client.signal(topic=TOPIC, name="paid").run_id is None
    assert client.signal(topic=f"ann/{TOPIC}", name="paid").run_id == run.id
    sent = ann.send("t", TOPIC, flow="listener")
    chat = ann.send_to_chat("chat:1", "1", TOPIC, "listener", None, "k")
    for run_id in (sent.run_id, chat.run_id):
        assert PLAIN_TOPICS not in hash_of(client._store, run_id)


def test_what_is_damaged_ends_the_run_errored(client: Client, settings: Settings) -> None:
    key = client._store.keys.topic(TOPIC)
    client._store.redis.set(key, "x")
    run = client.submit("listener", TOPIC)
    play(settings, run.id)
    error = client.get(run.id).error
    assert error is not None and key in error and "damaged" in error
    client._store.redis.delete(key)
    client.retry(run.id)
    play(settings, run.id)
    assert phase(client._store, run.id) == "parked"


def test_the_crash_lab_plays_a_run_that_listens() -> None:
    report = crash_lab("listener", "order:{run}", inputs={"total": 2}, signals={"paid": [1, 2]})
    assert report.stories > 20


def test_in_a_nodes_test_a_run_has_the_topic_at_once() -> None:
    context = RoundContext("g", mailbox=Mailbox())
    context.listen(TOPIC)
    context.listen(TOPIC)
    with pytest.raises(FatalError, match=r"order:4712.*'order:4711'"):
        context.listen("order:4712")


@pytest.mark.parametrize("topic", ["", "a b", "a/b", "x" * 201, 4711, ":a"])
def test_what_is_no_topic_is_refused(topic: object) -> None:
    with pytest.raises(InvalidFlow, match="is no topic"):
        RoundContext("g").listen(topic)  # type: ignore[arg-type]
