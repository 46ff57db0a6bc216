"""A worker that was asked to end gives back the round that has not begun."""

from __future__ import annotations

import pytest
import redis
from kombu import Connection, Queue

from perdure import Settings
from perdure.worker.app import broker_url
from tests.support.redis_servers import until


@pytest.mark.parametrize(("own", "waiting"), [(False, 0), (True, 1)])
def test_only_where_nothing_but_rounds_is_popped_the_popping_ends_with_the_consuming(
    settings: Settings, own: bool, waiting: int
) -> None:
    """A message that is on its way while the connection is closed is lost: the sweep sends a round
    again, but no sweep sends an app's own task.
    """
    options = {"guard_prefix": settings.prefix, "ack_emulation": False}
    names = [f"{settings.prefix}.controller", *([f"{settings.prefix}-theirs"] if own else [])]
    with (
        Connection(broker_url(str(settings.redis_url)), transport_options=options) as connection,
        redis.Redis.from_url(settings.redis_url) as server,
    ):
        consumer = connection.Consumer([Queue(name) for name in names], accept=["json"])
        consumer.channel.brpop_timeout = (
            600  # so that nothing but the cancelling, or a message, ends it
        )
        consumer.consume()
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.2)
        until(lambda: server.info("clients")["blocked_clients"] == 1, "the server to have it wait")
        consumer.cancel()
        until(
            lambda: server.info("clients")["blocked_clients"] == waiting,
            "the server to have noticed",
        )
        if own:
            server.lpush(names[0], "no round's")  # kombu waits for an answer before it closes
