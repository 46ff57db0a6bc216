"""Fills a server with runs by the real scripts.

It sends them as fast as the server accepts them. The runs are queued, wait for a person, or sleep.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import unquote, urlsplit

from benchmarks.processes import until
from benchmarks.recorded import RECORDED_RUN, Messages, Packed, noted
from benchmarks.redis_server import RedisServer
from benchmarks.script_driver import GRANT
from perdure.worker.app import engine_of, make_app
from perdure.worker.client import Client
from perdure.worker.settings import Settings
from perdure.worker.store.keys import Keys

FLOWS = "benchmarks.flows"
#: More rounds than any benchmark plays, and the bytes of state of each.
INPUTS = {"rounds": 1_000_000, "bytes": 500}
#: Commands that are sent before the replies are read.
BATCH = 100
#: A reply to a submit, to a claim, to a commit that pauses, and to a commit that parks.
SUBMITTED, CLAIMED, PAUSED, PARKED = (
    re.compile(rb"ok\r\n\$16\r\n.{16}\r\n"),
    GRANT,
    re.compile(rb"interrupted\r\n"),
    re.compile(rb"parked\r\n"),
)


def settings_of(server: RedisServer) -> Settings:
    """Return the settings of programs for the server's runs."""
    return Settings(redis_url=server.url, flow_modules=(FLOWS,))


def queue(server: RedisServer, ids: Sequence[str]) -> None:
    """Submit runs with these ids, which workers can play."""
    with closing(Client(settings=settings_of(server))) as client:
        calls = noted(client._store)
        _submit_one(client)
        _withdraw(client)
    submit = Packed(calls[0], RECORDED_RUN, ("message",))
    messages = Messages(calls[0].named["message"], 0, 0)
    _send(server, ids, lambda one: submit.fill(message=messages.of(one, 0, 0)), SUBMITTED)


def sleep(server: RedisServer, ids: Sequence[str], until_time: float) -> None:
    """Submit runs with these ids that start at this time.

    Each has one round. The time is in seconds since 1970.
    """
    with closing(Client(settings=settings_of(server))) as client:
        calls = noted(client._store)
        _submit_one(client, inputs={"rounds": 1}, not_before=3600)
        _withdraw(client)
    submit = Packed(calls[0], RECORDED_RUN, ("message", "delay"))
    messages = Messages(calls[0].named["message"], 0, 0)

    def command(run_id: str) -> bytes:
        return submit.fill(
            message=messages.of(run_id, 0, 0),
            delay=max(1, round(1000 * (until_time - time.time()))),
        )

    _send(server, ids, command, SUBMITTED)


def still_asleep(server: RedisServer, until_time: float) -> int:
    """Count the runs that sleep until this time and are not woken yet."""
    return int(server.redis.zcount(Keys().due, 1000 * until_time - 100, 1000 * until_time + 100))


def park(server: RedisServer, ids: Sequence[str]) -> None:
    """Submit runs with these ids and play their first round. Then they wait for a person."""
    engine = engine_of(make_app(settings_of(server)))
    with closing(Client(settings=settings_of(server))) as client, closing(engine):
        submits, calls = noted(client._store), noted(engine.store)
        _submit_one(client, interrupt_after=["Controller"])
        word = engine.rounds.run(RECORDED_RUN, 0, 0).word
        assert word == "interrupted", f"the recorded run came to {word!r}"
        _withdraw(client)
        claim_call, commit_call = calls
        submit, claim = (
            Packed(submits[0], RECORDED_RUN, ("message",)),
            Packed(claim_call, RECORDED_RUN, ("claim",)),
        )
        commit = Packed(commit_call, RECORDED_RUN, ("token", "claim", "message"))
        first, after = (
            Messages(submits[0].named["message"], 0, 0),
            Messages(commit_call.named["message"], 1, 1),
        )
        _send(server, ids, lambda one: submit.fill(message=first.of(one, 0, 0)), SUBMITTED)
        client._store.redis.delete(*client._store.keys.queue_names)  # no worker may play them
        answers = _send(server, ids, lambda one: claim.fill(claim=f"filler:1.{one}"), CLAIMED)
        tokens = {grant[1].decode(): grant[2].decode() for grant in GRANT.finditer(answers)}
        _send(
            server,
            ids,
            lambda one: commit.fill(
                token=tokens[one], claim=f"filler:1.{one}", message=after.of(one, 1, 1)
            ),
            PAUSED,
        )


