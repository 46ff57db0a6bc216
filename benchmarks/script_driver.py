"""The real scripts, driven without Celery: the capacity of a server if everything else is fast.

Each process has many connections, and more runs than connections. Over each connection it plays one
slot of a worker, one command at a time. It takes a message (BRPOP), then claims and commits its
round. With prefetch, a commit also takes the next message and claims its run, except for the few
messages that a worker leaves to others. With affinity, each run stays as long as it would on a
worker. Each process has its own prefix, and so its own queues.
"""

from __future__ import annotations

import itertools
import multiprocessing
import re
import select
import socket
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import redis

from benchmarks.recorded import Messages, Packed, Recording, record
from perdure.worker.client import Client
from perdure.worker.engine.fast.affinity import STAY_SECONDS
from perdure.worker.engine.fast.prefetch import SKIP_EVERY, SKIP_SECONDS
from perdure.worker.settings import Settings
from perdure.worker.store import scripts
from perdure.worker.store.wire import packed

#: Rounds of a run, which does not end while it is driven.
ENDLESS = 1_000_000
#: Runs for each connection, so that no connection waits for a message.
RUNS = 3
READ = 1 << 18
#: How a slot gets its next round: it asks for each message, or commits prefetch it, or commits
#: prefetch it and the run stays for a while.
ASKED, FETCHES, STAYS = "asked for", "commit fetches", "run stays"
#: Patterns for the run and the step of a message; for the run, the token and the step of a grant
#: (parts/grant.lua); and for the token of a run that stays.
MESSAGE = re.compile(rb'"argsrepr": "\(\'([^\']+)\', 0, (\d+)\)')
STEP = re.compile(rb"\x1fstep\x1f(\d+)\x1f")
GRANT = re.compile(
    rb"[\n\x1f]\d+ \d+ \d+ \d+ ([\w.-]+)\x1f.*?\x1fphase\x1fleased\x1ftoken\x1f(\d+)\x1f", re.DOTALL
)
STAYED = re.compile(rb"\+ok (\d+) ")


@dataclass(frozen=True)
class Driven:
    """A load: rounds that leave ``size`` bytes of state, at the server of a unix socket."""

    path: str
    size: int = 500
    mode: str = FETCHES
    processes: int = 2
    connections: int = 16


class DrivenRun:
    """One run: the commands of its rounds."""

    def __init__(self, recording: Recording, run_id: str) -> None:
        held = ("step", "token", "claim")
        self.id = run_id
        self._claims = [Packed(call, run_id, ("step", "claim")) for call in recording.claims]
        self._commits = [Packed(call, run_id, (*held, "message")) for call in recording.commits]
        self._fetches = [
            Packed(call, run_id, (*held, "message", "fetch_claim")) for call in recording.fetches
        ]
        self._stays = [Packed(call, run_id, (*held, "next_claim")) for call in recording.stays]
        self._messages = [
            Messages(call.named["message"], 0, call.named["step"] + 1) for call in recording.commits
        ]

    def claim(self, step: int, claim: str) -> bytes:
        """Claim this round."""
        return self._claims[step % 2].fill(step=step, claim=claim)

    def commit(self, step: int, token: str, claim: str, fetch_claim: str | None) -> bytes:
        """Commit it. With ``fetch_claim``, also prefetch the next message."""
        place = step % 2
        kind = self._commits if fetch_claim is None else self._fetches
        message = self._messages[place].of(self.id, 0, step + 1)
        return kind[place].fill(
            step=step, token=token, claim=claim, message=message, fetch_claim=fetch_claim
        )

    def stay(self, step: int, token: str, claim: str, next_claim: str) -> bytes:
        """Commit it, and lease the run's next round in one command."""
        place = step % 2
        return self._stays[place].fill(step=step, token=token, claim=claim, next_claim=next_claim)


