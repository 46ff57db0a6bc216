"""Over RabbitMQ, fields of a message beside a round are taken off.

Messages that are no round: test_corpus.py.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import amqp
import pytest

from perdure import Client, Settings
from tests.support.rabbitmq import RabbitServer
from tests.support.redis_servers import until
from tests.support.workers import workers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.settings(flow_modules=("tests.support.example_flows.rings",)),
]


@contextmanager
def publisher(rabbit: RabbitServer, queue: str) -> Iterator[amqp.Channel]:
    """Open a channel to publish on, once a worker consumes from the queue."""

    def consumed() -> bool:
        try:
            return bool(channel.queue_declare(queue, passive=True).consumer_count)
        except amqp.NotFound:
            return False

    with rabbit.connection(confirm_publish=True) as connection:
        channel = connection.channel()
        until(consumed, f"a consumer of {queue}")
        yield channel


def good(client: Client, run_id: str = "nobody") -> tuple[str, dict[str, Any]]:
    """Return body and properties of a round's message, as Celery builds them."""
    message = json.loads(client._connection.publisher.message("controller", run_id, 0, 0).text)
    body = base64.b64decode(message["body"]).decode()
    return body, {
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "application_headers": message["headers"],
    }


@pytest.mark.parametrize(
    "extra",
    [
        {"made_up": [1, 2]},
        {"stamps": {}},
        {"when": datetime(2030, 1, 1, tzinfo=UTC), "d": Decimal("1.5")},
    ],
)
@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"priority": 9, "delivery_mode": 1},
        {"expiration": "60000", "type": "t", "app_id": "a", "message_id": "m"},
    ],
)
def test_a_header_or_property_that_is_none_of_a_rounds_is_taken_off(
    client: Client,
    settings: Settings,
    rabbit: RabbitServer,
    prefix: str,
    extra: dict[str, Any],
    properties: dict[str, Any],
) -> None:
    queue = f"{prefix}.controller"
    with (
        workers(1, settings.model_copy(update={"broker_url": rabbit.url})) as [worker],
        publisher(rabbit, queue) as channel,
    ):
        run = client.submit("ledger", "g", {"rounds": 1})
        body, plain = good(client, run.id)
        message = amqp.Message(
            body,
            **{
                **plain,
                **properties,
                "application_headers": {**plain["application_headers"], **extra},
            },
        )
        channel.basic_publish(message, routing_key=queue)
        assert client.wait(run.id, 20).answer == [0]
        assert worker.process.poll() is None
    assert client._store.fleet.dead_letters() == []
