"""take_topic: a round takes a topic for its run, and the signals that wait there come into the
run's mailbox.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.worker.store import Claim, Store
from tests.support.runs import (
    LEASE,
    RETENTION,
    advance,
    claim,
    clock,
    commit_next,
    events,
    everything,
    hash_of,
    new_run,
    next_message,
    park,
    phase,
    resume,
    retry,
    signal,
    signal_topic,
    stop,
    submit,
    sweep,
    wake,
)
from tests.support.topic_runs import TOPIC, end, expiry, fail, holder, mail, room


def listen(store: Store, granted: Claim, run_id: str = "r", **other: Any) -> tuple[str, str]:
    """Take the topic for the run, as the round of this claim."""
    fence = {"token": granted.token, "claim": granted.id or None}
    return store.signals.take_topic(run_id, **{"topic": TOPIC, **fence, **other})


def listening(store: Store, run_id: str = "r") -> Claim:
    """Claim a run's round that takes the topic."""
    new_run(store, run_id)
    granted = claim(store, run_id)
    assert listen(store, granted, run_id) == ("ok", "")
    return granted


def test_a_run_that_listens_has_what_waits_and_what_comes_after(store: Store) -> None:
    signal_topic(store, payload='"a"', by="ann", key="k", content="c")
    signal_topic(store, payload='"b"', name="sent")
    signal_topic(store, payload='"c"')
    granted = listening(store)
    assert (mail(store), mail(store, name="sent")) == (['"a"', '"c"'], ['"b"'])
    assert [(each["name"], each["number"], each["by"]) for each in events(store, kind="signalled")] == [
        ("paid", "1", "ann"), ("sent", "1", ""), ("paid", "2", ""),
    ]  # fmt: skip
    assert room(store) == {"run": "r", "nonce": "nonce-r", "before": ""}
    assert (expiry(store), hash_of(store)["topic"]) == (-1, TOPIC)
    assert signal_topic(store, payload='"d"') == ["ok", "r", "3", "leased"]
    assert signal_topic(store, payload='"a"', key="k", content="c") == ["ok", "r", "1", "leased"]
    assert commit_next(store, granted) == ("ok", "continued")
    assert mail(store) == ['"a"', '"c"', '"d"']


def test_a_run_that_listens_again_changes_nothing(store: Store) -> None:
    signal_topic(store)
    granted = listening(store)
    before = everything(store)
    assert listen(store, granted) == ("ok", "")
    assert everything(store) == before
    commit_next(store, granted)
    before = everything(store)
    granted = claim(store, step=1)
    after = everything(store)
    assert listen(store, granted) == ("ok", "")
    assert everything(store) == after != before


def test_a_run_that_took_the_topic_at_its_submission_has_it(store: Store) -> None:
    holder(store)
    granted = claim(store)
    before = everything(store)
    assert listen(store, granted) == ("ok", "")
    assert everything(store) == before


def test_a_run_is_woken_by_a_signal_to_the_topic_that_it_took(store: Store) -> None:
    park(store, listening(store), "1", {"paid": 1}, None)
    assert submit(store, "s", topic=TOPIC) == ("taken", "r")
    assert signal_topic(store) == ["unmade", "r", "1", "parked", "0", "0", *next_message(store)]
    assert wake(store) == "queued"


def test_a_run_that_parks_with_what_it_moved_is_queued(store: Store) -> None:
    signal_topic(store)
    assert park(store, listening(store), "1", {"paid": 1}, None) == ("ok", "queued")


def test_what_comes_from_the_topic_is_behind_what_the_run_had(store: Store) -> None:
    signal_topic(store, payload='"b"')
    new_run(store)
    signal(store, payload='"a"')
    assert listen(store, claim(store)) == ("ok", "")
    assert mail(store) == ['"a"', '"b"']


def test_a_signal_that_was_sent_to_the_run_as_well_is_there_once(store: Store) -> None:
    for key, content in (("k", "c"), ("l", "c"), ("m", "c")):
        signal_topic(store, payload=f'"{key}"', key=key, content=content)
    signal_topic(store, payload='"k"', name="sent", key="k", content="c")
    new_run(store)
    signal(store, payload='"k"', key="k", content="c")
    signal(store, payload='"other"', key="l", content="d")
    assert listen(store, claim(store)) == ("ok", "")
    assert mail(store) == ['"k"', '"other"', '"l"', '"m"']
    assert mail(store, name="sent") == ['"k"']
    assert set(room(store)) == {"run", "nonce", "before"}


def test_what_is_over_does_not_come_into_the_mailbox(store: Store) -> None:
    signal_topic(store, payload='"short"', keep=1_000)
    signal_topic(store, payload='"long"', keep=3_000)
    advance(store, 1_000)
    listening(store)
    assert mail(store) == ['"long"']
    assert set(room(store)) == {"run", "nonce", "before"}


def test_a_topic_of_another_live_run_is_not_taken(store: Store) -> None:
    holder(store, "s")
    new_run(store)
    granted = claim(store)
    before = everything(store)
    assert listen(store, granted) == ("taken", "s")
    assert everything(store) == before
    claim(store, "s")
    store.redis.hset(store.keys.run("s"), "phase", "parked")
    assert listen(store, granted) == ("taken", "s")
    store.redis.hset(store.keys.run("s"), "phase", "interrupted")
    assert listen(store, granted) == ("taken", "s")
    assert "topic" not in hash_of(store)


