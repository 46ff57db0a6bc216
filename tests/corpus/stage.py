"""Stage: one living worker on a ground, and the attacks of a stranger on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis

from perdure import Client, Settings
from perdure.worker.store.tables import KEPT
from tests.corpus.form import Form, good
from tests.corpus.posting import Post, post_to
from tests.support.brokers import HANDOVERS
from tests.support.leftover_keys import keys_under
from tests.support.rabbitmq import RabbitServer
from tests.support.redis_servers import CrashableServer, available_binaries, server, until
from tests.support.sentinels import MASTER, watched
from tests.support.workers import WorkerProcess, workers

POOLS = {"threads": (), "prefork": ("--pool", "prefork", "--concurrency", "2")}
GROUNDS = (*HANDOVERS, "sentinel")
#: MiB that a worker may have grown by, after 8 MB of one message and a thousand of others.
GROWN = 96
#: kombu's own keys: which queues are bound to an exchange.
FOREIGN = ("_kombu.",)


class Stage:
    """One living worker, and a stranger's attacks on it."""

    def __init__(self, settings: Settings, post: Post, worker: WorkerProcess) -> None:
        self.settings = settings
        self.post = post
        self.worker = worker
        self.client = Client(settings=settings)
        self.queues = self.client._store.keys.queue_names
        self.children = children(worker.process.pid)
        self.before = self.foreign_keys()
        self.size = resident(worker.process.pid)

    def good(self, run_id: str = "nobody") -> Form:
        return good(self.client._connection.publisher, run_id)

    def close(self) -> None:
        there = self.client._store.redis
        there.delete(*keys_under(there, self.settings.prefix))
        self.client.close()

    def lives(self, after: str) -> None:
        assert self.worker.process.poll() is None, f"{after}: the worker ended"

    def letters(self) -> list[dict[str, Any]]:
        return self.client._store.fleet.dead_letters(KEPT)

    def put(self, name: str, form: Form, refused: bool, queue: str) -> None:
        """Send it, and wait until the worker has taken it, and put it aside where it is to be
        refused.
        """
        there = int(self.client._store.redis.llen(self.client._store.keys.dead_letters))
        self.post.put(queue, form)
        until(
            lambda: (
                self.worker.process.poll() is not None
                or (
                    not self.post.waiting(queue)
                    and self.client._store.redis.llen(self.client._store.keys.dead_letters)
                    == there + refused
                )
            ),
            f"{name!r} to be taken, and {'put aside' if refused else 'nothing else'}: {self.letters()[:1]}",
        )
        self.lives(name)

    def plays(self) -> None:
        """Check that good messages still run."""
        run = self.client.submit("ledger", "g", {"rounds": 4})
        assert self.client.wait(run.id, 30).answer == [0, 1, 2, 3]

    def foreign_keys(self) -> set[str]:
        keys = self.post.keys() | {
            str(key) for key in self.client._store.redis.scan_iter(count=1000)
        }
        return {key for key in keys if not key.startswith((self.settings.prefix, *FOREIGN))}

    def unharmed(self) -> None:
        """Check that the processes are the same and hardly greater, and that no foreign key was
        written.
        """
        self.lives("all")
        assert children(self.worker.process.pid) == self.children, "a process of the pool was lost"
        assert self.foreign_keys() == self.before
        grown = resident(self.worker.process.pid) - self.size
        print(f"the worker grew by {grown} MiB")
        assert grown < GROWN


def children(pid: int) -> set[str]:
    return {
        child
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for child in path.read_text().split()
    }


def resident(pid: int) -> int:
    """Return the resident memory of a process, in MiB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


@contextmanager
def ground(
    handover: str, request: pytest.FixtureRequest
) -> Iterator[tuple[str, str | None, RabbitServer | None]]:
    """Yield the state server's URL, the broker's URL if it is another, and the RabbitMQ if that is
    the broker.
    """
    state: CrashableServer = request.getfixturevalue("server")
    if handover == "redis":
        with server("redis" if "redis" in available_binaries() else "valkey", "everysec") as other:
            yield state.url, other.url, None
    elif handover == "rabbit":
        rabbit: RabbitServer = request.getfixturevalue("rabbit")
        yield state.url, rabbit.url, rabbit
    elif handover == "sentinel":
        with watched() as service:
            yield service.url, None, None
    else:
        yield state.url, None, None


def lists_of(url: str) -> str:
    """Return the server whose lists are written to; behind Sentinels, the master that they name."""
    if not url.startswith("redis+sentinel"):
        return url
    found = re.search(r"@?([\d.]+):(\d+)[,/]", url)
    assert found is not None
    with redis.Redis(found[1], int(found[2]), decode_responses=True) as sentinel:
        host, port = sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
    return f"redis://{host}:{port}/0"


@contextmanager
def stage(handover: str, pool: str, request: pytest.FixtureRequest) -> Iterator[Stage]:
    prefix = f"t{uuid4().hex[:8]}"
    with ExitStack() as running:
        state, broker, rabbit = running.enter_context(ground(handover, request))
        if rabbit is not None:
            running.callback(rabbit.forget, prefix)
        settings = Settings(
            redis_url=state,
            broker_url=broker,
            prefix=prefix,
            flow_modules=("tests.support.example_flows.rings",),
        )
        [worker] = running.enter_context(workers(1, settings, *POOLS[pool]))
        queues = [f"{prefix}.{role}" for role in ("controller", "executor")]
        post = running.enter_context(post_to(lists_of(broker or state), queues, rabbit))
        made = Stage(settings, post, worker)
        running.callback(made.close)
        made.plays()
        made.size = resident(worker.process.pid)
        yield made
