"""Over RabbitMQ, too, no message's content can end a worker."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import amqp
import pytest

from tests.support.rabbit import RabbitServer
from tests.support.servers import CrashableServer, until
from tests.support.workers import workers
from worker import Client, Settings

NESTED = 1500
pytestmark = pytest.mark.slow


@pytest.fixture
def settings(server: CrashableServer, prefix: str) -> Settings:
    """The client's: it publishes nothing, so that what the worker gets is the test's own."""
    return Settings(redis_url=server.url, prefix=prefix, flow_modules=("tests.support.rings",))


@contextmanager
def publisher(rabbit: RabbitServer, queue: str) -> Iterator[amqp.Channel]:
    """A channel to publish on, once a worker consumes from the queue."""

    def consumed() -> bool:
        try:
            return bool(channel.queue_declare(queue, passive=True).consumer_count)
        except amqp.NotFound:
            return False

    with rabbit.connection(confirm_publish=True) as connection:
        channel = connection.channel()
        until(consumed, f"a consumer of {queue}")
        yield channel


class Forged(amqp.Message):  # type: ignore[misc]
    """A message whose table of headers is written byte by byte."""

    table: bytes

    def _serialize_properties(self) -> bytes:
        return struct.pack(">HI", 0x2000, len(self.table)) + self.table


def forged(table: bytes) -> amqp.Message:
    made = Forged("[]")
    made.table = table
    return made


def nested(depth: int) -> bytes:
    """A table in a table in a table."""
    content = b""
    for _ in range(depth):
        content = b"\1a" + b"F" + struct.pack(">I", len(content)) + content
    return content


def good(client: Client, run_id: str = "nobody") -> tuple[str, dict[str, Any]]:
    """Body and properties of a round's message, as Celery builds them."""
    message = json.loads(client._engine.dispatcher.message("controller", run_id, 0, 0).text)
    body = base64.b64decode(message["body"]).decode()
    return body, {"content_type": "application/json", "content_encoding": "utf-8", "application_headers": message["headers"]}


def malformed(body: str, properties: dict[str, Any]) -> dict[str, amqp.Message]:
    """Messages that are none of a round, each for a reason of its own."""
    headers = properties["application_headers"]

    def with_body(text: str | bytes, **changed: Any) -> amqp.Message:
        raw = text.encode() if isinstance(text, str) else text  # text would be encoded as the property says
        return amqp.Message(raw, **{**properties, **changed})

    def with_headers(**changed: Any) -> amqp.Message:
        return amqp.Message(body, **{**properties, "application_headers": {**headers, **changed}})

    def without(*names: str) -> amqp.Message:
        kept = {name: value for name, value in headers.items() if name not in names}
        return amqp.Message(body, **{**properties, "application_headers": kept})

    run_id, epoch, step = json.loads(body)[0]
    embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    return {
        "empty": amqp.Message(""),
        "no properties": amqp.Message(body),
        "no headers": amqp.Message(body, content_type="application/json", content_encoding="utf-8"),
        "no id": without("id"),
        "no task": without("task"),
        "no task, no id": without("task", "id"),
        "protocol 1": with_body(
            json.dumps({"task": "holdfast.controller_round", "id": "x", "args": [], "kwargs": {}}), application_headers={}
        ),
        "another task": with_headers(task="celery.backend_cleanup"),
        "unknown task": with_headers(task="os.system"),
        "task a number": with_headers(task=1),
        "task a table": with_headers(task={"a": 1}),
        "id null": with_headers(id=None),
        "id bytes that are no text": with_headers(id=b"\xff\xfe"),
        "id endless": with_headers(id="x" * 5000),
        "eta a timestamp": with_headers(eta=datetime(2030, 1, 1, tzinfo=UTC)),
        "eta a text": with_headers(eta="tomorrow"),
        "expires a decimal": with_headers(expires=Decimal("1.5")),
        "expires past": with_headers(expires="2000-01-01T00:00:00"),
        "retries a text": with_headers(retries="many"),
        "retries a float": with_headers(retries=1.5),
        "retries huge": with_headers(retries=2**62),
        "time limit": with_headers(timelimit=[0.001, 0.001]),
        "time limit a text": with_headers(timelimit="soon"),
        "stamped": with_headers(stamps={"a": [1]}, stamped_headers=["a"]),
        "group": with_headers(group="g", group_index=1),
        "body not JSON": with_body("{"),
        "body not UTF-8": with_body(b"\xff\xff"),
        "body UTF-16": with_body(body.encode("utf-16")),
        "body null": with_body("null"),
        "body deep": with_body("[" * 5000),
        "body long": with_body(json.dumps([["x" * 100_000, 0, 0], {}, embed])),
        "body huge": with_body(b"x" * 8_000_000),
        "too few arguments": with_body(json.dumps([[run_id], {}, embed])),
        "too many arguments": with_body(json.dumps([[run_id, epoch, step, 1], {}, embed])),
        "keyword arguments": with_body(json.dumps([[run_id, epoch, step], {"x": 1}, embed])),
        "run id a list": with_body(json.dumps([[[], epoch, step], {}, embed])),
        "step huge": with_body(json.dumps([[run_id, epoch, 10**400], {}, embed])),
        "step negative": with_body(json.dumps([[run_id, epoch, -1], {}, embed])),
        "a chain": with_body(json.dumps([[run_id, epoch, step], {}, {**embed, "chain": [{"task": "x"}]}])),
        "pickle": with_body(b"cos\nsystem\n(S'true'\ntR.", content_type="application/x-python-serialize", content_encoding="binary"),
        "yaml": with_body("!!python/object/apply:os.system [true]", content_type="application/x-yaml"),
        "content type unknown": with_body(body, content_type="application/x-made-up"),
        "encoding unknown": with_body(body, content_encoding="rot13"),
        "encoding binary": with_body(body, content_encoding="binary"),
        "compressed, it says": with_body(body, content_encoding="x", application_headers={**headers, "compression": "zlib"}),
        "table deep": forged(nested(NESTED)),
        "timestamp beyond the years": forged(b"\1aT" + struct.pack(">Q", 2**63)),
    }


