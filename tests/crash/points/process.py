"""Process: one process of a story, made of the engine's real parts, on wired connections, with a
clock that is set.
"""

from __future__ import annotations

import base64
import json
import logging
import math
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from perdure import Client
from perdure.worker.engine.fast.handoff import Handoff
from perdure.worker.engine.fast_path import NO_FAST_PATH
from perdure.worker.engine.heartbeat import Heartbeat
from perdure.worker.messaging.message import validate
from perdure.worker.operations.session import Session
from perdure.worker.runtime.fast.delivery import Delivery
from perdure.worker.runtime.fast.installation import fast_rounds
from perdure.worker.runtime.runtime import Runtime
from perdure.worker.store import (
    Claim,
    ClaimRefused,
    CommitReply,
    Continuation,
    Store,
    StoreUnavailable,
)
from perdure.worker.store.connection import RESENDS
from perdure.worker.store.rounds import RoundTransitions
from perdure.worker.store.wire import Wire
from tests.crash.points.consumer import Consumer
from tests.crash.points.faults import Died, WiredConnection
from tests.crash.points.plot import CHILD, FLOW, PlottedChild

if TYPE_CHECKING:
    from tests.crash.points.story import Story

logger = logging.getLogger("perdure.points")


class WiredStore(Store):
    """The store on wired connections; it records its answers for the laws."""

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

    @cached_property
    def rounds(self) -> WiredRounds:
        return WiredRounds(self, self.reads)


class WiredRounds(RoundTransitions):
    """The transitions of rounds, written down."""

    @property
    def story(self) -> Story:
        assert isinstance(self._store, WiredStore)
        return self._store.story

    def claim(self, run_id: str, **options: Any) -> Claim | ClaimRefused:
        late = self.story.wire.late
        answer = super().claim(run_id, **options)
        if isinstance(answer, Claim):
            late = self.story.wire.late - late
            self._granted_by("claim_round", run_id, answer.token, options, late)
        return answer

    def commit_and_fetch(self, run_id: str, **options: Any) -> CommitReply:
        late = self.story.wire.late
        reply = super().commit_and_fetch(run_id, **options)
        word, detail, fetched, _ = reply
        late = self.story.wire.late - late
        claim = fetched.claim if fetched is not None else None
        self._committed(word, detail, run_id, options, late, claimed=claim is not None)
        if claim is not None:
            self._granted_by(
                "commit_round",
                claim.fields["id"],
                claim.token,
                {name: int(claim.fields[name]) for name in ("epoch", "step")},
                late,
            )
        return reply

    def commit_and_continue(self, run_id: str, **options: Any) -> Continuation | None:
        late = self.story.wire.late
        stayed = super().commit_and_continue(run_id, **options)
        if stayed is not None:
            late = self.story.wire.late - late
            told = {**options, "kind": "next"}
            self._committed("ok", "continued", run_id, told, late, claimed=True)
            told["step"] += 1
            self._granted_by("commit_and_continue", run_id, stayed.token, told, late)
        return stayed

    def _committed(
        self,
        word: str,
        detail: str,
        run_id: str,
        options: dict[str, Any],
        late: int,
        claimed: bool,
    ) -> None:
        newest = int(
            self.story.inspector.redis.hget(self.keys.queues, "token") or 0
        )  # before any other process moves
        newest -= claimed  # that one was granted after the commit
        where = {name: options[name] for name in ("epoch", "step", "kind")}
        self.story.tell(
            "commit",
            run=run_id,
            word=word,
            detail=detail,
            token=int(options["token"]),
            newest=newest,
            late=late,
            **where,
        )

    def _granted_by(
        self, transition: str, run_id: str, token: str, where: dict[str, Any], late: int
    ) -> None:
        self.story.tell(
            "granted",
            run=run_id,
            by=transition,
            token=int(token),
            step=where["step"],
            epoch=where["epoch"],
            late=late,
        )


def wired(client: redis.Redis, resends: int = RESENDS) -> None:
    """Put the wire into a client that has not connected yet; it sends again as the engine's does,
    but without waiting.
    """
    pool = client.connection_pool
    pool.connection_class = WiredConnection
    pool.connection_kwargs["retry"] = Retry(NoBackoff(), resends)