class Leaving:
    """The commits of a process that do not prefetch.

    They are chosen as in worker/engine/fast/prefetch.py.
    """

    def __init__(self) -> None:
        self._turn, self._left = 0, 0.0

    def now(self) -> bool:
        """Return whether this commit leaves the next message to others."""
        self._turn += 1
        if self._turn % SKIP_EVERY or time.monotonic() - self._left < SKIP_SECONDS:
            return False
        self._left = time.monotonic()
        return True


class Held(NamedTuple):
    """A granted round, with the end of its affinity."""

    run: DrivenRun
    step: int
    token: str
    claim: str
    until: float


class Slot:
    """One slot of a worker over its connection: the next command after each reply.

    ``rounds`` is the number of rounds that it has committed.
    """

    def __init__(
        self, runs: Mapping[bytes, DrivenRun], lists: Sequence[str], mode: str, leaving: Leaving
    ) -> None:
        self.rounds = 0
        self._runs, self._leaving = runs, leaving
        self._fetches, self._stays = mode != ASKED, mode == STAYS
        self._take = packed(["BRPOP", *lists, 1])
        self._ids = (f"driver:1.{id(self):016x}{number:016x}" for number in itertools.count())
        self._turn = self._play()
        self.sends = next(self._turn)

    def hear(self, answer: bytes) -> bool:
        """Take a part of the reply to ``sends``. After a complete reply, set the next ``sends``.

        Returns:
            False if the reply is not complete yet.
        """
        if answer.startswith(b"-"):
            raise RuntimeError(f"the server said {answer[:500]!r} to {self.sends[:500]!r}")
        if not _is_whole(answer):
            return False
        self.sends = self._turn.send(answer)
        return True

    def _play(self) -> Generator[bytes, bytes, None]:
        held: Held | None = None
        while True:
            claim = next(self._ids)
            if held is None:
                message = MESSAGE.search((yield self._take))
                if message is None:
                    continue  # a second without one
                held = self._granted(
                    (yield self._runs[message[1]].claim(int(message[2]), claim)), claim
                )
            run, step = held.run, held.step
            fetch = self._fetches and not self._leaving.now()
            if fetch and self._stays and time.monotonic() < held.until:
                answer = yield run.stay(step, held.token, held.claim, claim)
                stayed = STAYED.match(answer)
                assert stayed is not None, (
                    f"{run.id}, step {step}: the run did not stay: {answer[:200]!r}"
                )
                self.rounds += 1
                held = held._replace(step=step + 1, token=stayed[1].decode(), claim=claim)
                continue
            answer = yield run.commit(step, held.token, held.claim, claim if fetch else None)
            self.rounds += 1
            assert b"\r\ncontinued\r\n" in answer[:40], (
                f"{run.id}, step {step}: the commit got {answer[:200]!r}"
            )
            held = self._granted(answer, claim) if answer.startswith(b"*3") else None

    def _granted(self, answer: bytes, claim: str) -> Held:
        grant, step = GRANT.search(answer), STEP.search(answer)
        assert grant is not None and step is not None, f"nothing was claimed: {answer[:500]!r}"
        return Held(
            self._runs[grant[1]],
            int(step[1]),
            grant[2].decode(),
            claim,
            time.monotonic() + STAY_SECONDS,
        )


def _is_whole(answer: bytes) -> bool:
    """Return whether this is a complete reply: a list of texts, or a line."""
    end = answer.find(b"\r\n")
    if end < 0 or not answer.startswith(b"*"):
        return end >= 0
    for _ in range(int(answer[1:end])):
        start, end = end + 2, answer.find(b"\r\n", end + 2)
        if end < 0:
            return False
        if answer.startswith(b"$", start):
            end += int(answer[start + 1 : end]) + 2
    return len(answer) >= end + 2


