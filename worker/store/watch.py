"""What the Sentinels of a service say of it, each asked by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import redis

from worker.sentinel_url import SentinelUrl
from worker.store.reaching import sentinel_options, sentinels_of


@dataclass(frozen=True)
class Watch:
    """The service as it is seen.

    Attributes:
        silent: the Sentinels named in the URL that do not answer, or do not know the master, by their addresses.
        masters: who the master is, by the address of each that answers.
        replicas: living replicas, sentinels: Sentinels known, as the one sees it that sees the fewest.
        quorum: whether enough of them are there to agree on a failover.
    """

    silent: tuple[str, ...] = ()
    masters: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 0
    sentinels: int = 0
    quorum: bool = False


def watch(service: SentinelUrl) -> Watch:
    """Ask every Sentinel, once."""
    manager = sentinels_of(service.sentinels, sentinel_options(service))
    silent, masters, replicas, known, quorum = [], {}, [], [], []
    try:
        for (host, port), client in zip(service.sentinels, manager.sentinels, strict=True):
            place = f"{host}:{port}"
            try:
                told = cast(dict[str, Any], client.sentinel_master(service.master))
                slaves = client.sentinel_slaves(service.master)
                quorum.append(_quorum(client, service.master))
            except (redis.RedisError, OSError):
                silent.append(place)
                continue
            masters[place] = f"{told['ip']}:{told['port']}"
            replicas.append(sum(not (slave["is_sdown"] or slave["is_odown"]) for slave in slaves))
            known.append(int(told["num-other-sentinels"]) + 1)
    finally:
        manager.close()
    return Watch(tuple(silent), masters, min(replicas, default=0), min(known, default=0), bool(quorum) and all(quorum))


def _quorum(client: redis.Redis, master: str) -> bool:
    try:
        client.sentinel_ckquorum(master)  # its answer is a sentence, which redis-py takes for False
    except redis.ResponseError:
        return False
    return True
