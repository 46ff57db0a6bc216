"""The soak's proxy treats passing bytes by its mood, and counts its acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.soak.proxy import Proxy
from tests.support.redis_servers import CrashableServer, until


@pytest.fixture
def proxy(server: CrashableServer) -> Iterator[Proxy]:
    made = Proxy(server.socket)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def behind(proxy: Proxy) -> Iterator[redis.Redis]:
    """A client behind the proxy that sends nothing twice, and waits for no answer longer than half
    a second.
    """
    made = redis.Redis.from_url(proxy.url, retry=None, socket_timeout=0.5, decode_responses=True)
    yield made
    made.close()


def test_it_passes_on(behind: redis.Redis, proxy: Proxy) -> None:
    assert behind.echo("a" * 100_000) == "a" * 100_000
    assert not proxy.done


def test_it_cuts(behind: redis.Redis, proxy: Proxy) -> None:
    behind.ping()
    connection = behind.connection_pool.get_connection()
    assert proxy.cut() >= 2, "both ends of at least one connection"
    with pytest.raises(redis.ConnectionError):
        _ask(connection)
    assert behind.ping(), "a new connection is passed on again"


def _ask(connection: Any) -> None:
    connection.send_command("PING")
    connection.read_response()


def test_it_swallows_replies_of_what_is_done(
    behind: redis.Redis, proxy: Proxy, server: CrashableServer, prefix: str
) -> None:
    behind.ping()
    proxy.mood = "swallow"
    with pytest.raises(redis.ConnectionError):
        behind.set(f"{prefix}:swallowed", "done")
    assert proxy.done["swallow"] >= 1
    with redis.Redis.from_url(server.url, decode_responses=True) as direct:
        assert direct.get(f"{prefix}:swallowed") == "done"


def test_half_open_nothing_comes_through_until_it_is_over(
    behind: redis.Redis, proxy: Proxy
) -> None:
    behind.ping()
    proxy.mood = "half_open"
    with pytest.raises(redis.TimeoutError):
        behind.ping()
    assert proxy.done["half_open"] >= 1
    proxy.mood = "pass"
    assert behind.ping()


def test_it_delays(behind: redis.Redis, proxy: Proxy) -> None:
    behind.ping()
    proxy.mood = "delay"

    def delayed() -> bool:
        try:
            behind.ping()
        except redis.TimeoutError:
            return proxy.done["delay"] > 0
        return False

    until(delayed, "an answer later than half a second")