def test_malformed_messages_go_to_the_dead_letters_and_the_worker_lives(
    client: Client, settings: Settings, rabbit: RabbitServer, prefix: str
) -> None:
    queue = f"{prefix}.controller"
    with workers(1, settings.model_copy(update={"broker_url": rabbit.url})) as [worker], publisher(rabbit, queue) as channel:
        bad = malformed(*good(client))
        for why, message in bad.items():
            channel.basic_publish(message, routing_key=queue)
            until(lambda why=why: worker.process.poll() is not None or len(client._store.dead_letters(1000)) > list(bad).index(why), why)  # type: ignore[misc]
            assert worker.process.poll() is None, f"{why}: the worker ended"
        run = client.submit("ledger", "g", {"rounds": 1})
        body, properties = good(client, run.id)
        channel.basic_publish(amqp.Message(body, **properties), routing_key=queue)
        assert client.wait(run.id, 20).answer == [0]
        assert worker.process.poll() is None
        letters = client._store.dead_letters(1000)
        assert len(letters) == len(bad)
        assert {letter["list"] for letter in letters} == {queue}
        until(lambda: channel.queue_declare(queue, passive=True).message_count == 0, "an empty queue")


@pytest.mark.parametrize("extra", [{"made_up": [1, 2]}, {"stamps": {}}, {"when": datetime(2030, 1, 1, tzinfo=UTC), "d": Decimal("1.5")}])
@pytest.mark.parametrize(
    "properties", [{}, {"priority": 9, "delivery_mode": 1}, {"expiration": "60000", "type": "t", "app_id": "a", "message_id": "m"}]
)
def test_a_header_or_property_that_is_none_of_a_rounds_is_taken_off(
    client: Client, settings: Settings, rabbit: RabbitServer, prefix: str, extra: dict[str, Any], properties: dict[str, Any]
) -> None:
    queue = f"{prefix}.controller"
    with workers(1, settings.model_copy(update={"broker_url": rabbit.url})) as [worker], publisher(rabbit, queue) as channel:
        run = client.submit("ledger", "g", {"rounds": 1})
        body, plain = good(client, run.id)
        message = amqp.Message(body, **{**plain, **properties, "application_headers": {**plain["application_headers"], **extra}})
        channel.basic_publish(message, routing_key=queue)
        assert client.wait(run.id, 20).answer == [0]
        assert worker.process.poll() is None
    assert client._store.dead_letters() == []
