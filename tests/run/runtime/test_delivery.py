"""The delivery of prefetched messages: the cases in which it is possible, and the course of the
others.

With a real worker: tests/e2e/test_fetching.py.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from kombu.transport import virtual

from perdure import Settings
from perdure.worker.app import make_app
from perdure.worker.messaging.message import validate
from perdure.worker.runtime.fast.delivery import Delivery, unfit
from perdure.worker.store import Claim, Prefetched
from tests.support.fast_rounds import fast_rounds_without_server


def granted(run_id: str) -> Claim:
    return Claim("1", 1, 0, 0, 0, {"id": run_id, "epoch": "0", "step": "0"}, [], "claim")


def test_a_worker_that_leaves_takes_the_plain_path() -> None:
    rounds = fast_rounds_without_server()
    delivery = Delivery(rounds, lambda claim: None, validate)
    rounds.prefetcher.begin(["c"], 1, False)
    assert delivery.is_on
    delivery.end()
    assert not delivery.is_on and delivery.handoff(object()) is None


def test_what_cannot_be_delivered_is_released() -> None:
    returned: list[Claim] = []
    rounds = fast_rounds_without_server()
    delivery = Delivery(rounds, returned.append, validate)
    rounds.prefetcher.begin(["c"], 1, False)
    handoff = rounds.handoff()
    rounds.keep(handoff, Prefetched("c", TEXT, granted("r")))
    assert not delivery.deliver_next(handoff, Gone())
    assert [claim.fields["id"] for claim in returned] == ["r"]
    assert not delivery.deliver_next(handoff, Gone())  # once
    assert len(returned) == 1 and handoff.prefetched is None


class Gone:
    """A channel whose connection was closed."""

    connection = None


#: A round's message, as Celery builds one.
TEXT = (
    '{"body": "W1sicnVuIiwgMCwgMF0sIHt9LCB7ImNhbGxiYWNrcyI6IG51bGwsICJlcnJiYWNrcyI6IG51bGwsICJjaGFpbiI6IG51bGwsICJjaG9yZCI6IG51bGx9XQ==", '
    '"content-encoding": "utf-8", "content-type": "application/json", '
    '"headers": {"lang": "py", "task": "perdure.executor_round", "id": "x", "argsrepr": "(\'run\', 0, 0)"}, '
    '"properties": {"delivery_tag": "t", "body_encoding": "base64", "delivery_info": {"exchange": "", "routing_key": "e"}}}'
)


def test_only_the_guard_s_channel_is_fit() -> None:
    why = unfit(object(), 4)
    assert why is not None and "validating" in why


@pytest.mark.parametrize(("taken", "fit"), [(4, True), (1, True), (5, False), (0, False)])
def test_no_more_messages_are_taken_than_rounds_are_played_or_nothing_is_fetched(
    settings: Settings, taken: int, fit: bool
) -> None:
    """A message that waits for a slot in the pool would wait with a lease; 0 is as many as there
    are.
    """
    with make_app(settings).connection_for_read() as connection, connection.channel() as channel:
        channel.qos.prefetch_count = taken
        why = unfit(channel, slots=4)
    assert (why is None) == fit
    assert fit or "at once" in str(why)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(virtual.Transport, "_deliver"), (virtual.QoS, "append"), (virtual.QoS, "ack")],
)
def test_where_kombu_has_changed_nothing_is_fetched(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    def other(self: Any, something: Any, else_: Any, now: Any) -> None: ...

    with make_app(settings).connection_for_read() as connection, connection.channel() as channel:
        channel.qos.prefetch_count = 4
        assert unfit(channel, slots=4) is None
        with monkeypatch.context() as changed:
            changed.setattr(owner, name, other)
            why = unfit(channel, slots=4)
    assert why is not None and name in why


def test_celery_still_ends_a_task_by_acknowledging_it() -> None:
    """A canary: a prefetched message is delivered in ``acknowledge``, which Celery calls last for a
    task with late acknowledgement.
    """
    from celery.worker.request import create_request_cls

    assert "self.acknowledge()" in inspect.getsource(create_request_cls)