def drive(driven: Driven, number: int, rounds: Any, stopping: Any) -> None:
    """Play rounds in one process until ``stopping`` is set. Count them in ``rounds[number]``."""
    settings = Settings(
        redis_url=f"unix://{driven.path}",
        prefix=f"drive{number}",
        flow_modules=("benchmarks.flows",),
    )
    inputs = {"rounds": ENDLESS, "bytes": driven.size}
    recording = record(settings, "empty", inputs)
    client = Client(settings=settings)
    client._store.redis.delete(*client._store.keys.queue_names)  # the recorded run's own
    runs = {
        f"driven-run-{place:05}".encode(): DrivenRun(recording, f"driven-run-{place:05}")
        for place in range(RUNS * driven.connections)
    }
    for run in runs.values():
        client.submit("empty", "go", inputs, run_id=run.id)
    for name in ("claim_round", "commit_round", "commit_and_continue"):
        client._store.redis.script_load(scripts.source(name))
    slots: dict[int, tuple[socket.socket, Slot, bytearray]] = {}
    leaving = Leaving()
    with select.epoll() as poll:
        for _ in range(driven.connections):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(driven.path)
            slots[connection.fileno()] = (
                connection,
                Slot(runs, client._store.keys.queue_names, driven.mode, leaving),
                bytearray(),
            )
            poll.register(connection, select.EPOLLIN)
        client.close()
        for connection, slot, _ in slots.values():
            connection.sendall(slot.sends)
        while not stopping.is_set():
            for place, _ in poll.poll(1.0):
                connection, slot, heard = slots[place]
                heard += connection.recv(READ)
                before = slot.rounds
                if slot.hear(bytes(heard)):
                    heard.clear()
                    rounds[number] += slot.rounds - before
                    connection.sendall(slot.sends)
    for connection, _, _ in slots.values():
        connection.close()


@dataclass(frozen=True)
class Carried:
    """The server's work in the measured time.

    Attributes:
        rounds: Rounds.
        seconds: Time by the clock.
        main: CPU seconds of the server's one thread for commands.
        whole: CPU seconds of the whole process, with syncs of the log and frees.
        calls: Microseconds a round by command, as the server counts them: without sockets and log.
    """

    rounds: int
    seconds: float
    main: float
    whole: float
    calls: Mapping[str, float]


def carried(driven: Driven, seconds: float, settle: float = 0.5) -> Carried:
    """Drive for ``seconds``, after some time to start up."""
    server = redis.Redis(unix_socket_path=driven.path, decode_responses=True)
    with _driving(driven) as rounds:
        time.sleep(settle)
        (*before, told), count = _look(server), sum(rounds)
        time.sleep(seconds)
        (*after, now), done = _look(server), sum(rounds) - count
    server.close()
    clock, main, whole = (b - a for a, b in zip(before, after, strict=True))
    return Carried(
        done, clock, main, whole, {name: (now[name] - told.get(name, 0)) / done for name in now}
    )


@contextmanager
def _driving(driven: Driven) -> Iterator[Any]:
    """Start the processes. Yield the numbers of rounds, one for each process."""
    context = multiprocessing.get_context("spawn")
    rounds, stopping = context.Array("Q", driven.processes, lock=False), context.Event()
    processes = [
        context.Process(target=drive, args=(driven, number, rounds, stopping))
        for number in range(driven.processes)
    ]
    for process in processes:
        process.start()
    try:
        while not all(rounds):
            assert all(process.is_alive() for process in processes), (
                "a driving process ended; it says above why"
            )
            time.sleep(0.01)
        yield rounds
        assert all(process.is_alive() for process in processes), (
            "a driving process ended; it says above why"
        )
    finally:
        stopping.set()
        for process in processes:
            process.join(10)
            process.kill()


def _look(server: redis.Redis) -> tuple[float, float, float, dict[str, float]]:
    cpu: Any = server.info("cpu")
    stats: Any = server.info("commandstats")
    main, whole = (
        cpu[f"used_cpu_user{part}"] + cpu[f"used_cpu_sys{part}"] for part in ("_main_thread", "")
    )
    return (
        time.perf_counter(),
        main,
        whole,
        {name.removeprefix("cmdstat_"): stat["usec"] for name, stat in stats.items()},
    )
