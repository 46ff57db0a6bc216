"""What a server says of itself: its configuration, its condition, its clock. What it hides is absent, not an error."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker.store.connection import SOCKET_TIMEOUT, StoreUnavailable, denied, is_denied
from worker.store.damage import find_damage
from worker.store.keys import Keys
from worker.store.reaching import client_of, close

T = TypeVar("T")
#: The settings that matter.
CONFIG = ("maxmemory-policy", "appendonly", "appendfsync", "min-replicas-to-write")
#: Workers that have not announced themselves for so many seconds are not asked about.
ANNOUNCED = 10


@dataclass(frozen=True)
class Inspection:
    """What the server told.

    Attributes:
        config: its settings by name; one that it does not tell is absent.
        info: its INFO; None where it does not tell.
        skew: milliseconds that its clock is ahead of ours, at least; 0 within what the exchange took.
        dead_letters: messages that the guard refused; None where they cannot be counted.
        handovers: how each worker that announced itself in the last ``ANNOUNCED`` seconds hands messages over, by name.
        damage: what find_damage found; None where the runs cannot be looked at.
    """

    config: Mapping[str, str] = field(default_factory=dict)
    info: Mapping[str, Any] | None = None
    skew: float | None = None
    dead_letters: int | None = None
    damage: Mapping[str, str] | None = None
    handovers: Mapping[str, str] = field(default_factory=dict)


def inspect(
    url: str,
    prefix: str,
    timeout: float = SOCKET_TIMEOUT,
    local_time: Callable[[], float] = time.time,
    contents: bool = True,
    settings: bool = True,
) -> Inspection:
    """Ask the server, once and without patience.

    Args:
        prefix: of the keys to look at. timeout: seconds for each answer.
        local_time: seconds since 1970 by this machine's clock.
        contents: whether to look at our keys, too.
        settings: whether to ask for its settings, too; INFO tells most of them, and more logins may ask for it.

    Raises:
        StoreUnavailable: it does not answer. AccessDenied: it does not let this user in.
    """
    client = client_of(url, decode_responses=True, socket_timeout=timeout, socket_connect_timeout=timeout, retry=Retry(NoBackoff(), 0))
    try:
        _told(client.ping)  # a connection that cannot be made is no answer
        config: dict[str, str] = {}
        for name in CONFIG if settings else ():
            config |= _told(lambda name=name: cast(dict[str, str], client.config_get(name))) or {}  # type: ignore[misc]
        keys = Keys(prefix)
        return Inspection(
            config=config,
            info=_told(client.info),
            skew=_told(lambda: _skew(client, local_time)),
            dead_letters=_told(lambda: client.llen(keys.dead_letters)) if contents else None,
            damage=_told(lambda: find_damage(client, keys)) if contents else None,
            handovers=(_told(lambda: _handovers(client, keys)) if contents else None) or {},
        )
    except (redis.RedisError, OSError, ValueError) as error:
        if is_denied(error):
            raise denied(url, error) from error
        raise StoreUnavailable(f"the server does not answer: {str(error).rstrip('.')}. Is it running?") from error
    finally:
        close(client)


def _handovers(client: redis.Redis, keys: Keys) -> dict[str, str]:
    seconds, _ = client.time()
    names = cast(list[str], client.zrange(keys.workers, (seconds - ANNOUNCED) * 1000, "+inf", byscore=True))
    infos = cast(list[str | None], client.hmget(keys.announcements, names)) if names else []
    return {name: json.loads(info).get("handover", "fused") for name, info in zip(names, infos, strict=True) if info}


def _told(ask: Callable[[], T]) -> T | None:
    """The answer, or None where this user may not ask, the command has another name, or the server has no answer to it."""
    try:
        return ask()
    except redis.ResponseError:
        return None


def _skew(client: redis.Redis, local_time: Callable[[], float]) -> float:
    before = local_time() * 1000
    seconds, micros = client.time()
    after, there = local_time() * 1000, seconds * 1000 + micros / 1000
    return there - after if there > after else min(0.0, there - before)
