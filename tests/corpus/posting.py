"""Post: how a stranger puts messages of the corpus before a worker, on each kind of broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import amqp
import redis

from tests.corpus.form import Form
from tests.corpus.messages import AMQP, LIST
from tests.support.rabbitmq import RabbitServer
from tests.support.redis_servers import until

#: Between a queue's name and a priority, in kombu's names of lists.
SEP = "\x06\x16"


class Post(Protocol):
    """A broker, for a program that writes to it."""

    #: Which entries of the corpus it carries.
    transport: str

    def put(self, queue: str, form: Form) -> None: ...

    def waiting(self, queue: str) -> int: ...

    def keys(self) -> set[str]:
        """Return the names of the broker's keys; empty if it has no keys."""
        ...


class ListPost:
    """Lists of a Redis."""

    transport = LIST

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._put = 0

    def put(self, queue: str, form: Form) -> None:
        """Push the message; every eighth goes to a list of another priority, which workers look at
        as well.
        """
        self._put += 1
        self._client.lpush(f"{queue}{SEP}6" if self._put % 8 == 0 else queue, form.listed())

    def waiting(self, queue: str) -> int:
        return int(self._client.llen(queue)) + int(self._client.llen(f"{queue}{SEP}6"))

    def keys(self) -> set[str]:
        return {key.decode(errors="backslashreplace") for key in self._client.scan_iter(count=1000)}


class RabbitPost:
    """Queues of RabbitMQ."""

    transport = AMQP

    def __init__(self, channel: amqp.Channel) -> None:
        self._channel = channel

    def put(self, queue: str, form: Form) -> None:
        self._channel.basic_publish(form.published(), routing_key=queue)

    def waiting(self, queue: str) -> int:
        return int(self._channel.queue_declare(queue, passive=True).message_count)

    def keys(self) -> set[str]:
        return set()


@contextmanager
def post_to(url: str, queues: list[str], rabbit: RabbitServer | None = None) -> Iterator[Post]:
    """Yield a post at the broker with this URL, once a worker consumes from its queues.

    Args:
        url: of the server whose lists are written to. rabbit: the broker, where it is a RabbitMQ.
    """
    if rabbit is None:
        with redis.Redis.from_url(url) as client:
            yield ListPost(client)
        return

    def consumed(queue: str) -> Callable[[], bool]:
        def holds() -> bool:
            try:
                return bool(connection.channel(1).queue_declare(queue, passive=True).consumer_count)
            except amqp.NotFound:
                return False

        return holds

    with rabbit.connection(confirm_publish=True) as connection:
        for queue in queues:
            until(consumed(queue), f"a consumer of {queue}")
        yield RabbitPost(connection.channel())
