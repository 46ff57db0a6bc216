"""Perdure's app with a broker that loses and repeats messages.

The environment sets the faults:

- LOSE_SHARE: the share of messages that are lost. A prefetched round is lost after its claim.
- COPIES: how many more times each message is delivered, in any order.
- DIES_ONCE: a worker is killed before it publishes a message, once for all workers with the same
  word. If the scripts push, the kill is between the pop and the claim, when neither the list nor
  the hash has the message. If messages are published, it is between the commit and the publishing.

The server of the runs counts each fault by its round, so that a test can check that it happened.
"""

from __future__ import annotations

import base64
import json
import os
import random
import signal
from collections.abc import Iterable
from typing import Any

from kombu.transport import TRANSPORT_ALIASES
from redis import Redis

from perdure.worker.app import app, engine_of
from perdure.worker.engine.fast.handoff import FastRounds, Handoff
from perdure.worker.messaging import transports
from perdure.worker.messaging.outbox_publisher import OutboxPublisher
from perdure.worker.runtime.fast import installation
from perdure.worker.runtime.runtime import Runtime
from perdure.worker.store import Prefetched
from perdure.worker.store.keys import role_of

LOSE_SHARE = float(os.environ.get("LOSE_SHARE", "0"))
COPIES = int(os.environ.get("COPIES", "0"))
DIES_ONCE = os.environ.get("DIES_ONCE")
_chance = random.Random(int(os.environ.get("SEED", "0")) + os.getpid())


def _thrown_away(redis: Redis, prefix: str) -> bool:
    """Return whether this delivery, the next of all that reach workers under the prefix, is one of
    the share: three of any ten, not by chance.
    """
    if not LOSE_SHARE:
        return False
    number = redis.incr(f"{prefix}:test:offered")
    return int(number * LOSE_SHARE) > int((number - 1) * LOSE_SHARE)


def _round_of(text: str) -> str:
    run_id, epoch, step = json.loads(base64.b64decode(json.loads(text)["body"]))[0]
    return f"{run_id} {epoch} {step}"


class Channel(transports.RedisChannel):
    """Where the scripts push."""

    def popped(self, reply: Any) -> Any:
        passed = super().popped(reply)
        if passed is None:
            return None
        queue, text = passed
        with self.conn_or_acquire() as client:
            if _thrown_away(client, self.guard_prefix):
                client.hincrby(f"{self.guard_prefix}:test:thrown", _round_of(text), 1)
                return None
            if client.hincrby(f"{self.guard_prefix}:test:delivered", _round_of(text), 1) == 1:
                for _ in range(COPIES):
                    # At the consuming end it comes at once, at the far end late: behind newer
                    # messages, or after the end.
                    (client.rpush if _chance.random() < 0.5 else client.lpush)(queue, text)
        return passed


class Transport(transports.RedisTransport):
    Channel = Channel


class LeakyOutbox(OutboxPublisher):
    """Where messages are published."""

    engine: Runtime

    def publish(self, messages: Iterable[tuple[str, str]]) -> None:
        redis, prefix = self.engine.store.redis, self.engine.settings.prefix
        for queue, text in messages:
            if DIES_ONCE and redis.hsetnx(f"{prefix}:test:died", DIES_ONCE, _round_of(text)):
                os.kill(os.getpid(), signal.SIGKILL)
            if _thrown_away(redis, prefix):
                redis.hincrby(f"{prefix}:test:thrown", _round_of(text), 1)
                continue
            copies = [(queue, text)] * (1 + COPIES)
            redis.hincrby(f"{prefix}:test:delivered", _round_of(text), len(copies))
            super().publish(copies)


class LeakyFastRounds(FastRounds):
    """If commits prefetch: a message that is thrown away is claimed already, so its lease has to
    lapse.
    """

    engine: Runtime

    def keep(self, handoff: Handoff, prefetched: Prefetched) -> None:
        fetched = prefetched
        redis, prefix = self.engine.store.redis, self.engine.settings.prefix
        text = fetched.text or self._written(fetched)
        if _thrown_away(redis, prefix):
            kind = "thrown" if fetched.claim is None else "dropped"
            redis.hincrby(f"{prefix}:test:{kind}", _round_of(text), 1)
            return
        if redis.hincrby(f"{prefix}:test:delivered", _round_of(text), 1) == 1:
            for _ in range(COPIES):
                (redis.rpush if _chance.random() < 0.5 else redis.lpush)(fetched.list, text)
        super().keep(handoff, prefetched)

    def _written(self, fetched: Prefetched) -> str:
        """Return the message of a run that stays, which was never written."""
        assert fetched.claim is not None
        fields = fetched.claim.fields
        return self.engine.publisher.message(
            role_of(fetched.list), fields["id"], int(fields["epoch"]), int(fields["step"])
        ).text


if engine_of(app).publisher.outbox:
    leaky = LeakyOutbox(app, engine_of(app).store.keys)
    leaky.engine = engine_of(app)
    engine_of(app).publisher = leaky
else:
    TRANSPORT_ALIASES["perdure"] = "tests.support.apps.unreliable_broker:Transport"
    LeakyFastRounds.engine = engine_of(app)
    installation.FastRounds = LeakyFastRounds  # type: ignore[misc]
__all__ = ["app"]
