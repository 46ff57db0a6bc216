"""Topics, by the scripts alone: one live run holds a topic, and signals reach it from before its
submission to after its end.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure.worker.store import Store
from tests.support.runs import (
    RETENTION,
    START,
    advance,
    claim,
    clock,
    commit_end,
    commit_next,
    due_in,
    events,
    hash_of,
    new_run,
    next_message,
    park,
    pause_here,
    phase,
    resume,
    retry,
    signal,
    signal_topic,
    stop,
    submit,
    wake,
)
from tests.support.topic_runs import TOPIC, end, expiry, fail, holder, mail, room

HOUR = 3_600_000


def test_a_signal_to_a_topic_goes_to_the_run_that_holds_it(store: Store) -> None:
    holder(store)
    assert signal_topic(store, payload='"a"') == ["ok", "r", "1", "queued"]
    assert signal_topic(store, payload='"b"', by="ann") == ["ok", "r", "2", "queued"]
    assert mail(store) == ['"a"', '"b"']
    assert [entry["by"] for entry in events(store, kind="signalled")] == ["", "ann"]
    assert room(store) == {"run": "r", "nonce": "nonce-r", "before": ""}


#: Names of senders that have line breaks, as a program may pass them.
SENDERS = ("ann\nbob", 'ann\n{"forged":1}', "a\n\nb", "a\r\nb", "1\n2\n3")


@pytest.mark.parametrize("by", SENDERS)
def test_a_signal_has_its_own_payload_and_sender_whatever_the_sender_is_called(
    store: Store, by: str
) -> None:
    """The run gets a signal itself, another over its topic, and a third that has waited for it."""
    signal_topic(store, payload='"waited"', by=by)
    holder(store)
    signal_topic(store, payload='"over its topic"', by=by)
    signal(store, payload='"itself"', by=by)
    read = store.signals.stored("r", [("paid", number) for number in (1, 2, 3)])
    assert [(each.by, each.payload) for each in read if each is not None] == [
        (by, '"waited"'), (by, '"over its topic"'), (by, '"itself"')
    ]  # fmt: skip


def test_a_signal_to_a_topic_wakes_the_run_that_waits_for_it(store: Store) -> None:
    holder(store)
    park(store, claim(store), "1", {"paid": 1}, None)
    assert signal_topic(store) == ["unmade", "r", "1", "parked", "0", "0", *next_message(store)]
    assert due_in(store) <= 0
    assert wake(store) == "queued"


def test_signals_that_come_before_the_run_are_in_its_mailbox_when_it_is_made(store: Store) -> None:
    assert signal_topic(store, payload='"a"', by="ann") == ["waiting", "1"]
    assert signal_topic(store, "order:2") == ["waiting", "1"], "of another topic"
    advance(store, 1_000)
    assert signal_topic(store, payload='"b\\nc"', name="sent") == ["waiting", "2"]
    assert signal_topic(store, payload='"d"') == ["waiting", "3"]
    holder(store)
    assert (mail(store), mail(store, name="sent")) == (['"a"', '"d"'], ['"b\\nc"'])
    assert store.signals.stored("r", [("paid", 1)])[0][:3] == (1, START, "ann")
    assert [(each["name"], each["number"]) for each in events(store, kind="signalled")] == [
        ("paid", "1"),
        ("sent", "1"),
        ("paid", "2"),
    ]
    assert set(room(store)) == {"run", "nonce", "before"}
    assert not [field for field in store.redis.hgetall(store.keys.mailbox("r")) if ":key:" in field]
    assert hash_of(store)["topic"] == TOPIC
    assert signal_topic(store, payload='"e"') == ["ok", "r", "3", "queued"]


def test_the_room_of_a_topic_is_empty_behind_its_run(store: Store) -> None:
    signal_topic(store)
    holder(store)
    end(store)
    new_run(store, "s", topic=TOPIC)
    assert mail(store, "s") == []


def test_a_signal_is_kept_for_as_long_as_it_asks(store: Store) -> None:
    signal_topic(store, payload='"short"', keep=1_000)
    signal_topic(store, payload='"long"', keep=3_000)
    assert expiry(store) == START + 3_000
    signal_topic(store, payload='"shorter"', keep=500)
    assert expiry(store) == START + 3_000
    advance(store, 1_000)
    holder(store)
    assert mail(store) == ['"long"']
    assert set(room(store)) == {"run", "nonce", "before"}


def test_what_is_over_makes_room_in_a_topic(store: Store) -> None:
    signal_topic(store, keep=1_000, key="a", content="1", most_waiting=1)
    assert signal_topic(store, most_waiting=1) == ["full", "", "signals"]
    advance(store, 1_000)
    assert signal_topic(store, key="a", content="1", most_waiting=1) == ["waiting", "2"]
    assert [field for field in room(store) if field.startswith("waiting:")] == ["waiting:2"]


def test_a_full_room_refuses_signals_and_writes_nothing(store: Store) -> None:
    for _ in range(2):
        signal_topic(store, most_waiting=2)
    before = room(store)
    assert signal_topic(store, most_waiting=2) == ["full", "", "signals"]
    entry = len(f"{START}\n\n1")
    assert signal_topic(store, size_waiting=3 * entry - 1) == ["full", "", "bytes"]
    assert room(store) == before
    assert signal_topic(store, size_waiting=3 * entry)[0] == "waiting"


def test_a_full_mailbox_refuses_the_signal_of_a_topic(store: Store) -> None:
    holder(store)
    assert signal_topic(store, most=0) == ["full", "r", "signals"]
    assert signal_topic(store, names=0) == ["full", "r", "names"]
    assert signal_topic(store, size=1) == ["full", "r", "bytes"]
    park(store, claim(store), "1", {"paid": 1}, None)
    assert signal_topic(store, names=0)[0] == "unmade", "it waits for this one"


def test_another_live_run_cannot_take_a_topic(store: Store) -> None:
    holder(store)
    before = room(store)
    for go_on in (lambda: None, lambda: claim(store), lambda: pause_here(store, claim(store))):
        store.redis.delete(store.keys.run("x"))
        assert submit(store, "s", topic=TOPIC) == ("taken", "r")
        go_on() if phase(store) == "queued" else None
    assert (store.reads.fields("s"), room(store)) == (None, before)


def test_a_live_run_holds_its_topic_in_each_phase(store: Store) -> None:
    holder(store, phase="waiting", delay=1_000)
    assert submit(store, "s", topic=TOPIC)[0] == "taken"
    store.redis.hset(store.keys.run("r"), "phase", "parked")
    assert submit(store, "s", topic=TOPIC)[0] == "taken"
    store.redis.hset(store.keys.run("r"), "phase", "interrupted")
    assert submit(store, "s", topic=TOPIC)[0] == "taken"


def test_a_submission_that_is_sent_again_has_its_topic(store: Store) -> None:
    holder(store)
    before = room(store)
    assert submit(store, topic=TOPIC) == ("ok", "r")
    key = {"idempotency_key": "k", "content": "c"}
    assert submit(store, "s", topic="order:2", **key) == ("ok", "s")
    assert submit(store, "t", topic="order:2", **key) == ("existing", "s")
    assert room(store) == before


def test_a_completed_run_holds_nothing(store: Store) -> None:
    holder(store)
    end(store)
    assert room(store) == {"before": "r nonce-r"}
    assert expiry(store) == clock(store) + RETENTION
    assert signal_topic(store) == ["waiting", "1"]
    assert expiry(store) == clock(store) + max(HOUR, RETENTION)
    holder(store, "s")
    assert (mail(store, "r"), mail(store, "s"), expiry(store)) == ([], ["1"], -1)


def test_a_run_that_an_earlier_version_completed_holds_nothing(store: Store) -> None:
    holder(store)
    store.redis.hset(store.keys.run("r"), "phase", "completed")
    assert signal_topic(store, keep=1_000) == ["waiting", "1"]
    assert set(room(store)) == {"before", "waiting", "waiting:1"}
    assert expiry(store) == START + 1_000
    store.redis.hset(store.keys.run("r"), "phase", "queued")
    assert signal_topic(store) == ["waiting", "2"], "it has lost the topic"


def test_what_a_run_took_that_an_earlier_version_completed_stays_known(store: Store) -> None:
    sent = {"key": "k", "content": "c"}
    holder(store)
    assert signal_topic(store, **sent) == ["ok", "r", "1", "queued"]
    store.redis.hset(store.keys.run("r"), "phase", "completed")
    assert signal_topic(store) == ["waiting", "1"]
    assert signal_topic(store, **sent) == ["ok", "r", "1", "completed"]


def test_a_run_that_has_expired_holds_nothing(store: Store) -> None:
    holder(store)
    store.redis.delete(store.keys.run("r"))
    assert signal_topic(store) == ["waiting", "1"]
    holder(store, "s")
    assert mail(store, "s") == ["1"]


def test_a_deleted_run_holds_nothing(store: Store) -> None:
    holder(store)
    stop(store)
    store.runs.delete("r")
    assert room(store) == {"before": "r nonce-r"}
    assert expiry(store) == clock(store) + RETENTION
    new_run(store)
    assert signal_topic(store)[0] == "waiting", "the same id, and another run"
    assert submit(store, "s", topic=TOPIC)[0] == "ok"


def test_another_run_under_the_same_id_does_not_hold_the_topic(store: Store) -> None:
    holder(store)
    store.redis.hset(store.keys.run("r"), "nonce", "another")
    assert signal_topic(store)[0] == "waiting"
    assert submit(store, "s", topic=TOPIC)[0] == "ok"


@pytest.mark.parametrize("how", ["stopped", "errored"])
def test_a_run_at_rest_holds_its_topic_until_another_takes_it(store: Store, how: str) -> None:
    holder(store)
    if how == "stopped":
        stop(store)
    else:
        fail(store)
    assert signal_topic(store) == ["ok", "r", "1", how]
    assert expiry(store) == (-1 if how == "stopped" else clock(store) + RETENTION)
    holder(store, "s")
    assert expiry(store) == -1
    assert signal_topic(store) == ["ok", "s", "1", "queued"]
    assert (mail(store, "r"), mail(store, "s")) == (["1"], ["1"])


def test_a_retried_run_keeps_its_topic(store: Store) -> None:
    holder(store)
    fail(store)
    retry(store)
    assert expiry(store) == -1
    assert signal_topic(store)[:2] == ["ok", "r"]


def test_a_run_that_goes_on_leaves_the_topic_to_the_one_that_took_it(store: Store) -> None:
    holder(store)
    stop(store)
    holder(store, "s")
    resume(store)
    assert signal_topic(store)[1] == "s"
    end(store, "r") if phase(store) == "queued" else None
    assert room(store)["run"] == "s"
    assert expiry(store) == -1


def test_the_end_of_a_run_that_lost_its_topic_leaves_it_alone(store: Store) -> None:
    holder(store)
    fail(store)
    holder(store, "s")
    retry(store)
    commit_end(store, claim(store, epoch=1))
    assert (room(store)["run"], expiry(store)) == ("s", -1)
    fail(store, "s")
    retry(store, run_id="s")
    assert expiry(store) == -1


def test_a_key_is_known_while_its_signal_waits(store: Store) -> None:
    sent = {"key": "k", "content": "c"}
    assert signal_topic(store, **sent) == ["waiting", "1"]
    assert signal_topic(store, **sent) == ["waiting", "1"]
    assert signal_topic(store, key="k", content="d") == ["conflict", "", "1"]
    assert signal_topic(store, name="sent", **sent) == ["waiting", "2"], "a key is of its name"
    assert signal_topic(store, key="l", content="c") == ["waiting", "3"]
    assert signal_topic(store, **sent) == ["waiting", "1"], "known behind later ones, too"


def test_a_signal_sent_before_and_after_the_submission_arrives_once(store: Store) -> None:
    sent = {"key": "k", "content": "c"}
    signal_topic(store, **sent)
    holder(store)
    assert signal_topic(store, **sent) == ["ok", "r", "1", "queued"]
    assert signal(store, **sent) == ["ok", "1", "queued"], "sent to the run itself"
    assert signal_topic(store, key="k", content="d") == ["conflict", "r", "1"]
    assert mail(store) == ["1"]


def test_a_signal_that_a_completed_run_took_is_not_kept_for_the_next(store: Store) -> None:
    sent = {"key": "k", "content": "c"}
    holder(store)
    signal_topic(store, **sent)
    end(store)
    assert signal_topic(store, **sent) == ["ok", "r", "1", "completed"]
    holder(store, "s")
    assert signal_topic(store, **sent) == ["ok", "r", "1", "completed"]
    assert mail(store, "s") == []


def test_the_keys_of_the_newest_eight_runs_are_known(store: Store) -> None:
    for number in range(9):
        holder(store, f"r{number}")
        signal_topic(store, key=f"k{number}", content="c")
        stop(store, run_id=f"r{number}")
    holder(store, "s")
    assert signal_topic(store, key="k1", content="c")[1] == "r1"
    assert signal_topic(store, key="k0", content="c")[1] == "s"


def test_a_key_of_another_run_under_the_same_id_is_not_known(store: Store) -> None:
    sent = {"key": "k", "content": "c"}
    holder(store)
    signal_topic(store, **sent)
    stop(store)
    store.runs.delete("r")
    new_run(store, nonce="another-nonce")
    signal(store, **sent)
    assert signal_topic(store, **sent) == ["waiting", "1"]


def test_a_topic_of_a_wrong_type_is_left_alone(store: Store) -> None:
    key = store.keys.topic(TOPIC)
    store.redis.set(key, "x")
    assert signal_topic(store) == ["damaged", key]
    assert submit(store, topic=TOPIC) == ("damaged", key)
    assert store.reads.fields("r") is None
    store.redis.delete(key)
    holder(store)
    store.redis.delete(key)
    store.redis.set(key, "x")
    end(store)
    assert phase(store) == "completed"


def test_a_damaged_holder_is_in_doubt(store: Store) -> None:
    holder(store)
    store.redis.hdel(store.keys.run("r"), "phase")
    assert signal_topic(store) == ["damaged", store.keys.run("r")]
    store.redis.hset(store.keys.run("r"), "phase", "away")
    assert signal_topic(store) == ["damaged", store.keys.run("r")]
    assert submit(store, "s", topic=TOPIC) == ("damaged", store.keys.run("r"))
    store.redis.hset(store.keys.run("r"), mapping={"phase": "queued", "step": "x"})
    assert signal_topic(store) == ["damaged", "step"]
    store.redis.delete(store.keys.run("r"))
    store.redis.set(store.keys.run("r"), "x")
    assert signal_topic(store) == ["damaged", store.keys.run("r")]


def test_a_mailbox_of_a_wrong_type_takes_no_signal_of_a_topic(store: Store) -> None:
    holder(store)
    store.redis.set(store.keys.mailbox("r"), "x")
    assert signal_topic(store) == ["damaged", store.keys.mailbox("r")]


def test_shared_keys_of_a_wrong_type_take_no_signal(store: Store) -> None:
    store.redis.set(store.keys.index("live"), "x")
    assert signal_topic(store) == ["damaged", store.keys.index("live")]
    assert room(store) == {}


def test_a_signal_whose_text_was_lost_comes_without_one(store: Store) -> None:
    signal_topic(store)
    store.redis.hdel(store.keys.topic(TOPIC), "waiting:1")
    holder(store)
    assert mail(store) == ["null"]


def test_a_run_that_took_no_topic_leaves_topics_alone(store: Store) -> None:
    new_run(store)
    commit_next(store, claim(store))
    assert "topic" not in hash_of(store)
    assert room(store) == {}


@pytest.mark.parametrize("field", ["run", "nonce"])
def test_the_end_of_a_run_leaves_the_topic_of_another_alone(store: Store, field: str) -> None:
    holder(store)
    store.redis.hset(store.keys.topic(TOPIC), field, "another")
    before = room(store)
    end(store)
    assert (room(store), expiry(store)) == (before, -1)


def test_a_completed_run_leaves_the_topic_what_it_knew_of_earlier_runs(store: Store) -> None:
    sent = {"key": "k", "content": "c"}
    holder(store)
    signal_topic(store, **sent)
    stop(store)
    holder(store, "s")
    end(store, "s")
    assert room(store) == {"before": "s nonce-s\nr nonce-r"}
    assert signal_topic(store, **sent)[1] == "r"


# Messages of a thread, which a run hears under a key, or begins with (worker/client/threads.py)


def heard(store: Store, run_id: str = "r", place: int = 1, step: int = 0) -> None:
    """Commit a round of the run that takes the messages to it."""
    granted = claim(store, run_id, step=step)
    commit_next(store, granted, "Controller", options={"take": f"say {place}"})


def say(store: Store, key: str = "k", run_id: str = "r") -> None:
    """Send a message to a run, under a key."""
    told = signal(store, run_id=run_id, name="say", payload='"more"', key=key, content="c")
    assert told[0] == "ok"


def test_a_message_that_a_run_has_heard_starts_no_other_run(store: Store) -> None:
    holder(store)
    say(store)
    assert submit(store, "s", topic=TOPIC, said="k") == ("taken", "r"), "not heard yet"
    heard(store)
    before = room(store)
    assert submit(store, "s", topic=TOPIC, said="k") == ("heard", "r"), "first, though r is live"
    assert submit(store, "s", topic=TOPIC, said="other") == ("taken", "r")
    commit_end(store, claim(store, step=1))
    assert submit(store, "s", topic=TOPIC, said="k") == ("heard", "r")
    assert store.reads.fields("s") is None and room(store)["before"].startswith(before["run"])
    assert submit(store, "s", topic=TOPIC, said="other") == ("ok", "s")
    assert submit(store, "t", topic=TOPIC, said="k") == ("heard", "r"), "one before the holder"


def test_a_message_that_its_run_has_not_heard_starts_another(store: Store) -> None:
    holder(store)
    say(store, "j")
    say(store)
    heard(store, place=1)
    stop(store)
    assert submit(store, "s", topic=TOPIC, said="j") == ("heard", "r")
    assert submit(store, "s", topic=TOPIC, said="k", said_content="d") == ("said_other", "r")
    assert store.signals.stored("r", [("say", 2)])[0].payload == '"more"'  # type: ignore[union-attr]
    before = int(store.redis.hget(store.keys.mailbox("r"), "bytes") or 0)
    assert submit(store, "s", topic=TOPIC, said="k", said_content="c") == ("ok", "s")
    moved = store.signals.stored("r", [("say", 2)])[0]
    assert moved is not None and moved.payload == "", "the copy is the new run's"
    assert store.redis.hget(store.keys.mailbox("r"), "bytes") == str(before - len('"more"'))


def test_a_message_whose_copy_is_missing_starts_a_run(store: Store) -> None:
    holder(store)
    say(store)
    store.redis.hdel(store.keys.mailbox("r"), "say:1")
    stop(store)
    assert submit(store, "s", topic=TOPIC, said="k", said_content="c") == ("ok", "s")
    assert not store.redis.hexists(store.keys.mailbox("r"), "say:1")


def test_another_signal_under_the_same_key_is_no_message(store: Store) -> None:
    holder(store)
    signal(store, key="k", content="c")
    commit_next(store, claim(store), "Controller", options={"take": "paid 1"})
    assert submit(store, "s", topic=TOPIC, said="k") == ("taken", "r")


def test_a_run_of_the_same_id_has_not_heard_it(store: Store) -> None:
    holder(store)
    say(store)
    heard(store)
    store.redis.hset(store.keys.run("r"), "nonce", "another")
    assert submit(store, "s", topic=TOPIC, said="k") == ("ok", "s")


def test_a_run_follows_the_last_holder_of_its_thread(store: Store) -> None:
    ada: dict[str, Any] = {"topic": TOPIC, "fields": {"thread_id": "ada"}}
    assert submit(store, "r", **ada) == ("ok", "r")
    assert "follows" not in hash_of(store)
    commit_end(store, claim(store))
    assert submit(store, "s", **ada) == ("ok", "s")
    assert hash_of(store, "s")["follows"] == "r"
    stop(store, run_id="s")
    assert submit(store, "t", **ada) == ("ok", "t")
    assert hash_of(store, "t")["follows"] == "s"
    stop(store, run_id="t")
    assert submit(store, "u", topic=TOPIC) == ("ok", "u")
    assert "follows" not in hash_of(store, "u"), "it belongs to no thread"
    stop(store, run_id="u")
    assert submit(store, "v", **ada) == ("ok", "v")
    assert "follows" not in hash_of(store, "v"), "the holder before belonged to none"
