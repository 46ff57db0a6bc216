"""Events over HTTP: each watcher sees everything, once and in order, after any number of cuts and
from any server.
"""

from __future__ import annotations

import asyncio
import threading

import httpx2
import pytest
from fastapi import FastAPI

from perdure import Client
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.web import Caller, Scope, create_app
from perdure.worker.web import event_hub as hubs
from perdure.worker.web import event_stream as watching
from tests.support import runs as play
from tests.support.event_stream_client import Watched, connect, listen, watch
from tests.support.redis_servers import server as server_of_its_own
from tests.support.redis_servers import until
from tests.support.threaded_server import serving, serving_app
from tests.support.watched_runs import finish, ids_of, real_time

__all__ = ["real_time"]

STREAM = {"accept": "text/event-stream"}


def add(store: Store, step: int, run_id: str = "r", padding: str = "") -> None:
    """Add an event without a run."""
    entry = {
        "type": "committed",
        "at": "1",
        "step": str(step),
        "attempt": "1",
        "node": "Controller",
        "padding": padding,
    }
    store.redis.xadd(store.keys.events(run_id), entry)  # type: ignore[arg-type]


async def joined(app: FastAPI, count: int) -> None:
    """Wait until this number of watchers have caught up, and get every new event."""
    watching = lambda: sum(map(len, app.state.services.hub._subscribers.values())) == count  # noqa: E731
    await asyncio.to_thread(until, watching, f"{count} watchers")


def test_who_joins_while_events_are_written_misses_nothing_and_gets_nothing_twice(
    settings: Settings, real_time: Store
) -> None:
    """The gap between the stored events and the live ones: watchers join one after the other, while
    events are written all the time.
    """
    play.new_run(real_time)
    enough, pace = threading.Event(), threading.Event()

    def write() -> None:
        step = 0
        while not enough.is_set():
            add(real_time, step)
            step += 1
            pace.wait(0.001)
        finish(real_time)

    async def story(url: str) -> list[Watched]:
        writing = asyncio.create_task(asyncio.to_thread(write))
        watching = []
        try:
            for count in range(1, 9):
                watching.append(asyncio.create_task(watch(url, "r")))
                await joined(app, count)
        finally:
            enough.set()
        await writing
        return [await each for each in watching]

    app = create_app(settings)
    with serving_app(app) as url:
        found = asyncio.run(story(url))
    whole = ids_of(real_time)
    assert [each.ids == whole for each in found] == [True] * 8
    assert {each.end for each in found} == {'{"reason": "ended"}'}


def test_who_joins_further_back_than_the_others_hears_from_there_and_the_others_nothing_twice(
    settings: Settings, real_time: Store, client: Client
) -> None:
    """Also while the read that serves the others is under way: its events begin too late for the
    new watcher.
    """
    play.new_run(real_time)
    for step in range(4):
        add(real_time, step)

    async def hear(watcher: hubs.Subscriber, count: int) -> list[str]:
        heard: list[str] = []
        while len(heard) < count:
            heard += [event.id for event in await watcher.heard(10)] or [""]
        return heard

    async def story() -> None:
        hub = hubs.EventHub(client)
        for step in range(4, 9):
            before = ids_of(real_time)
            front = hub.join("r", before[-1])
            await asyncio.to_thread(
                until,
                lambda: int(real_time.redis.info("clients")["blocked_clients"]) == 1,
                "a read under way",
            )
            back = hub.join("r", before[1])
            await asyncio.to_thread(add, real_time, step)
            whole = ids_of(real_time)
            assert await hear(back, len(whole) - 2) == whole[2:]
            await asyncio.to_thread(add, real_time, 0)
            whole = ids_of(real_time)
            assert await hear(front, 2) == whole[-2:]
            hub.leave(front)
            hub.leave(back)
        hub.close()

    asyncio.run(story())


