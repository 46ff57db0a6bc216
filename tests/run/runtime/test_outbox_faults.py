"""The outbox among faults: damaged messages, brokers that take connections and say nothing, brokers
that are gone.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from celery import Celery

from perdure import Settings, install
from perdure.worker.app import engine_of, make_app
from perdure.worker.messaging.outbox_publisher import CONNECTIONS, OutboxPublisher
from tests.support.redis_servers import CrashableServer, available_binaries, server

STATE = "redis://localhost:1/0"  # never asked


@pytest.fixture(scope="module")
def broker() -> Iterator[CrashableServer]:
    with server(next(iter(available_binaries())), "everysec") as running:
        yield running


def outbox_of(settings: Settings) -> OutboxPublisher:
    found = engine_of(make_app(settings)).publisher
    assert isinstance(found, OutboxPublisher)
    return found


def waiting(broker: CrashableServer, queue: str) -> int:
    with redis.Redis.from_url(str(broker.url)) as asked:
        return int(asked.llen(queue))


def test_a_damaged_message_keeps_no_other_from_being_published(
    broker: CrashableServer, prefix: str
) -> None:
    outbox = outbox_of(Settings(redis_url=STATE, broker_url=broker.url, prefix=prefix))
    good = outbox.message("controller", "r", 0, 0)
    for damaged in (
        "",
        "no JSON",
        "{}",
        "[]",
        "null",
        good.text.replace('"body"', '"bad"'),
        good.text.replace("base64", "\udcff"),
    ):
        outbox.publish([(good.queue, damaged), (good.queue, good.text)])
    outbox.close()
    assert waiting(broker, good.queue) >= 7


def test_messages_in_queues_of_flow_sets_are_counted_on_another_broker(
    broker: CrashableServer, prefix: str
) -> None:
    outbox = outbox_of(Settings(redis_url=STATE, broker_url=broker.url, prefix=prefix))
    queue = f"{prefix}.controller.flows-0a"
    outbox.publish([(queue, outbox.message("controller", "r", 0, 0).text)])
    lengths = outbox.lengths([queue])
    outbox.close()
    assert lengths == {f"{prefix}.controller": 0, f"{prefix}.executor": 0, queue: 1}


def test_an_idle_connection_that_broke_costs_no_message(
    broker: CrashableServer, prefix: str
) -> None:
    outbox = outbox_of(Settings(redis_url=STATE, broker_url=broker.url, prefix=prefix))
    message = outbox.message("controller", "r", 0, 0)
    outbox.publish([(message.queue, message.text)])
    broker.restart()
    before = waiting(broker, message.queue)
    outbox.publish([(message.queue, message.text)] * 3)
    outbox.close()
    assert waiting(broker, message.queue) == before + 3


def test_who_waited_for_others_that_found_the_broker_silent_does_not_try_it_again(
    prefix: str,
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        outbox = outbox_of(
            Settings(
                redis_url=STATE,
                broker_url=f"redis://127.0.0.1:{silent.getsockname()[1]}/0",
                prefix=prefix,
            )
        )
        message = outbox.message("controller", "r", 0, 0)
        with ThreadPoolExecutor(4 * CONNECTIONS) as rounds:
            for _ in range(4 * CONNECTIONS):
                rounds.submit(outbox.publish, [(message.queue, message.text)])
        silent.setblocking(False)
        tries = 0
        while True:
            try:
                silent.accept()[0].close()
            except BlockingIOError:
                break
            tries += 1
    assert 1 <= tries <= CONNECTIONS
    assert socket.getdefaulttimeout() is None, "that is for all the program's sockets"


@pytest.mark.parametrize("as_list", [True, False])
def test_brokers_to_fail_over_between_are_all_tried(prefix: str, as_list: bool) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as gone,
        socket.create_server(("127.0.0.1", 0)) as there,
    ):
        urls = [f"redis://127.0.0.1:{each.getsockname()[1]}/0" for each in (gone, there)]
        gone.close()
        app = Celery("theirs", set_as_current=False)
        app.conf.broker_url = urls if as_list else ";".join(urls)
        outbox = engine_of(install(app, Settings(redis_url=STATE, prefix=prefix))).publisher
        message = outbox.message("controller", "r", 0, 0)
        outbox.publish([(message.queue, message.text)])
        there.setblocking(False)
        there.accept()[0].close()  # raises BlockingIOError if no client came
