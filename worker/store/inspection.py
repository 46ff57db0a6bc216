"""Reports of a state server (configuration, INFO, clock), and a search for damage.

A report that this user may not read is left out, and no error is raised. Damage is a run that
cannot be read, or a key of all runs that has a wrong type. This module only reads.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from perdure.worker.errors import StoreUnavailable
from perdure.worker.store import scripts
from perdure.worker.store.connection import SOCKET_TIMEOUT
from perdure.worker.store.keys import CHILD_INDEXES, INDEXES, Keys
from perdure.worker.store.refusals import denied, is_denied, refusal_code, refusal_of, refusal_text
from perdure.worker.store.sentinel import client_of, close

#: Number of runs examined per index. For runs that have not ended these are the oldest, since a
#: damaged run remains there while others leave. For ended runs these are the newest.
LOOKED_AT = 1000
ENDED = ("completed", "errored", "completed:children", "errored:children")


def find_damage(client: redis.Redis, keys: Keys) -> dict[str, str]:
    """Return a text about the damage of each damaged run or shared key.

    The texts are by run id, or by key name for a key that all runs share. Of each index, at most
    ``LOOKED_AT`` runs are examined.

    Raises:
        redis.ResponseError: this user may not read the keys.
    """
    damage: dict[str, str] = {}
    for index in (*INDEXES, *CHILD_INDEXES):
        key = keys.index(index)
        kind = cast(str, client.type(key))
        if kind not in ("zset", "none"):
            damage[key] = f"it holds a {kind}"
            continue
        ids = cast(list[str], client.zrange(key, 0, LOOKED_AT - 1, desc=index in ENDED))
        for run_id, (reply, marked) in zip(ids, _examined(client, keys, ids), strict=True):
            match reply:
                case ["damaged", what] if what.partition(" ")[0] in keys.shared:
                    damage[what.partition(" ")[0]] = "it has a wrong type or value"
                case ["damaged", what]:
                    damage[run_id] = what
                case ["missing"] if index not in ENDED:
                    damage[run_id] = "its hash is gone"
                case _ if marked:
                    damage[run_id] = "a worker could not read it and quarantined it"
    return damage


def _examined(client: redis.Redis, keys: Keys, ids: list[str]) -> list[tuple[Any, bool]]:
    """Check whether the stored data of each run can be read.

    Returns:
        For each run the reply of check_run.lua, and whether the run is marked as quarantined.

    Raises:
        redis.ResponseError: the server did not execute the script, for example because of an ACL.
    """
    examine = scripts.Transition(scripts.source("check_run"))
    with client.pipeline(transaction=False) as pipe:
        for position, run_id in enumerate(ids):
            # The first call sends the script in full, since the server may not know it.
            examine.into(pipe, keys.of_run(run_id), whole=position == 0)
            pipe.hexists(keys.run(run_id), "quarantined")
        answers = pipe.execute(raise_on_error=False) if ids else []
    for reply in answers[::2]:
        if isinstance(reply, Exception):
            raise reply
    return [
        (reply, marked is True) for reply, marked in zip(answers[::2], answers[1::2], strict=True)
    ]


T = TypeVar("T")
#: The server settings that the doctor checks.
CONFIG = ("maxmemory-policy", "appendonly", "appendfsync", "min-replicas-to-write")
#: Seconds. A worker whose last announcement is older is not included.
ANNOUNCED = 10


@dataclass(frozen=True)
class Inspection:
    """The reports of a state server.

    Attributes:
        config: the settings of the server, by name. A setting that this user may not read is left
            out.
        info: the server's reply to INFO. None if this user may not read it.
        skew: the least number of ms by which the server's clock is ahead of this machine's clock.
            It is negative if the server's clock is behind, and 0 if the difference is shorter than
            the exchange. None if this user may not read the clock.
        dead_letters: the number of dead letters. None if it was not read.
        damage: the result of ``find_damage``. None if it was not searched, or if this user may not
            read the runs.
        handovers: by worker name, how the worker publishes messages (``fused`` or ``outbox``). A
            worker whose last announcement is older than ``ANNOUNCED`` seconds is left out.
        refuses: the server's error reply to PING, and advice. None if the server accepts writes.
    """

    config: Mapping[str, str] = field(default_factory=dict)
    info: Mapping[str, Any] | None = None
    skew: float | None = None
    dead_letters: int | None = None
    damage: Mapping[str, str] | None = None
    handovers: Mapping[str, str] = field(default_factory=dict)
    refuses: tuple[str, str] | None = None


def inspect(
    url: str,
    prefix: str,
    timeout: float = SOCKET_TIMEOUT,
    local_time: Callable[[], float] = time.time,
    contents: bool = True,
    settings: bool = True,
) -> Inspection:
    """Ask a state server for configuration, INFO, clock and damage.

    Each command is sent once, without retries. A report that this user may not read is left out of
    the result.

    Args:
        prefix: the beginning of each key.
        timeout: seconds to wait for each reply.
        local_time: this machine's clock, in seconds since 1970.
        contents: whether to read Perdure's keys too. If not, dead letters, damage and workers are
            left out.
        settings: whether to read the server's settings with CONFIG GET. INFO has most of them, and
            more users may read INFO.

    Raises:
        StoreUnavailable: the server does not answer, or still loads its data.
        AccessDenied: the login failed.
    """
    client = client_of(
        url,
        decode_responses=True,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        refuses = _refusal(url, client)
        config: dict[str, str] = {}
        for name in CONFIG if settings else ():
            read = partial(client.config_get, name)
            config |= cast(dict[str, str], _answer_or_none(read) or {})
        keys = Keys(prefix)
        return Inspection(
            refuses=refuses,
            config=config,
            info=_answer_or_none(client.info),
            skew=_answer_or_none(lambda: _skew(client, local_time)),
            dead_letters=_answer_or_none(lambda: client.llen(keys.dead_letters))
            if contents
            else None,
            damage=_answer_or_none(lambda: find_damage(client, keys)) if contents else None,
            handovers=(_answer_or_none(lambda: _handovers(client, keys)) if contents else None)
            or {},
        )
    except (redis.RedisError, OSError, ValueError) as error:
        if is_denied(error):
            raise denied(url, error) from error
        code = refusal_code(error)
        if code is not None:
            raise StoreUnavailable(refusal_text(url, error, code)) from error
        raise StoreUnavailable(
            f"the server does not answer: {str(error).rstrip('.')}. Is it running?"
        ) from error
    finally:
        close(client)


def _handovers(client: redis.Redis, keys: Keys) -> dict[str, str]:
    """Return how each worker publishes messages, by worker name.

    Workers whose last announcement is older than ``ANNOUNCED`` seconds are left out.
    """
    seconds, _ = client.time()
    names = cast(
        list[str], client.zrange(keys.workers, (seconds - ANNOUNCED) * 1000, "+inf", byscore=True)
    )
    infos = cast(list[str | None], client.hmget(keys.announcements, names)) if names else []
    return {
        name: json.loads(info).get("handover", "fused")
        for name, info in zip(names, infos, strict=True)
        if info
    }


def _refusal(url: str, client: redis.Redis) -> tuple[str, str] | None:
    """Return the server's error reply to PING, and advice.

    A server that cannot write answers PING with an error reply, too.

    Returns:
        None if the server answers PING, or if the error reply concerns PING alone.

    Raises:
        redis.RedisError: the connection failed.
    """
    try:
        client.ping()
    except redis.ResponseError as error:
        code = refusal_code(error)
        return None if code is None else refusal_of(url, error, code)
    return None


def _answer_or_none(ask: Callable[[], T]) -> T | None:
    """Return the result of ``ask``. None after an error reply.

    The server sends an error reply if the user lacks the right, or if the command is renamed. Other
    errors, such as a failed connection, are raised.
    """
    try:
        return ask()
    except redis.ResponseError:
        return None


def _skew(client: redis.Redis, local_time: Callable[[], float]) -> float:
    """Return how many ms the server's clock is ahead.

    It is negative if the server's clock is behind. It is 0 if the difference is shorter than the
    exchange.

    Args:
        local_time: this machine's clock, in seconds since 1970.
    """
    before = local_time() * 1000
    seconds, micros = client.time()
    after, there = local_time() * 1000, seconds * 1000 + micros / 1000
    return there - after if there > after else min(0.0, there - before)
