"""RemoteClient: Client's methods, over HTTP; under any fault of the network, a submission makes one
run, and events come once each.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import (
    Client,
    Conflict,
    Forbidden,
    InvalidInput,
    InvalidSettings,
    InvalidTransition,
    PerdureError,
    RemoteClient,
    RunExists,
    RunNotFound,
    RunStatus,
    StoreUnavailable,
    UnknownCaller,
    UnknownFlow,
)
from perdure.worker.client.tokens import Tokens
from perdure.worker.domain.record import VALUE
from perdure.worker.errors import ArtifactNotFound, Stale, Taken
from perdure.worker.settings import Settings
from perdure.worker.store.keys import CHILD_INDEXES
from perdure.worker.store.signals import SignalTransitions
from tests.soak.proxy import Proxy
from tests.support.cases import EachCase, cases_of
from tests.support.network_proxy import proxy, through
from tests.support.redis_servers import until

__all__ = ["proxy"]


@pytest.fixture
def remote(url: str) -> Iterator[RemoteClient]:
    made = RemoteClient(url)
    yield made
    made.close()


@contextmanager
def one_reply_lost(proxy: Proxy) -> Iterator[None]:
    """Lose the answer to the next request; those after it come through."""

    def mend() -> None:
        until(lambda: proxy.done["swallow"] > 0, "a lost reply")
        proxy.mood = "pass"

    proxy.mood = "swallow"
    mending = threading.Thread(target=mend)
    mending.start()
    yield
    mending.join()


def test_an_empty_run_id_is_refused_and_not_replaced(remote: RemoteClient) -> None:
    with pytest.raises(InvalidInput):
        remote.submit("countdown", "g", run_id="")
    assert not remote.runs().runs


def test_a_query_that_cannot_be_read_is_refused_before_it_is_sent() -> None:
    with pytest.raises(InvalidInput, match="bogus"):
        RemoteClient("http://127.0.0.1:1").error_groups(query="bogus:")


@pytest.mark.slow
def test_what_it_returns_is_what_client_returns(
    client: Client, remote: RemoteClient, settings: Settings
) -> None:
    run = remote.submit(
        "countdown",
        "down",
        {"rounds": 2},
        labels={"team": "search"},
        deadline=timedelta(hours=1),
        interrupt_before=["Executor"],
    )
    assert (
        run == client.get(run.id) == remote.get(run.id) and run.details["submitted_by"] == "local"
    )
    other = remote.submit("question", "who?", idempotency_key="once")
    assert remote.submit("question", "who?", idempotency_key="once").id == other.id
    assert remote.runs() == client.runs() and len(remote.runs()) == 2
    assert (
        [found.id for found in remote.runs(labels={"team": "search"})]
        == [run.id]
        == remote.matching(flow="countdown")
    )
    first = remote.runs(limit=1)
    assert [*first, *remote.runs(cursor=first.cursor)] == list(client.runs())
    assert list(remote.events(run.id, follow=False)) == list(client.events(run.id, follow=False))
    assert remote.why(run.id) == client.why(run.id)
    assert remote.transcript(run.id) == client.transcript(run.id)
    assert [queue.name for queue in remote.queues()] == [
        queue.name for queue in client.queues()
    ] and remote.dead_letters() == []
    assert remote.latest_events(run.id, 1) == client.latest_events(run.id, 1) != []
    assert remote.latest_events(run.id, before=remote.latest_events(run.id, 1)[0].id) == []
    assert [each.details["run"] for each in remote.stuck()] == [
        each.details["run"] for each in client.stuck()
    ]
    assert (
        remote.flows() == client.flows()
        and remote.workers() == []
        and remote.artifacts(run.id) == {}
    )
    assert len(remote.inbox()) == 0 and remote.inbox() == client.inbox()
    assert remote.pause_flow("countdown", "a look") and not remote.pause_flow("countdown")
    assert remote.paused_flows() == client.paused_flows() and remote.unpause_flow("countdown") == 0
    assert [finding.check for finding in remote.doctor()] == [
        finding.check for finding in client.doctor()
    ]
    receipt = remote.request_stop(run.id, "now", "enough")
    assert receipt.stopped and (receipt.requested_by, receipt.reason) == ("local", "enough")
    assert (
        remote.wait(run.id) == client.get(run.id)
        and remote.resume(run.id).status is RunStatus.QUEUED
    )
    assert not remote.request_stop("nobody").known and not remote.request_stop("no id").known
    assert [receipt.run_id for receipt in remote.request_stop_many(flow="countdown")] == [run.id]
    assert remote.retry_many() == [] and [
        done.run_id for done in remote.delete_many("stopped", older_than=timedelta(0))
    ] == [run.id]
    remote.request_stop(other.id)
    assert remote.delete(other.id) is None and len(client.runs()) == 0


@pytest.mark.slow
def test_what_goes_wrong_is_raised_as_client_raises_it(
    client: Client, remote: RemoteClient
) -> None:
    client.submit("countdown", "x", run_id="r")
    remote.submit("countdown", "x", idempotency_key="k")
    wrong: list[tuple[type[PerdureError], Callable[[Any], object]]] = [
        (RunNotFound, lambda at: at.get("nobody")),
        (RunNotFound, lambda at: at.events("nobody")),
        (RunNotFound, lambda at: at.wait("../r")),
        (ArtifactNotFound, lambda at: at.artifact("r", "a/b")),
        (UnknownFlow, lambda at: at.submit("nothing", "x")),
        (UnknownFlow, lambda at: at.pause_flow("nothing at all")),
        (RunExists, lambda at: at.submit("countdown", "x", run_id="r")),
        (InvalidTransition, lambda at: at.resume("r")),
        (InvalidTransition, lambda at: at.delete("r")),
        (InvalidTransition, lambda at: at.retry("r")),
        (Stale, lambda at: at.resume("r", "yes", interrupt="0:0")),
        (InvalidInput, lambda at: at.submit("countdown", "x", {"rounds": "many"})),
        (InvalidInput, lambda at: at.submit("countdown", "x", deadline=datetime(2030, 1, 1))),  # noqa: DTZ001
        (
            InvalidInput,
            lambda at: at.submit("countdown", "x", deadline=datetime(2020, 1, 1, tzinfo=UTC)),
        ),
        (InvalidInput, lambda at: at.submit("countdown", "x", run_id="no id")),
        (InvalidInput, lambda at: at.runs(limit=0)),
        (InvalidInput, lambda at: at.runs("nowhere")),
        (InvalidInput, lambda at: at.request_stop("r", "gently")),
        (InvalidInput, lambda at: at.request_stop_many()),
        (InvalidInput, lambda at: at.delete_many("queued")),
        (InvalidInput, lambda at: at.events("r", after="yesterday")),
        (TimeoutError, lambda at: at.wait("r", 0.1)),  # type: ignore[list-item]
    ]
    for error, call in wrong:
        for at in (client, remote):
            with pytest.raises(error) as raised:
                call(at)
            assert type(raised.value) is error
    with pytest.raises(Conflict, match="belongs to run"):
        remote.submit("countdown", "y", idempotency_key="k")
    with pytest.raises(InvalidInput, match="requested_by"):
        remote.request_stop("r", requested_by="somebody else")


def test_a_submission_whose_answer_was_lost_makes_one_run(proxy: Proxy, client: Client) -> None:
    with through(proxy) as remote:
        with one_reply_lost(proxy):
            run = remote.submit("countdown", "lost")
        with one_reply_lost(proxy):
            named = remote.submit("countdown", "lost", run_id="named")
        assert proxy.done["swallow"] >= 1
        assert {each.id for each in client.runs()} == {run.id, "named"} and named.id == "named"
        with pytest.raises(RunExists):
            remote.submit("countdown", "lost", run_id="named")


def test_an_answer_that_was_lost_is_not_given_twice(proxy: Proxy, client: Client) -> None:
    """Sent again, it could answer a later question."""
    client.submit("countdown", "x", run_id="r")
    client.request_stop("r")
    with through(proxy) as remote:
        with (
            one_reply_lost(proxy),
            pytest.raises(
                StoreUnavailable,
                match="may have been carried out: check the run before you send it again",
            ),
        ):
            remote.resume("r")
        assert [event.type for event in remote.events("r", follow=False)].count("resumed") == 1


@pytest.mark.slow
def test_a_server_that_is_not_there_is_told_by_its_address() -> None:
    gone = RemoteClient("http://user:secret@127.0.0.1:1", timeout=1)
    with pytest.raises(
        StoreUnavailable, match=r"no answer from the HTTP API at http://127\.0\.0\.1:1: "
    ) as raised:
        gone.resume("r")
    assert "may have been carried out" not in str(raised.value), "it was never sent"
    gone.close()


def test_an_address_that_is_none_of_a_control_room_is_said_to_be_so(url: str) -> None:
    for wrong in (
        "redis://localhost",
        "localhost:8000",
        "https://",
        "http://host:port",
        "https://host/?a=b",
    ):
        with pytest.raises(InvalidSettings, match=r"should be like https://runs\.example\.org"):
            RemoteClient(wrong)
    lost = RemoteClient(f"{url}/static")
    with pytest.raises(PerdureError, match="answered 404, which is not"):
        lost.get("r")
    lost.close()
    exact = RemoteClient(f"{url}/api/v1")
    assert len(exact.runs()) == 0
    exact.close()


def test_another_goal_under_the_same_nonce_is_a_conflict(
    client: Client, remote: RemoteClient
) -> None:
    for caller in (client, remote):
        own = {"run_id": type(caller).__name__, "nonce": "a1" * 8}
        made = caller.submit("countdown", "g", {"rounds": 3}, **own)
        assert caller.submit("countdown", "g", {"rounds": 3}, **own).id == made.id
        for goal, inputs in (("h", {"rounds": 3}), ("g", {"rounds": 4}), ("g", {})):
            with pytest.raises(Conflict):
                caller.submit("countdown", goal, inputs, **own)


def test_secrets_are_shown_nowhere(
    settings: Settings, client: Client, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = Tokens(client).create("reader", ["read"], None, "test").text
    reader = RemoteClient(url, made)
    stranger = RemoteClient(url, "hf_stranger_verysecret")
    said = [repr(reader), repr(stranger)]
    for error, call in (
        (Forbidden, lambda: reader.submit("countdown", "x")),
        (UnknownCaller, stranger.runs),
        (InvalidSettings, lambda: RemoteClient(url, "verysecret\r\nx: y")),
        (InvalidSettings, lambda: RemoteClient(url.replace("//", "//user:verysecret@"), made)),
        (InvalidSettings, lambda: RemoteClient("https://user:verysecret@")),
    ):
        with pytest.raises(error) as raised:
            call()
        said.append(str(raised.value))
    assert len(reader.runs()) == 0
    text = "\n".join([*said, caplog.text])
    secret = made.split("_", 2)[2]  # it may hold a "_" itself
    assert len(secret) == 43
    assert "verysecret" not in text and made not in text and secret not in text
    reader.close()
    stranger.close()


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(InvalidSettings, match=r"pip install 'perdure\[server\]'"):
        RemoteClient("https://runs.example.org")


@pytest.mark.parametrize("key", ["\u00fc", " a", "a" * 901])
def test_a_key_that_no_header_holds_is_refused_before_anything_is_sent(key: str) -> None:
    gone = RemoteClient("http://127.0.0.1:1", timeout=1)
    with pytest.raises(InvalidInput):
        gone.submit("countdown", "g", idempotency_key=key)
    with pytest.raises(InvalidInput):
        gone.signal("0" * 16, "paid", key=key)
    gone.close()


def test_a_signal_to_a_topic_is_kept_for_exactly_the_seconds_asked_for(
    remote: RemoteClient, each_case: EachCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    send = SignalTransitions.send_to_topic
    monkeypatch.setattr(
        SignalTransitions,
        "send_to_topic",
        lambda self, *args, keep, **more: kept.append(keep) or send(self, *args, keep=keep, **more),
    )

    def check(keep: float) -> None:
        assert remote.signal(topic="t", name="paid", keep=keep).status == "kept"
        assert kept.pop() == round(keep * 1000)

    each_case(cases_of([0.001, 999_999, 1_000_000, 1_234_567.5, 2_592_000]), check)


def test_the_error_for_a_taken_topic_names_the_run_that_holds_it(
    client: Client, remote: RemoteClient
) -> None:
    for caller in (client, remote):
        holder = caller.submit("countdown", "g", topic="order:1")
        with pytest.raises(Taken) as error:
            caller.submit("countdown", "g", topic="order:1")
        assert error.value.run_id == holder.id


def test_ids_of_child_and_damaged_runs_are_found_by_their_beginning(
    client: Client, remote: RemoteClient
) -> None:
    parent, child = (client.submit("countdown", "g", run_id=name) for name in ("par1", "chi1"))
    damaged = client.submit("countdown", "g", run_id="dam1")
    store = client._store
    store.redis.hset(store.keys.run(damaged.id), "inputs", "[")
    store.redis.hset(store.keys.run(child.id), mapping={"parent": parent.id, "depth": 1})
    score = store.redis.zscore(store.keys.index("live"), child.id)
    store.redis.zrem(store.keys.index("live"), child.id)
    store.redis.zadd(store.keys.index(CHILD_INDEXES[0]), {child.id: score or 0})
    for text in ("par", "chi", "dam", "chi1", "none", "no id!", "x" * 3000):
        found = remote.ids_beginning(text)
        assert found == client.ids_beginning(text), text[:10]
        assert len(found) == (text[:3] in ("par", "chi", "dam"))


def test_values_artifacts_and_files_of_any_name_are_read_as_by_client(
    client: Client, remote: RemoteClient, each_case: EachCase
) -> None:
    run = client.submit("countdown", "g")
    names = ["a/b", "a/../b", "..", ".", "a b", "%2E%2E", "ü?x#y", "nl\nx", "a\\b"]
    store = client._store
    store.redis.hset(
        store.keys.run(run.id),
        mapping={VALUE + each: f'"{each[:1]}"' for each in names if each != "a\\b"},
    )
    store.redis.hset(
        store.keys.artifacts(run.id), mapping={each: f"text of {each}" for each in names}
    )

    def outcome(read: Callable[[str, str], Any], name: str) -> Any:
        try:
            return read(run.id, name)
        except PerdureError as error:
            return type(error), str(error)

    def check(name: str) -> None:
        assert outcome(remote.value, name) == outcome(client.value, name)
        assert outcome(remote.artifact, name) == outcome(client.artifact, name)
        assert outcome(remote.file, name) == outcome(client.file, name)
        if name in names:
            assert remote.artifact(run.id, name) == f"text of {name}"

    each_case(cases_of([*names, "", "none", "../..", "...", "chi/../x"]), check)


def test_a_flow_whose_name_no_flow_can_have_is_unknown(remote: RemoteClient) -> None:
    for name in ("..", "a/b", "", "x/../countdown"):
        with pytest.raises(UnknownFlow):
            remote.pause_flow(name)
        with pytest.raises(UnknownFlow):
            remote.unpause_flow(name)


def test_bulk_operations_refuse_what_can_match_no_run(client: Client, remote: RemoteClient) -> None:
    for caller in (client, remote):
        for query in (None, "flow:countdown"):
            with pytest.raises(InvalidInput, match="completed"):
                caller.request_stop_many("countdown", "completed", query=query)
            with pytest.raises(InvalidInput, match="running"):
                caller.delete_many("running", query=query)
            with pytest.raises(InvalidInput, match="older_than"):
                caller.delete_many("completed", older_than=timedelta(seconds=-1), query=query)