class Process:
    """A client's process or a worker's, until it dies."""

    def __init__(self, story: Story, name: str) -> None:
        self.story, self.name = story, name
        self.dead = False
        self.engine = engine = Runtime(story.app, story.settings)
        engine.owns_app, engine.name = True, name
        if story.dispatcher is not None:
            engine.publisher = story.dispatcher(self)
        engine.store = WiredStore.of(story)

    def die(self) -> None:
        """Close the connections of the dead process, as the operating system does.

        Nothing else is closed.
        """
        with suppress(Died):  # a closing connection cannot send its last request
            self.close()

    def close(self) -> None:
        self.engine.close()


class ClientProcess(Process):
    """The process of a client."""

    def __init__(self, story: Story, name: str) -> None:
        super().__init__(story, name)
        self.client = Client.__new__(Client)
        session = self.client._session = Session.__new__(Session)
        session._app, session._durable_until = None, math.inf
        session.connection, session.store = self.engine, self.engine.store
        session.settings = self.client.settings = self.engine.settings


class StoryHeartbeat(Heartbeat):
    """A heartbeat without a thread: the story beats."""

    def _start(self) -> None:
        pass


class WorkerProcess(Process):
    """A worker: rounds, heartbeat and sweeper.

    The story runs the work of its threads at moments that it chooses.
    """

    def __init__(self, story: Story, name: str) -> None:
        super().__init__(story, name)
        self.started = False
        # The heartbeat's own patience, as the engine gives it.
        self.engine.heartbeat = self.heartbeat = StoryHeartbeat(
            WiredStore.of(story, resends=1), story.settings.heartbeat_seconds
        )
        self.engine.flows = {FLOW: story.make_flow, CHILD: PlottedChild}
        self.engine.builds = {}  # A flow of a story is made in a round alone.
        self.engine.disabled = []
        self.sweeper = self.engine.new_sweeper("all", "threads", 1)
        lists = story.inspector.keys.queue_names
        self.fast = fast_rounds(self.engine)
        delivery = Delivery(self.fast, self.engine.rounds.release, validate)
        self.consumer = Consumer(self.fast, delivery, lists)
        if story.fetches:
            self.fast.prefetcher.begin(lists, slots=1, inline=False)
        self.broker = self.engine.store.redis
        if story.outbox:
            self.broker = redis.Redis.from_url(story.broker_url, decode_responses=True)
            wired(self.broker)

    def start(self) -> None:
        """Begin as Sweeper.start and its thread's first turn do."""
        self.started = True
        self.guarded(self.sweeper.announce)
        self.sweep()

    def sweep(self) -> None:
        if self.story.sweeps:
            self.guarded(self.sweeper.sweep)

    def beat(self) -> None:
        self.guarded(self.heartbeat.beat)

    def leave(self) -> None:
        self.guarded(lambda: self.engine.store.fleet.withdraw(self.name))

    def guarded(self, act: Any) -> None:
        """Act as the threads do: report a server that is away, and try again the next time."""
        try:
            act()
        except StoreUnavailable as error:
            self.story.refused.append(str(error))

    def work(self, queue: str) -> None:
        """Take the next message as the broker gives it, play its round, acknowledge it.

        Then do the same with the message that its commit brought.
        """
        story = self.story
        try:
            text = self._take(queue)
        except redis.RedisError as error:  # the consumer connects again
            story.refused.append(str(error))
            return
        if text is None:
            return
        story.boundary("delivered")
        handoff = self.fast.handoff() if story.fetches else None
        self._play(text, queue, handoff)
        while handoff is not None and (following := self.consumer.after(handoff)) is not None:
            story.between_rounds()
            text, queue, handoff = following
            story.boundary(came(handoff))
            self._play(text, queue, handoff)

    def _play(self, text: str, queue: str, handoff: Handoff | None) -> None:
        story = self.story
        try:
            word = self.engine.rounds.run(*round_of(text), handoff or NO_FAST_PATH).word
        except StoreUnavailable as error:  # as worker/runtime/worker_step.py
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


def came(handoff: Handoff) -> str:
    """Name the boundary for a message from a commit.

    A fault loses it only if it is not claimed.
    """
    if handoff.claim is None:
        return "delivered"
    return "stays" if handoff.claim.carried_over else "fetched"


def round_of(text: str) -> tuple[str, int, int]:
    """Run, epoch and step of a message."""
    run_id, epoch, step = json.loads(base64.b64decode(json.loads(text)["body"]))[0]
    return run_id, epoch, step
