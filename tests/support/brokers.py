"""The three grounds that messages are handed over on: the runs' own server, another Redis,
RabbitMQ.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from perdure import Client, Settings
from perdure.worker.store.keys import Keys
from tests.support.rabbitmq import RabbitServer, rabbit_binary, rabbit_server
from tests.support.redis_servers import CrashableServer, available_binaries, server, until

HANDOVERS = ("fused", "redis", "rabbit")
#: Of a broker of either kind: it can be killed, and started again on its data.
Broker = CrashableServer | RabbitServer


@contextmanager
def ground(
    handover: str, prefix: str, fsync: str = "always", **options: object
) -> Iterator[tuple[Settings, CrashableServer, Broker | None]]:
    """Start separate servers; yield settings, the server that holds the runs, and the broker if it
    is another.
    """
    with ExitStack() as running:
        state = running.enter_context(server("valkey", fsync))
        broker: Broker | None = None
        if handover == "redis":
            # The other kind of server, where this machine has both.
            broker = running.enter_context(
                server("redis" if "redis" in available_binaries() else "valkey", "everysec")
            )
        elif handover == "rabbit":
            if rabbit_binary() is None and "CI" not in os.environ:
                pytest.skip("this machine has no rabbitmq-server")
            broker = running.enter_context(rabbit_server())
        url = None if broker is None else broker.url
        yield Settings(redis_url=state.url, broker_url=url, prefix=prefix, **options), state, broker  # type: ignore[arg-type]


def settled(broker: Broker, settings: Settings) -> None:
    """Wait until a kill is safe: RabbitMQ never serves a quorum queue again that was made less than
    half a second before.
    """
    if isinstance(broker, RabbitServer):
        with closing(Client(settings=settings)) as client:
            own = {queue for worker in client.workers() for queue in worker["lists"]}
        for queue in (*Keys(settings.prefix).queue_names, *own):
            until(lambda queue=queue: broker.settled(queue), f"{queue} on disk")