@pytest.mark.slow
def test_two_hundred_watchers_of_a_run_and_those_of_fifty_cost_redis_one_blocked_read(
    prefix: str,
) -> None:
    with server_of_its_own("valkey", "everysec") as running:
        settings = Settings(redis_url=running.url, prefix=prefix)
        store = Store(running.url, prefix)
        blocked = lambda: int(store.redis.info("clients")["blocked_clients"])  # noqa: E731
        names = ["r", *(f"r{number}" for number in range(50))]
        for name in names:
            play.new_run(store, name)

        async def story(url: str) -> None:
            one = [asyncio.create_task(watch(url, "r")) for _ in range(200)]
            many = [asyncio.create_task(watch(url, name)) for name in names[1:]]
            await joined(app, 250)
            for step in range(20):
                counted.add(await asyncio.to_thread(blocked))
                await asyncio.to_thread(add, store, step)
                await asyncio.sleep(0.02)
            for name in names:
                await asyncio.to_thread(finish, store, name)
            assert {tuple((await each).ids) for each in one} == {tuple(ids_of(store))}
            assert [(await each).types for each in many] == [
                ["submitted", "committed", "completed"]
            ] * 50

        counted: set[int] = set()
        app = create_app(settings)
        with serving_app(app) as url:
            asyncio.run(story(url))
            assert counted <= {0, 1} and 1 in counted
            until(
                lambda: app.state.services.hub._thread is None,
                "the end of the reads, as nobody watches any more",
            )
            assert blocked() == 0
        store.close()


@pytest.mark.slow
def test_who_does_not_read_holds_no_memory_and_holds_up_nobody(
    settings: Settings, real_time: Store
) -> None:
    """When they read on, the stream continues there."""
    play.new_run(real_time)
    most = 0

    async def story(url: str) -> tuple[Watched, Watched]:
        nonlocal most
        reader, writer = await connect(url, "r", query="?seconds=60")
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        quick = asyncio.create_task(watch(url, "r"))
        await joined(app, 2)
        for step in range(700):
            await asyncio.to_thread(add, real_time, step, padding="x" * 20_000)
            slow = [
                watcher
                for watchers in app.state.services.hub._subscribers.values()
                for watcher in watchers
            ]
            most = max(most, *(len(watcher._waiting) for watcher in slow), 0)
        await asyncio.to_thread(finish, real_time)
        promptly = await quick
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        late = await listen(reader, Watched())
        writer.transport.abort()
        return promptly, late

    app = create_app(settings)
    with serving_app(app) as url:
        promptly, late = asyncio.run(story(url))
    assert promptly.ids == ids_of(real_time) == late.ids
    assert 0 < most <= hubs.MOST_WAITING


@pytest.mark.slow
def test_who_falls_behind_is_told_so_and_the_others_hear_all(
    settings: Settings, real_time: Store, client: Client
) -> None:
    play.new_run(real_time)

    async def story() -> None:
        hub = hubs.EventHub(client)
        lazy, keen = hub.join("r", None), hub.join("r", None)
        heard = []
        while len(heard) < 1 + 2 * hubs.MOST_WAITING:
            await asyncio.to_thread(add, real_time, len(heard))
            heard += await keen.heard(5)
        assert lazy.over == "behind" and await lazy.heard(1) == []
        assert keen.over is None and [event.id for event in heard] == ids_of(real_time)
        hub.close()
        assert keen.over == "closed" and hub.join("r", None).over == "closed"

    asyncio.run(story())


