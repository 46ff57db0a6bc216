"""A run whose stored message is none of its round is ended as damaged: else it would be sent for
ever, and no worker could claim by it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Settings
from perdure.worker.app import make_app
from perdure.worker.domain.record import SCHEMA
from perdure.worker.engine.sweeper import Sweeper
from perdure.worker.messaging.publisher import SameServerPublisher
from perdure.worker.store import Claim, Store
from tests.support.runs import (
    GRACE,
    LEASE,
    advance,
    claim,
    clock,
    due,
    events,
    everything,
    fail_round,
    hash_of,
    indexes,
    message,
    new_run,
    pause_here,
    phase,
    record,
    retry,
    stop,
    take,
    try_claim,
)

Damage = Callable[[str], str]


def quarantine(store: Store, **other: str) -> list[str]:
    named = {"epoch": "0", "step": "0", "message": message("r", 0, 0), "error": "damaged", **other}
    return store.rounds.quarantine("r", **named)  # type: ignore[arg-type]


def test_a_queued_run_with_that_message_is_ended_and_named(store: Store) -> None:
    new_run(store)
    assert quarantine(store) == ["ok"]
    fields = hash_of(store)
    assert (fields["phase"], fields["error"], fields["quarantined"]) == ("errored", "damaged", "1")
    assert indexes(store) == ["errored"] and due(store) is None
    assert events(store)[-1]["type"] == "errored"
    assert store.redis.pexpiretime(store.keys.run("r")) > clock(store)


@pytest.mark.parametrize("other", [{"epoch": "1"}, {"step": "1"}, {"message": "another"}])
def test_a_run_that_has_moved_since_is_let_be(store: Store, other: dict[str, str]) -> None:
    new_run(store)
    before = everything(store)
    assert quarantine(store, **other) == ["moved"]
    assert everything(store) == before


@pytest.mark.parametrize("moved", [claim, stop])
def test_a_run_that_is_not_queued_is_let_be(store: Store, moved: Callable[[Store], Any]) -> None:
    new_run(store)
    moved(store)
    before = everything(store)
    assert quarantine(store) == ["moved"]
    assert everything(store) == before


def test_done_twice_it_changes_nothing_more(store: Store) -> None:
    new_run(store)
    quarantine(store)
    before = everything(store)
    assert quarantine(store) == ["moved"]
    assert everything(store) == before


def test_no_run_is_missing(store: Store) -> None:
    assert quarantine(store) == ["missing"]


def test_a_retry_takes_it_up_with_a_sound_message(store: Store) -> None:
    new_run(store)
    quarantine(store)
    assert retry(store)[0] == "queued"
    assert "quarantined" not in hash_of(store) and isinstance(try_claim(store), Claim)


@pytest.fixture
def fused(store: Store) -> SameServerPublisher:
    """Makes messages as workers do, which the guard takes."""
    return SameServerPublisher(
        make_app(Settings(redis_url=store.url, prefix=store.keys.prefix)), store.keys
    )


@pytest.fixture
def sweeper(store: Store, fused: SameServerPublisher) -> Sweeper:
    return Sweeper(
        store, fused, Settings(redis_url=store.url, prefix=store.keys.prefix), "me", dict
    )


def submit(store: Store, fused: SameServerPublisher, run_id: str, **fields: str) -> str:
    text = fused.message("controller", run_id, 0, 0).text
    assert store.runs.submit(run_id, record(store, **fields), nonce=run_id, message=text)[0] == "ok"
    return text


def damage(store: Store, run_id: str, change: Damage) -> None:
    key = store.keys.run(run_id)
    store.redis.hset(key, "message", change(str(store.redis.hget(key, "message"))))


def about(*args: Any) -> Damage:
    """Return the change to the message of another round."""

    def change(text: str) -> str:
        read = json.loads(text)
        content = json.loads(base64.b64decode(read["body"]))
        return json.dumps(
            {
                **read,
                "body": base64.b64encode(json.dumps([list(args), *content[1:]]).encode()).decode(),
            }
        )

    return change


DAMAGES: dict[str, Damage] = {
    "empty": lambda text: "",
    "cut short": lambda text: text[: len(text) // 2],
    "a bit flipped": lambda text: text.replace("perdure", "hnldfast"),
    "a bit of its body flipped": lambda text: text.replace('"body": "W1', '"body": "V1'),
    "a byte that is no text": lambda text: text[:40] + "\udcff" + text[41:],
    "another's": about("sound", 0, 0),
    "of another epoch": about("hurt", 1, 0),
    "of another step": about("hurt", 0, 3),
    "another content type": lambda text: text.replace("application/json", "application/yaml"),
    "too long": lambda text: text + " " * 20_000,
    "deep": lambda text: "[" * 5000,
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_run_whose_stored_message_is_damaged_is_quarantined_when_it_is_sent_again(
    store: Store, sweeper: Sweeper, fused: SameServerPublisher, how: str
) -> None:
    for run_id in ("hurt", "sound"):
        submit(store, fused, run_id)
        take(store)  # lost
        if run_id == "hurt":
            damage(store, run_id, DAMAGES[how])
    for _ in range(4):
        advance(store, GRACE)
        sweeper.sweep()
    fields = hash_of(store, "hurt")
    assert (
        fields["phase"] == "errored"
        and "quarantined" in fields
        and "stored message" in fields["error"]
    )
    assert phase(store, "sound") == "queued" and due(store, "sound") is not None
    before = hash_of(store, "hurt")
    for _ in range(4):
        advance(store, GRACE)
        sweeper.sweep()
    assert hash_of(store, "hurt") == before


def test_a_message_that_the_sweep_does_not_send_quarantines_nobody(
    store: Store, sweeper: Sweeper, fused: SameServerPublisher
) -> None:
    """The good one is still in line: by that the run is claimed, and its next round has a fresh
    message.
    """
    text = submit(store, fused, "hurt")
    damage(store, "hurt", DAMAGES["cut short"])
    sweeper.sweep()
    assert phase(store, "hurt") == "queued" and take(store) == text
    assert isinstance(try_claim(store, "hurt"), Claim)


def lapsed(store: Store) -> None:
    claim(store, "hurt")
    advance(store, LEASE)


def backed_off(store: Store) -> None:
    fail_round(store, claim(store, "hurt"), delay=1)
    advance(store, 1)


@pytest.mark.parametrize("way", [lapsed, backed_off])
def test_a_run_that_any_sweep_pushes_is_looked_at(
    store: Store, sweeper: Sweeper, fused: SameServerPublisher, way: Callable[[Store], None]
) -> None:
    submit(store, fused, "hurt")
    way(store)
    damage(store, "hurt", DAMAGES["cut short"])
    sweeper.sweep()
    assert phase(store, "hurt") == "errored" and "quarantined" in hash_of(store, "hurt")


@pytest.mark.parametrize("sound", [True, False])
def test_an_answer_by_default_goes_on_by_the_message_of_its_epoch(
    store: Store, sweeper: Sweeper, fused: SameServerPublisher, sound: bool
) -> None:
    submit(store, fused, "r")
    pause_here(store, claim(store), i_wait="10", i_default="1")
    store.redis.hset(
        store.keys.run("r"),
        "message",
        about("r", 1 if sound else 0, 0)(fused.message("controller", "r", 1, 0).text),
    )
    advance(store, 10)
    sweeper.sweep()
    assert phase(store) == ("queued" if sound else "errored")


def test_a_message_that_a_newer_worker_wrote_is_not_judged(
    store: Store, sweeper: Sweeper, fused: SameServerPublisher
) -> None:
    """It may look strange to this one; and to a newer one it does not."""
    submit(store, fused, "newer", schema=str(int(SCHEMA) + 1))
    take(store)
    damage(store, "newer", lambda text: text.replace("perdure.", "perdure2."))
    for _ in range(4):
        advance(store, GRACE)
        sweeper.sweep()
    assert phase(store, "newer") == "queued"