def park_on_signal(server: RedisServer, ids: Sequence[str]) -> None:
    """Submit runs with these ids, and play them until they wait for a signal."""
    engine = engine_of(make_app(settings_of(server)))
    with closing(Client(settings=settings_of(server))) as client, closing(engine):
        submits, calls = noted(client._store), noted(engine.store)
        client.submit("waiter", "go", run_id=RECORDED_RUN)
        word = engine.rounds.run(RECORDED_RUN, 0, 0).word
        assert word == "parked", f"the recorded run came to {word!r}"
        _withdraw(client)
        claim_call, *_, commit_call = calls
        submit, claim = (
            Packed(submits[0], RECORDED_RUN, ("message",)),
            Packed(claim_call, RECORDED_RUN, ("claim",)),
        )
        commit = Packed(commit_call, RECORDED_RUN, ("token", "claim"))
        first = Messages(submits[0].named["message"], 0, 0)
        _send(server, ids, lambda one: submit.fill(message=first.of(one, 0, 0)), SUBMITTED)
        client._store.redis.delete(*client._store.keys.queue_names)  # no worker may play them
        answers = _send(server, ids, lambda one: claim.fill(claim=f"filler:1.{one}"), CLAIMED)
        tokens = {grant[1].decode(): grant[2].decode() for grant in GRANT.finditer(answers)}
        _send(
            server,
            ids,
            lambda one: commit.fill(token=tokens[one], claim=f"filler:1.{one}"),
            PARKED,
        )


def settle(server: RedisServer) -> None:
    """Wait until the server no longer rewrites its log.

    It does this in the background when the log has grown, and the copied pages slow it down.
    """

    def is_quiet() -> bool:
        told = server.redis.info("persistence")
        return not any(
            told[name]
            for name in (
                "aof_rewrite_in_progress",
                "aof_rewrite_scheduled",
                "rdb_bgsave_in_progress",
            )
        )

    until(is_quiet, "the end of the rewriting of the log", 600, 0.1)


def names(first: int, count: int) -> list[str]:
    """Return run ids, numbered from ``first``. Each is as long as the recorded run's id."""
    return [f"filling-{place:08}" for place in range(first, first + count)]


def _submit_one(client: Client, inputs: Mapping[str, int] = INPUTS, **more: Any) -> None:
    client.submit("empty", "go", inputs, run_id=RECORDED_RUN, **more)


def _withdraw(client: Client) -> None:
    """Remove every trace of the recorded run."""
    keys, redis = client._store.keys, client._store.redis
    redis.delete(*keys.of_run(RECORDED_RUN)[:4])
    for shared in (keys.due, keys.index("live"), keys.index("interrupted")):
        redis.zrem(shared, RECORDED_RUN)
    for name in keys.queue_names:  # its message is the newest
        redis.lpop(name)


def _send(
    server: RedisServer,
    ids: Sequence[str],
    command: Callable[[str], bytes],
    answer: re.Pattern[bytes],
) -> bytes:
    """Send a command for each run, in batches. Return the replies."""
    heard: list[bytes] = []
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.connect(unquote(urlsplit(server.url).path))
        for start in range(0, len(ids), BATCH):
            some = ids[start : start + BATCH]
            connection.sendall(
                b"".join(
                    [command(one).replace(RECORDED_RUN.encode(), one.encode()) for one in some]
                )
            )
            told = b""
            while len(answer.findall(told)) < len(some):
                told += connection.recv(1 << 20)
                assert not told.startswith(b"-") and b"\r\n-" not in told, told[:500]
            heard.append(told)
    return b"".join(heard)
