"""The shop's own test suite, against a real worker and beat; run by tests/e2e/test_install.py, with
Perdure on the app and without.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from celery import chain, chord, group
from celery.exceptions import TimeLimitExceeded
from celery.schedules import schedule

from tests.support.redis_servers import until
from tests.support.shop import tasks
from tests.support.shop.app import Audited, app

SECONDS = 30


@pytest.fixture(scope="session", autouse=True)
def worker() -> Iterator[None]:
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "tests.support.shop.app",
        "worker",
        "-B",
        "-s",
        os.environ["SHOP_SCHEDULE"],
    ]
    with subprocess.Popen(
        [*command, "-c", "2", "--loglevel", "WARNING"], start_new_session=True
    ) as process:
        until(lambda: bool(app.control.ping(timeout=0.5)), "the shop's worker", SECONDS)
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0


def _number(key: str) -> int:
    return int(app.backend.client.get(key) or 0)


def test_a_result_comes_back() -> None:
    assert tasks.price.delay("apple").get(SECONDS) == 5


def test_a_chain() -> None:
    assert (
        chain(group(tasks.price.s("fig"), tasks.price.s("plum")), tasks.total.s())
        .delay()
        .get(SECONDS)
        == 7
    )


def test_a_chord() -> None:
    assert (
        chord([tasks.price.s(name) for name in ("a", "bb", "ccc")], tasks.total.s())
        .delay()
        .get(SECONDS)
        == 6
    )


def test_a_task_is_retried() -> None:
    assert tasks.reserve.delay("pear", 2).get(SECONDS) == 2


def test_retries_have_an_end() -> None:
    with pytest.raises(tasks.OutOfStock):
        tasks.reserve.delay("pear", 9).get(SECONDS)


def test_mail_takes_its_route() -> None:
    assert tasks.receipt.delay("ada@example.com").get(SECONDS)["key"] == "mail.any"


def test_a_queue_that_is_not_declared_is_an_error() -> None:
    with pytest.raises(Exception, match=r"perdure\.controller"):
        tasks.price.apply_async(("kiwi",), queue="perdure.controller")


def test_pickle_carries_a_set() -> None:
    assert tasks.items.delay({"a", "b"}).get(SECONDS) == {"A", "B"}


def test_an_error_comes_back() -> None:
    with pytest.raises(ValueError, match="no such order"):
        tasks.fail.delay().get(SECONDS)


def test_a_time_limit_ends_a_task() -> None:
    with pytest.raises(TimeLimitExceeded):
        tasks.slow.delay().get(SECONDS)


def test_beat_sends_what_is_due() -> None:
    before = _number("shop:stock-takings")
    until(lambda: _number("shop:stock-takings") >= before + 2, "two stock-takings", SECONDS)
    assert app.conf.beat_schedule == {"stock-taking": {"task": "shop.take_stock", "schedule": 0.5}}
    assert schedule(0.5).seconds == 0.5


def test_signals_and_the_base_class_see_every_task_of_the_shop_and_no_other() -> None:
    before = _number("shop:done")
    tasks.price.delay("melon").get(SECONDS)
    until(lambda: _number("shop:done") > before, "the signal", SECONDS)
    audited = {name.decode() for name in app.backend.client.lrange("shop:audit", 0, -1)}
    assert "shop.price" in audited and all(
        name.startswith(("shop.", "celery.")) for name in audited
    )
    assert isinstance(app.tasks["shop.price"], Audited)


def test_a_task_can_be_revoked_and_the_worker_be_asked() -> None:
    late = tasks.price.apply_async(("late",), countdown=3600)
    until(
        lambda: late.id in str(app.control.inspect(timeout=1).scheduled()),
        "the task to be scheduled",
        SECONDS,
    )
    late.revoke()
    until(
        lambda: late.id in str(app.control.inspect(timeout=1).revoked()),
        "the task to be revoked",
        SECONDS,
    )


@pytest.mark.parametrize("name", ["orders", "mail"])
def test_the_shops_queues_are_what_its_publishers_see(name: str) -> None:
    assert set(app.amqp.queues) == {"orders", "mail"}
    consumed: Any = app.control.inspect(timeout=2).active_queues()
    assert name in {queue["name"] for queues in consumed.values() for queue in queues}