@pytest.mark.slow
def test_while_redis_is_away_watchers_stay_connected_and_go_on_when_it_is_back(
    prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    with server_of_its_own() as running:
        settings = Settings(redis_url=running.url, prefix=prefix)
        store = Store(running.url, prefix)
        play.new_run(store)

        async def story(url: str) -> Watched:
            watching = asyncio.create_task(watch(url, "r"))
            await joined(app, 1)
            await asyncio.to_thread(running.kill)
            await asyncio.to_thread(
                until, lambda: "stay connected" in caplog.text, "the hub to notice"
            )
            assert not watching.done()
            await asyncio.to_thread(running.restart)
            await asyncio.to_thread(finish, store)
            return await watching

        app = create_app(settings)
        with serving_app(app) as url:
            seen = asyncio.run(story(url))
        assert seen.ids == ids_of(store) and seen.end is not None
        store.close()


def test_a_stream_ends_with_the_run_and_is_not_asked_for_again(
    settings: Settings, real_time: Store
) -> None:
    play.new_run(real_time)
    with (
        serving(settings) as url,
        httpx2.Client(base_url=f"{url}/api/v1/runs", timeout=60.0) as http,
    ):
        path = "/r/events"
        caught_up = http.get(path, headers=STREAM, params={"follow": False}).text
        assert "event: submitted\n" in caught_up and caught_up.endswith(
            'event: end\ndata: {"reason": "caught-up"}\n\n'
        )
        first = ids_of(real_time)[0]
        assert (
            http.get(path, headers=STREAM, params={"follow": False, "after": first}).status_code
            == 204
        )
        timed = http.get(path, headers=STREAM, params={"seconds": 0.05})
        assert timed.status_code == 200 and "event: end" not in timed.text, (
            "it goes on: whoever watches is to come again"
        )

        finish(real_time)
        whole = http.get(path, headers=STREAM)
        assert (
            whole.headers["cache-control"] == "no-store"
            and whole.headers["x-accel-buffering"] == "no"
        )
        assert whole.text.endswith('event: end\ndata: {"reason": "ended"}\n\n')
        last = ids_of(real_time)[-1]
        assert f"id: {last}\n" in whole.text
        over = http.get(path, headers={**STREAM, "last-event-id": last})
        assert over.status_code == 204 and over.content == b""
        assert (
            http.get(
                path, headers={**STREAM, "last-event-id": last}, params={"after": first}
            ).status_code
            == 204
        ), "the header goes first"


@pytest.mark.slow
def test_events_are_listed_where_no_stream_is_asked_for(
    settings: Settings, real_time: Store, client: Client
) -> None:
    play.new_run(real_time)
    finish(real_time)
    told = [event.to_dict() for event in client.events("r", follow=False)]
    with (
        serving(settings) as url,
        httpx2.Client(base_url=f"{url}/api/v1/runs", timeout=60.0) as http,
    ):
        assert http.get("/r/events").json() == {"events": told, "more": False}
        assert http.get("/r/events", params={"limit": 2}).json() == {
            "events": told[:2],
            "more": True,
        }
        assert http.get("/r/events", params={"after": told[1]["id"]}).json()["events"] == told[2:]


@pytest.mark.slow
def test_events_are_told_to_nobody_else(settings: Settings, client: Client) -> None:
    run = client.submit("countdown", "x", submitted_by="alice")
    bob = Caller("bob", frozenset({Scope.READ}))
    with (
        serving(settings, lambda request: bob) as url,
        httpx2.Client(base_url=f"{url}/api/v1/runs", timeout=60.0) as http,
    ):
        for headers in (STREAM, {}):
            answer = http.get(f"/{run.id}/events", headers=headers)
            assert (
                answer.status_code == 404
                and answer.headers["content-type"] == "application/problem+json"
            )
            assert (
                http.get("/r/events", headers={**headers, "last-event-id": "yesterday"}).status_code
                == 404
            )
            assert (
                http.get("/nobody/events", headers=headers).json()["type"]
                == "urn:perdure:run-not-found"
            )


@pytest.mark.slow
def test_the_watchers_of_a_run_that_is_deleted_are_told_so(
    settings: Settings, real_time: Store, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        watching, "IDLE_SECONDS", 0.05
    )  # when it is looked whether the run is still there
    play.new_run(real_time)

    async def story(url: str) -> Watched:
        watched = asyncio.create_task(watch(url, "r"))
        await joined(app, 1)
        await asyncio.to_thread(
            lambda: real_time.redis.delete(real_time.keys.run("r"), real_time.keys.events("r"))
        )
        return await watched

    app = create_app(settings)
    with serving_app(app) as url:
        assert asyncio.run(story(url)).end == '{"reason": "gone"}'


@pytest.mark.slow
def test_a_damaged_stream_ends_for_its_own_watchers_alone(
    settings: Settings, real_time: Store
) -> None:
    """One key of a wrong type makes Redis refuse the read of all; only readers of a broken entry
    meet it.
    """
    for name in ("well", "torn", "odd"):
        play.new_run(real_time, name)

    async def story(url: str) -> None:
        seen = [asyncio.create_task(watch(url, name)) for name in ("well", "torn", "odd")]
        await joined(app, 3)
        await asyncio.to_thread(real_time.redis.delete, real_time.keys.events("torn"))
        await asyncio.to_thread(real_time.redis.set, real_time.keys.events("torn"), "a text")
        await asyncio.to_thread(real_time.redis.xadd, real_time.keys.events("odd"), {"no": "event"})
        await asyncio.to_thread(finish, real_time, "well")
        well, torn, odd = [await each for each in seen]
        assert well.ids == ids_of(real_time, "well") and well.end is not None
        assert torn.end is None and odd.end is None
        async with httpx2.AsyncClient(base_url=f"{url}/api/v1/runs") as http:
            for name, last in (("torn", torn.ids[-1]), ("odd", odd.ids[-1])):
                answer = await http.get(
                    f"/{name}/events", headers={**STREAM, "last-event-id": last}
                )
                assert (answer.status_code, answer.json()["type"]) == (
                    409,
                    "urn:perdure:damaged-run",
                ), name

    app = create_app(settings)
    with serving_app(app) as url:
        asyncio.run(story(url))
    assert "perdure-hub" not in {thread.name for thread in threading.enumerate()}
