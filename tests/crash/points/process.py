"""Process: one process of a story, made of the engine's real parts, on wired connections, with a clock that is set."""

from __future__ import annotations

import base64
import json
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.crash.points.faults import Died, WiredConnection
from tests.crash.points.plot import FLOW
from worker import Client
from worker.engine import Engine
from worker.heartbeat import Heartbeat
from worker.store import Fetched, Granted, Refused, Store, StoreUnavailable
from worker.store.connection import RESENDS
from worker.store.wire import Wire

if TYPE_CHECKING:
    from tests.crash.points.story import Story

logger = logging.getLogger("holdfast.points")


class WiredStore(Store):
    """The store on wired connections; what it was told is written down for the laws."""

    story: Story

    @classmethod
    def of(cls, story: Story, resends: int = RESENDS) -> WiredStore:
        store = cls(story.url, story.settings.prefix, now=story.now, outbox=story.outbox)
        store.story = story
        wired(store.redis, resends)
        store._wire = Wire(store.redis, resends, NoBackoff())
        story.stores.append(store)
        if story.change is not None:
            story.change(store)
        return store

    def claim(self, run_id: str, **options: Any) -> Granted | Refused:
        late = self.story.wire.late
        answer = super().claim(run_id, **options)
        if isinstance(answer, Granted):
            late = self.story.wire.late - late
            self.story.tell("granted", token=int(answer.token), step=options["step"], epoch=options["epoch"], late=late)
        return answer

    def commit_and_fetch(self, run_id: str, **options: Any) -> tuple[str, str, Fetched | None]:
        late = self.story.wire.late
        word, detail, fetched = super().commit_and_fetch(run_id, **options)
        late = self.story.wire.late - late
        newest = int(self.story.inspector.redis.hget(self.keys.queues, "token") or 0)  # before anybody else moves
        self.story.tell("commit", word=word, detail=detail, token=int(options["token"]), newest=newest, late=late, **_where(options))
        return word, detail, fetched


def _where(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("epoch", "step", "kind")}


def wired(client: redis.Redis, resends: int = RESENDS) -> None:
    """Put the wire into a client that has not connected yet; it sends again as the engine's does, but without waiting."""
    pool = client.connection_pool
    pool.connection_class = WiredConnection
    pool.connection_kwargs["retry"] = Retry(NoBackoff(), resends)


class Process:
    """A client's process or a worker's, until it dies."""

    def __init__(self, story: Story, name: str) -> None:
        self.story, self.name = story, name
        self.dead = False
        self.engine = engine = Engine(story.app, story.settings)
        engine.owns_app, engine.name = True, name
        if story.dispatcher is not None:
            engine.dispatcher = story.dispatcher(self)
        engine.store = WiredStore.of(story)

    def die(self) -> None:
        """What the operating system does behind a dead process: its connections are closed. Nothing else is."""
        with suppress(Died):  # a connection that wants to say something as it closes does not come to it
            self.close()

    def close(self) -> None:
        self.engine.close()


class ClientProcess(Process):
    """Somebody's client."""

    def __init__(self, story: Story, name: str) -> None:
        super().__init__(story, name)
        self.client = Client.__new__(Client)
        self.client._engine, self.client._store, self.client.settings = self.engine, self.engine.store, self.engine.settings


class WorkerProcess(Process):
    """A worker: rounds, heartbeat and sweeper; what its threads would do at some time, the story does at its own."""

    def __init__(self, story: Story, name: str) -> None:
        super().__init__(story, name)
        self.started = False
        # The heartbeat's own patience, as the engine gives it.
        self.engine.heartbeat = self.heartbeat = Heartbeat(WiredStore.of(story, resends=1), story.settings.heartbeat_seconds)
        self.heartbeat._thread = threading.main_thread()  # it lives, so that none is started: the story beats
        self.engine.flows, self.engine.disabled = {FLOW: story.make_flow}, []
        self.sweeper = self.engine.sweeper("all", "threads", 1)
        self.broker = self.engine.store.redis
        if story.outbox:
            self.broker = redis.Redis.from_url(story.broker_url, decode_responses=True)
            wired(self.broker)

    def start(self) -> None:
        """As Sweeper.start and the first turn of its thread."""
        self.started = True
        self.guarded(self.sweeper.announce)
        self.sweep()

    def sweep(self) -> None:
        if self.story.sweeps:
            self.guarded(self.sweeper.sweep)

    def beat(self) -> None:
        self.guarded(self.heartbeat.beat)

    def leave(self) -> None:
        self.guarded(lambda: self.engine.store.withdraw(self.name))

    def guarded(self, act: Any) -> None:
        """As in the threads: a server that is away is told of and tried again at the next time."""
        try:
            act()
        except StoreUnavailable as error:
            self.story.refused.append(str(error))

    def work(self, queue: str) -> None:
        """Take the next message of the queue as the broker gives it, play its round, and acknowledge it."""
        story = self.story
        try:
            text = self._take(queue)
        except redis.RedisError as error:  # the consumer connects again
            story.refused.append(str(error))
            return
        if text is None:
            return
        story.boundary("delivered")
        try:
            word = self.engine.rounds.play(*round_of(text))
        except StoreUnavailable as error:  # as worker/tasks.py
            story.refused.append(str(error))
            word = "given up"
        story.tell("played", word=word, worker=self.name)
        story.boundary("before the ack")
        if story.outbox:
            try:
                self.broker.lrem(story.unacknowledged(queue), 1, text)
            except redis.RedisError as error:  # the consumer connects again, and gets it once more
                story.refused.append(str(error))
                story.redeliver()

    def _take(self, queue: str) -> Any:
        if self.story.outbox:  # as RabbitMQ: kept for its consumer until that acknowledges
            return self.broker.lmove(queue, self.story.unacknowledged(queue), "RIGHT", "LEFT")
        return self.broker.rpop(queue)

    def close(self) -> None:
        super().close()
        self.heartbeat._store.close()
        self.broker.close()


def round_of(text: str) -> tuple[str, int, int]:
    """Run, epoch and step of a message."""
    run_id, epoch, step = json.loads(base64.b64decode(json.loads(text)["body"]))[0]
    return run_id, epoch, step