@pytest.mark.parametrize("how", ["stopped", "errored"])
def test_a_run_at_rest_gives_way_to_one_that_listens(store: Store, how: str) -> None:
    holder(store, "s")
    signal_topic(store, key="k", content="c")
    if how == "stopped":
        stop(store, run_id="s")
    else:
        fail(store, "s")
    granted = listening(store)
    assert room(store) == {"run": "r", "nonce": "nonce-r", "before": "s nonce-s"}
    assert expiry(store) == -1
    assert signal_topic(store, key="k", content="c")[1] == "s"
    assert signal_topic(store)[1] == "r"
    if how == "errored":
        retry(store, run_id="s")
        assert listen(store, claim(store, "s", epoch=1), "s") == ("taken", "r")
    assert commit_next(store, granted) == ("ok", "continued")


def test_a_run_that_takes_its_topic_again_is_known_once(store: Store) -> None:
    holder(store)
    signal_topic(store, key="k", content="c")
    fail(store)
    holder(store, "s")
    end(store, "s")
    signal_topic(store, payload='"later"')
    retry(store)
    assert listen(store, claim(store, epoch=1)) == ("ok", "")
    assert room(store) == {"run": "r", "nonce": "nonce-r", "before": "s nonce-s"}
    assert (mail(store), expiry(store)) == (["1", '"later"'], -1)
    assert signal_topic(store, key="k", content="c")[:3] == ["ok", "r", "1"]


def test_a_topic_knows_no_more_than_nine_runs_that_completed_one_after_the_other(
    store: Store,
) -> None:
    for number in range(12):
        holder(store, f"r{number}")
        end(store, f"r{number}")
    assert len(room(store)["before"].split("\n")) == 9
    holder(store, "s")
    assert room(store)["before"].split("\n")[0] == "r11 nonce-r11"
    assert len(room(store)["before"].split("\n")) == 8


def test_a_run_holds_one_topic(store: Store) -> None:
    granted = listening(store)
    before = everything(store)
    assert listen(store, granted, topic="order:2") == ("other", TOPIC)
    assert everything(store) == before


def test_a_run_that_lost_its_topic_may_take_another(store: Store) -> None:
    holder(store)
    fail(store)
    holder(store, "s")
    retry(store)
    assert listen(store, claim(store, epoch=1), topic="order:2") == ("ok", "")
    assert hash_of(store)["topic"] == "order:2"
    assert room(store)["run"] == "s"
    assert submit(store, "t", topic="order:2") == ("taken", "r")


def test_only_the_round_that_is_played_takes_a_topic(store: Store) -> None:
    signal_topic(store)
    new_run(store)
    granted = claim(store)
    before = everything(store)
    for wrong in ({"token": "2"}, {"claim": "another"}):
        assert listen(store, granted, **wrong) == ("fenced", "")
    assert everything(store) == before
    assert listen(store, granted, claim=None) == ("ok", "")


def test_a_round_that_was_lost_takes_no_topic(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    advance(store, LEASE)
    sweep(store)
    assert phase(store) == "queued"
    assert listen(store, granted) == ("fenced", "")
    again = claim(store)
    assert listen(store, granted) == ("fenced", "")
    assert listen(store, again) == ("ok", "")


@pytest.mark.parametrize("how", ["stopped", "errored", "completed", "deleted"])
def test_a_round_of_a_run_that_has_ended_takes_no_topic(store: Store, how: str) -> None:
    new_run(store)
    granted = claim(store)
    if how == "completed":
        store.redis.hset(store.keys.run("r"), "phase", "completed")
    elif how == "errored":
        store.redis.hset(store.keys.run("r"), "phase", "errored")
    else:
        stop(store, "now")
    if how == "deleted":
        store.runs.delete("r")
    assert listen(store, granted) == ("missing" if how == "deleted" else "fenced", "")
    assert room(store) == {}


def test_a_round_whose_stop_was_requested_takes_the_topic(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    assert stop(store)[0] == "asked"
    assert listen(store, granted) == ("ok", "")
    assert commit_next(store, granted) == ("ok", "stopped")
    assert signal_topic(store) == ["ok", "r", "1", "stopped"]
    resume(store)
    assert submit(store, "s", topic=TOPIC) == ("taken", "r")


def test_the_ends_of_a_run_that_listened_are_those_of_one_that_was_submitted_so(
    store: Store,
) -> None:
    listening(store)
    store.redis.hset(store.keys.run("r"), "phase", "queued")
    fail(store)
    assert expiry(store) == clock(store) + RETENTION
    retry(store)
    assert expiry(store) == -1
    end_again = claim(store, epoch=1)
    assert listen(store, end_again) == ("ok", "")
    stop(store, "now")
    assert signal_topic(store)[:2] == ["ok", "r"]
    store.runs.delete("r")
    assert room(store) == {"before": "r nonce-r"}


def test_what_is_damaged_is_left_alone(store: Store) -> None:
    key, run = store.keys.topic(TOPIC), store.keys.run("s")
    holder(store, "s")
    new_run(store)
    granted = claim(store)
    store.redis.hset(run, "phase", "away")
    assert listen(store, granted) == ("damaged", run)
    store.redis.delete(key)
    store.redis.set(key, "x")
    assert listen(store, granted) == ("damaged", key)
    store.redis.delete(key)
    store.redis.set(store.keys.mailbox("r"), "x")
    assert listen(store, granted) == ("damaged", store.keys.mailbox("r"))
    store.redis.delete(store.keys.mailbox("r"))
    store.redis.hset(store.keys.run("r"), "step", "x")
    assert listen(store, granted) == ("damaged", "step")
    assert room(store) == {}
    assert "topic" not in store.redis.hgetall(store.keys.run("r"))
