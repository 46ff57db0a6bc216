"""A worker that no message can kill: all of the corpus, on every broker and pool, before one living
worker each.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from perdure import Client, RunStatus, Settings
from perdure.worker.app import broker_url, make_app
from perdure.worker.doctor import examine
from perdure.worker.store.tables import KEPT, KEPT_CHARACTERS
from tests.corpus.form import form_of
from tests.corpus.messages import LIST, MESSAGES, carried_by
from tests.corpus.posting import post_to
from tests.corpus.stage import GROUNDS, POOLS, Stage, stage
from tests.support.redis_servers import server, until
from tests.support.workers import workers

#: The one ground and pool that the quick suite stands on.
QUICK = ("fused", "threads")
#: A dead letter is the beginning of a message and a few words.
LETTER_BYTES = 4 * KEPT_CHARACTERS


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            (handover, pool),
            id=f"{handover}-{pool}",
            marks=() if (handover, pool) == QUICK else pytest.mark.slow,
        )
        for handover in GROUNDS
        for pool in POOLS
    ],
)
def living(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """One worker for all tests here: it has to live through each test's messages."""
    with stage(*request.param, request) as made:
        yield made


@pytest.fixture
def on(living: Stage) -> Stage:
    """The worker, without dead letters of an earlier test."""
    living.client._store.redis.delete(living.client._store.keys.dead_letters)
    return living


def test_no_message_of_the_corpus_ends_a_worker(on: Stage) -> None:
    corpus = carried_by(on.post.transport)
    letters = 0
    for place, (name, entry) in enumerate(corpus.items()):
        refused = entry.why is not None
        on.put(name, entry.make(on.good()), refused, on.queues[place % len(on.queues)])
        letters += refused
        if entry.why:
            [told] = on.client._store.fleet.dead_letters(1)
            assert re.search(entry.why, told["why"]), (name, told)
            assert told["list"].startswith(on.queues[place % len(on.queues)])
    print(f"{len(corpus)} messages, {letters} letters, workers lost: 0")
    assert len(corpus) >= 60
    on.plays()
    assert len(on.letters()) == letters
    [finding] = [found for found in examine(on.client._connection) if found.check == "dead-letters"]
    assert str(letters) in finding.sentence
    on.unharmed()


