"""Fetching: when commits fetch, from where, and where they must not. What it does with a real worker: tests/e2e/test_fetching.py."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from kombu.transport import virtual

from worker import Settings, fetching
from worker.app import make_app
from worker.fetching import LEFT_TO_OTHERS, Delivery, Fetching, changed_ground, unfit
from worker.store import Fetched, Granted


def fetches(slots: int = 4, inline: bool = False) -> Fetching:
    made = Fetching(lambda claim: None)
    made.begin(["c", "e"], slots, inline)
    return made


def granted(run_id: str) -> Granted:
    return Granted("1", 1, 0, 0, 0, {"id": run_id, "epoch": "0", "step": "0"}, [], "claim")


def test_nothing_is_fetched_before_the_worker_has_begun() -> None:
    off = Fetching(lambda claim: None)
    assert not off.on and not off.lists(1) and off.delivery(object()) is None


def test_nothing_is_fetched_once_the_worker_leaves() -> None:
    made = fetches()
    assert made.on
    made.end()
    assert not made.on and not made.lists(1)


def test_in_turns_another_list_comes_first() -> None:
    made = fetches()
    assert [made.lists(1)[0] for _ in range(4)] == ["e", "c", "e", "c"]
    assert sorted(made.lists(1)) == ["c", "e"]


def test_of_several_rounds_some_leave_the_next_message_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "LEFT_SECONDS", 0.0)
    made = fetches()
    assert [bool(made.lists(2)) for _ in range(2 * LEFT_TO_OTHERS)].count(False) == 2


def test_no_more_often_than_it_takes_to_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "LEFT_SECONDS", 3600.0)
    made = fetches()
    assert [bool(made.lists(2)) for _ in range(20 * LEFT_TO_OTHERS)].count(False) == 1


def test_a_lone_round_always_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "LEFT_SECONDS", 0.0)
    made = fetches()
    assert all(made.lists(1) for _ in range(3 * LEFT_TO_OTHERS))


def test_a_solo_worker_leaves_some_to_others_though_it_plays_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "LEFT_SECONDS", 0.0)
    made = fetches(1, inline=True)
    assert [bool(made.lists(1)) for _ in range(LEFT_TO_OTHERS)].count(False) == 1


def test_it_stops_where_celery_hands_on_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """What is fetched is claimed: were it never handed on, its lease would lapse each time."""
    made = fetches(slots=2)
    for number in range(3):
        made.keep(Delivery(), Fetched("c", "text", granted(str(number))))
    assert not made.lists(1) and not made.on
    assert "commits fetch no more" in caplog.text


def test_what_cannot_be_handed_on_is_given_back() -> None:
    returned: list[Granted] = []
    made = Fetching(returned.append)
    made.begin(["c"], 1, False)
    delivery = Delivery()
    made.keep(delivery, Fetched("c", TEXT, granted("r")))
    made.hand_on(delivery, Gone())
    assert [claim.fields["id"] for claim in returned] == ["r"]
    made.hand_on(delivery, Gone())  # once
    assert len(returned) == 1 and delivery.fetched is None


class Gone:
    """A channel whose connection was closed."""

    connection = None


#: A round's message, as Celery builds one.
TEXT = (
    '{"body": "W1sicnVuIiwgMCwgMF0sIHt9LCB7ImNhbGxiYWNrcyI6IG51bGwsICJlcnJiYWNrcyI6IG51bGwsICJjaGFpbiI6IG51bGwsICJjaG9yZCI6IG51bGx9XQ==", '
    '"content-encoding": "utf-8", "content-type": "application/json", '
    '"headers": {"lang": "py", "task": "holdfast.executor_round", "id": "x", "argsrepr": "(\'run\', 0, 0)"}, '
    '"properties": {"delivery_tag": "t", "body_encoding": "base64", "delivery_info": {"exchange": "", "routing_key": "e"}}}'
)


def test_only_the_guard_s_channel_is_fit() -> None:
    why = unfit(object(), 4)
    assert why is not None and "guard" in why


@pytest.mark.parametrize(("taken", "fit"), [(4, True), (1, True), (5, False), (0, False)])
def test_no_more_messages_are_taken_than_rounds_are_played_or_nothing_is_fetched(settings: Settings, taken: int, fit: bool) -> None:
    """What waits for a place in the pool would wait with a lease; 0 is as many as there are."""
    with make_app(settings).connection_for_read() as connection, connection.channel() as channel:
        channel.qos.prefetch_count = taken
        why = unfit(channel, slots=4)
    assert (why is None) == fit
    assert fit or "at once" in str(why)


def test_kombu_is_as_it_is_known_here() -> None:
    """A canary: red where an update of kombu has changed what the hand-over touches; workers then go on without."""
    assert changed_ground() is None


@pytest.mark.parametrize(("owner", "name"), [(virtual.Transport, "_deliver"), (virtual.QoS, "append"), (virtual.QoS, "ack")])
def test_where_kombu_has_changed_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    def other(self: Any, something: Any, else_: Any, now: Any) -> None: ...

    monkeypatch.setattr(owner, name, other)
    why = changed_ground()
    assert why is not None and name in why
    monkeypatch.delattr(owner, name)
    assert changed_ground() is not None


def test_celery_still_ends_a_task_by_acknowledging_it() -> None:
    """A canary: what was fetched is handed on in ``acknowledge``, which Celery calls last for a task with late acknowledgement."""
    from celery.worker.request import create_request_cls

    assert "self.acknowledge()" in inspect.getsource(create_request_cls)
