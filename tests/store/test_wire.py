"""The connections by which transitions travel: no answer reaches the wrong call, repeatable calls
are repeated, and no connection is left behind.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

import pytest
import redis

from perdure.worker.store import Store, StoreUnavailable
from perdure.worker.store.wire import packed
from tests.support.redis_servers import CrashableServer, server, until
from tests.support.runs import new_run, phase, submit


@pytest.fixture
def named(any_server: CrashableServer, prefix: str) -> Iterator[Store]:
    """A store whose connections the server knows by the prefix, and that sends nothing twice after
    a failure.
    """
    made = Store(f"{any_server.url}&client_name={prefix}", prefix, resends=0)
    yield made
    made.close()


def connections(store: Store) -> list[str]:
    """Return the ids of the store's connections, as the server sees them."""
    with redis.Redis.from_url(store.url.partition("&")[0], decode_responses=True) as other:
        return [each["id"] for each in other.client_list() if each["name"] == store.keys.prefix]


def ask(store: Store, *words: str | int) -> Any:
    return store._wire.ask(packed(words))


class Interrupted(redis.UnixDomainSocketConnection):
    """A connection that is interrupted between sending and reading, once."""

    armed = False

    def read_response(self, *args: Any, **options: Any) -> Any:
        if Interrupted.armed:
            Interrupted.armed = False
            raise KeyboardInterrupt
        return super().read_response(*args, **options)


def test_a_call_that_is_interrupted_leaves_no_answer_for_the_next(store: Store) -> None:
    store.redis.connection_pool.connection_class = Interrupted
    run = new_run(store)
    Interrupted.armed = True
    with pytest.raises(KeyboardInterrupt):
        submit(store, "other")
    assert store.runs.examine(run) == ["ok"]
    assert phase(store, "other") == "queued", "it was sent, and carried out"


class Struck(BaseException):
    """The exception that another thread throws into this one, as Celery does at the end of a time
    limit: at any instruction.
    """


def is_struck(line: int, call: Callable[[], object]) -> bool:
    """Raise Struck when a call reaches its line of that number, in any file.

    Not in Python's cleanup meanwhile. The call is made in a separate thread, since a trace function
    takes the place of the coverage tracer.

    Returns:
        False if the call has fewer lines.
    """
    lines = count(1)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and next(lines) == line:
            sys.settrace(None)
            raise Struck
        return trace

    def run() -> bool:
        sys.settrace(trace)
        try:
            call()
        except Struck:
            return True
        finally:
            sys.settrace(None)
        return False

    gc.disable()
    try:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(run).result()
    finally:
        gc.enable()


def test_wherever_an_exception_strikes_the_next_call_gets_its_own_answer(named: Store) -> None:
    struck = 0
    for line in count(1):
        assert ask(named, "ECHO", f"before {line}") == f"before {line}"
        if not is_struck(line, partial(ask, named, "ECHO", f"struck {line}")):
            break
        struck += 1
        assert ask(named, "ECHO", f"after {line}") == f"after {line}"
    assert struck > 20, "a call has more lines than that"


def test_an_answer_that_came_too_late_is_not_read_as_the_next_ones(
    any_server: CrashableServer, prefix: str
) -> None:
    store = Store(any_server.url, prefix, timeout=0.05)
    assert ask(store, "ECHO", "first") == "first"
    store.redis.client_pause(200)
    assert [ask(store, "ECHO", word) for word in ("second", "third")] == ["second", "third"]
    store.close()


def test_a_connection_that_was_closed_while_nobody_used_it_is_no_failure(named: Store) -> None:
    before = new_run(named), connections(named)
    named.redis.connection_pool.disconnect()
    with redis.Redis.from_url(named.url.partition("&")[0]) as other:
        for connection in connections(named):
            other.client_kill_filter(_id=connection)
    assert named.runs.examine("r") == ["ok"]
    assert set(connections(named)).isdisjoint(before[1])


def test_a_server_that_restarted_between_two_calls_is_no_failure() -> None:
    with server() as own:
        store = Store(own.url, resends=0)
        new_run(store)
        own.restart()
        assert store.runs.examine("r") == ["ok"]
        store.close()


def test_what_is_sent_again_is_bounded_and_told_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    with server() as own:
        store = Store(own.url, resends=3)
        new_run(store)
        own.kill()
        with (
            caplog.at_level(logging.DEBUG, "perdure.store"),
            pytest.raises(StoreUnavailable, match="no answer from the state server"),
        ):
            store.runs.examine("r")
        store.close()
    again = [
        record.getMessage().partition(" after: ")[0]
        for record in caplog.records
        if record.name == "perdure.store"
    ]
    assert again == [
        f"sent again ({number} of at most 3 times)" for number in range(4)
    ]  # 0: the connection had been closed


def test_an_answer_that_is_an_error_costs_no_connection(named: Store) -> None:
    before = ask(named, "CLIENT", "ID")
    with pytest.raises(redis.ResponseError):
        ask(named, "EVAL", "error('no')", 0)
    assert ask(named, "CLIENT", "ID") == before


def test_undecodable_bytes_travel_as_they_are(named: Store) -> None:
    assert ask(named, "ECHO", "caf\udce9") == "caf\udce9"
    assert named.reads.fields("caf\udce9") is None


def test_threads_that_come_and_go_leave_no_connection_behind(named: Store) -> None:
    for _ in range(50):
        thread = threading.Thread(target=lambda: named.runs.examine("r"))
        thread.start()
        thread.join()
    assert len(connections(named)) == 1


def test_a_closed_store_has_no_connections(named: Store) -> None:
    together = threading.Barrier(8)

    def call() -> None:
        together.wait()
        named.runs.examine("r")

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert connections(named)
    named.close()
    until(lambda: not connections(named), "the server to see them closed")


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_five_hundred_threads_at_once_each_get_their_answer(
    any_server: CrashableServer, prefix: str
) -> None:
    """Reads that wait, so that each holds a connection while all others do, and transitions beside
    them.
    """
    store = Store(any_server.url, prefix)
    new_run(store)
    [(newest, _)] = store.events.read("r")
    found: list[object] = []

    def call() -> None:
        found.append((store.runs.examine("r"), store.events.read("r", newest, block=1_000)))

    threads = [threading.Thread(target=call) for _ in range(500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(["ok"], [])] * 500
    store.close()


def test_no_connection_looks_through_what_is_installed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its library's version, which it tells the server: of many threads that connect at once,
    each would.
    """
    ask(store, "PING")
    looked: list[str] = []
    monkeypatch.setattr("redis.utils.metadata.version", lambda name: looked.append(name) or "0")
    with store.redis.pipeline(
        transaction=False
    ) as pipe:  # of a connection that reads, and of another that transitions take
        pipe.ping().execute()
    held = [store._wire._take() for _ in range(3)]
    for connection in held:
        connection.connect()
        connection.disconnect()
    assert looked == []
    told = store.redis.client_info()
    assert (
        told.get("lib-ver", redis.__version__) == redis.__version__
    )  # Redis 7.0 does not report it