#: The runs that a replayed or forged message must leave alone; each is made by a sentence of
#: `bystanders`.
def bystanders(client: Client) -> list[str]:
    """Make runs at rest in every way: completed, errored, stopped, interrupted, and one whose time
    has not come.
    """
    rounds = {"rounds": 2}
    completed = client.submit("ledger", "g", rounds).id
    errored = client.submit("trouble", "g", {"kind": "fatal"}).id
    asked = client.submit("ledger", "g", rounds, interrupt_before=["Controller"]).id
    later = client.submit("ledger", "g", rounds, not_before=3600.0).id
    stopped = client.submit("ledger", "g", rounds, not_before=3600.0).id
    client.request_stop(stopped)
    wanted = {
        completed: RunStatus.COMPLETED,
        errored: RunStatus.ERRORED,
        asked: RunStatus.INTERRUPTED,
        stopped: RunStatus.STOPPED,
    }
    for run_id, status in wanted.items():
        assert client.wait(run_id, 30).status is status
    return [*wanted, later]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_replayed_and_forged_messages_change_nothing(on: Stage) -> None:
    store = on.client._store
    ids = bystanders(on.client)
    before = {
        run_id: (store.reads.fields(run_id), store.events.read(run_id), store.reads.memory(run_id))
        for run_id in ids
    }
    forged = 0
    for run_id in ids:
        fields = store.reads.fields(run_id) or {}
        epoch, step = int(fields["epoch"]), int(fields["step"])
        # A run at rest keeps none.
        replayed = (
            form_of(fields["message"])
            if fields["message"]
            else on.good(run_id).with_args(run_id, epoch, step)
        )
        hints = [replayed] * 5 + [
            on.good(run_id).with_args(run_id, epoch + e, step + s)
            for e in (0, 1, 7)
            for s in (0, 1, 7)
        ]
        if step:
            hints += [on.good(run_id).with_args(run_id, epoch, past) for past in range(step)]
        for hint in hints:
            on.put(f"{run_id} {hint.content[0]}", hint, False, on.queues[forged % 2])
            forged += 1
    on.plays()  # behind them on both lists
    print(f"{forged} replayed or forged messages")
    assert {
        run_id: (store.reads.fields(run_id), store.events.read(run_id), store.reads.memory(run_id))
        for run_id in ids
    } == before
    assert on.letters() == []
    on.unharmed()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_flood_of_messages_leaves_a_bounded_list(on: Stage) -> None:
    chance = random.Random(1)
    names = [
        name
        for name, entry in carried_by(on.post.transport).items()
        if entry.why is not None and "8 megabytes" not in name
    ]
    for _ in range(KEPT + 200):
        on.post.put(chance.choice(on.queues), MESSAGES[chance.choice(names)].make(on.good()))
    until(lambda: not any(map(on.post.waiting, on.queues)), "the flood to be over", 60)
    on.plays()
    texts: list[Any] = on.client._store.redis.lrange(on.client._store.keys.dead_letters, 0, -1)
    assert len(texts) == KEPT
    assert max(map(len, texts)) < LETTER_BYTES
    on.unharmed()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_broadcasts_reach_no_worker(on: Stage) -> None:
    """Remote control is off: any program at the broker can send ``shutdown``, and no worker
    listens.
    """
    control = make_app(on.settings).control
    for command, arguments in {
        "shutdown": {},
        "pool_shrink": {"n": 100},
        "pool_restart": {"modules": ["os"]},
        "cancel_consumer": {"queue": on.queues[0]},
        "rate_limit": {"task_name": "perdure.controller_round", "rate_limit": "1/h"},
        "time_limit": {"task_name": "perdure.controller_round", "hard": 0.001},
        "revoke": {"task_id": "x", "terminate": True},
        "made_up": {"x": 1},
    }.items():
        control.broadcast(command, arguments=arguments)
    on.plays()
    on.unharmed()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_cannot_be_put_aside_ends_no_worker(on: Stage) -> None:
    """The key of the dead letters holds something else: the message is lost, and only the log
    reports it.
    """
    on.client._store.redis.set(on.client._store.keys.dead_letters, "not what it was")
    for place in range(20):
        on.post.put(on.queues[place % 2], on.good().without_headers("id"))
    until(lambda: not any(map(on.post.waiting, on.queues)), "the messages to be taken")
    on.plays()
    assert on.client._store.redis.get(on.client._store.keys.dead_letters) == "not what it was"
    on.unharmed()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_fuzzed_corpus_ends_no_worker(on: Stage) -> None:
    """Bits flipped, cut short, parts swapped: the worker lives and plays in any case."""
    names = st.sampled_from(
        [name for name in carried_by(on.post.transport) if "megabyte" not in name]
    )
    sent = []

    @given(
        names,
        st.binary(max_size=6),
        st.integers(0, 5000),
        st.sampled_from(["body", "headers", "raw"]),
    )
    @hypothesis_settings(max_examples=300, database=None, suppress_health_check=list(HealthCheck))
    def fuzz(name: str, bits: bytes, at: int, what: str) -> None:
        form = MESSAGES[name].make(on.good())
        if what == "raw" and on.post.transport == LIST:
            form = form.with_(raw=bent(form.listed(), at, bits))
        elif what == "headers" and isinstance(form.headers, dict):
            form = form.with_headers(
                **{
                    list(form.headers)[at % len(form.headers)] if form.headers else "x": bits.hex()
                    or None
                }
            )
        elif isinstance(form.body, bytes):
            form = form.with_(body=bent(form.body, at, bits))
        sent.append(name)
        on.post.put(on.queues[at % 2], form)
        on.lives(name)

    fuzz()
    until(lambda: not any(map(on.post.waiting, on.queues)), "the messages to be taken")
    on.plays()
    print(f"{len(sent)} messages, {len(on.letters())} letters")
    assert len(sent) >= 300 and len(on.letters()) > len(sent) // 2
    on.unharmed()


def bent(data: bytes, at: int, bits: bytes) -> bytes:
    """Change some bytes from an offset on; without bits, cut the data there."""
    at %= max(1, len(data))
    if not bits:
        return data[:at]
    return (
        data[:at]
        + bytes(a ^ b for a, b in zip(data[at:], bits, strict=False))
        + data[at + len(bits) :]
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_on_an_app_of_ones_own_the_guard_stands_before_the_queues_of_rounds_alone(
    prefix: str,
) -> None:
    """Messages on the app's own queue are the app's business: Celery discards unknown tasks, and
    plays known ones.
    """
    sets = {
        "broker_transport_options": {"guard_prefix": prefix}
    }  # the URL of a socket names the guard itself
    with server(
        "valkey", "everysec"
    ) as state:  # of its own: apps of others write outside the prefix
        settings = Settings(
            redis_url=state.url, prefix=prefix, flow_modules=("tests.support.example_flows.rings",)
        )
        broker = broker_url(state.url)
        environment = {"THEIRS_BROKER": broker, "THEIRS_SETS": json.dumps(sets)}
        with (
            workers(1, settings, app="tests.support.apps.guarded_user_app", **environment) as [
                worker
            ],
            post_to(state.url, []) as post,
            Celery("stranger", broker=broker, set_as_current=False) as stranger,
        ):
            on = Stage(settings, post, worker)
            on.plays()
            for place, entry in enumerate(carried_by(LIST).values()):
                post.put(on.queues[place % 2], entry.make(on.good()))
                on.lives("the corpus")
            until(lambda: not any(map(post.waiting, on.queues)), "the corpus to be taken")
            for task in ("nobodys.task", "celery.chord_unlock", "tests.support.apps.user_app.add"):
                stranger.send_task(task, (1, 2), queue="theirs")
            until(lambda: not post.waiting("theirs"), "theirs to be taken")
            on.plays()
            on.lives("all")
            assert on.letters() == [], (
                "no place for letters is set on this app: they are only told in the log"
            )
            on.client.close()
