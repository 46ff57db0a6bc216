"""Drives the real scripts without Celery: what a server carries, when nobody but the server works.

Each process has many connections, each of which plays the rounds of one run after the other has ended: take a message (as a worker's
BRPOP), claim, commit. One command is on its way per connection. Processes have a prefix, and so queues, of their own.
"""

from __future__ import annotations

import multiprocessing
import select
import socket
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from benchmarks.recorded import Messages, Packed, Recording, bulk, record
from worker.client import Client
from worker.settings import Settings
from worker.store import scripts

ENDLESS = 1_000_000  # rounds of a run that does not end while it is driven
READ = 1 << 18


@dataclass(frozen=True)
class Driven:
    """What is driven: by ``processes`` with so many ``connections`` each, runs whose rounds carry ``state`` bytes.

    ``takes``: whether each round takes its message from the queue first, as a worker without the fetch does.
    """

    path: str
    state: int = 500
    processes: int = 2
    connections: int = 16
    takes: bool = True


class RunOnWire:
    """One run, played over one connection: what is to be sent next, given what was answered.

    ``ends`` is how a whole answer to ``sends`` can end. (No parser: it would cost more than all else that is done here.)
    """

    def __init__(self, recording: Recording, run_id: str, shas: dict[str, str], takes: bool) -> None:
        self._run_id, self.step = run_id, 0
        self._claims = [Packed(call, shas["claim_round"], run_id, ("step", "claim")) for call in recording.claims]
        self._commits = [Packed(call, shas["commit_round"], run_id, ("step", "token", "claim", "message")) for call in recording.commits]
        self._messages = [Messages(call) for call in recording.commits]
        *_, controller, executor = recording.claims[0].keys
        words = ("BRPOP", controller, executor, "1")
        self._take = b"*4\r\n" + b"".join(map(bulk, words)) if takes else None
        self._turn = self._rounds()
        self.sends, self.ends = next(self._turn)

    def hear(self, answer: bytes) -> None:
        """What the server said to ``sends``; from then on ``sends`` is what comes next."""
        if answer.startswith(b"-"):
            raise RuntimeError(f"{self._run_id}, step {self.step}: the server said {answer[:500]!r}")
        self.sends, self.ends = self._turn.send(answer)

    def _rounds(self) -> Generator[tuple[bytes, bytes], bytes, None]:
        while True:
            if self._take is not None:
                yield self._take, b"}}\r\n"  # the message's text
            claim, place = f"driver:1.{self._run_id}{self.step:016}", self.step % 2
            answer = yield self._claims[place].fill(step=self.step, claim=claim), b"\r\n*0\r\n"  # the newest turns: none
            _, _, word, _, token, _ = answer.split(b"\r\n", 5)
            assert word == b"ok", f"{self._run_id}, step {self.step}: the claim got {answer[:200]!r}"
            message = self._messages[place].of(self._run_id, self.step + 1)
            filled = self._commits[place].fill(step=self.step, token=token.decode(), claim=claim, message=message)
            yield filled, b"continued\r\n"
            self.step += 1


def drive(driven: Driven, number: int, rounds: Any, stopping: Any) -> None:
    """One process: play rounds until ``stopping`` is set, and count them in ``rounds[number]``."""
    prefix = f"drive{number}"
    settings = Settings(redis_url=f"unix://{driven.path}", prefix=prefix, flow_modules=("benchmarks.loads",))
    recording = record(settings, "carrying", {"rounds": ENDLESS, "bytes": driven.state})
    client = Client(settings=settings)
    client._store.redis.delete(*client._store.keys.queue_names)
    shas = {name: client._store.redis.script_load(scripts.source(name)) for name in ("claim_round", "commit_round")}
    poll, runs, socks, pieces = select.epoll(), {}, {}, {}
    for place in range(driven.connections):
        run_id = f"driven-run-{place:05}"
        client.submit("carrying", "go", {"rounds": ENDLESS, "bytes": driven.state}, run_id=run_id)
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(driven.path)
        socks[sock.fileno()], runs[sock.fileno()] = sock, RunOnWire(recording, run_id, shas, driven.takes)
        poll.register(sock, select.EPOLLIN)
    client.close()
    for place, sock in socks.items():
        sock.sendall(runs[place].sends)
    while not stopping.is_set():
        for place, _ in poll.poll(1.0):
            sock, run = socks[place], runs[place]
            answer = pieces.pop(place, b"") + sock.recv(READ)
            if not answer.endswith(run.ends) and not answer.startswith(b"-"):
                pieces[place] = answer
                continue
            step = run.step
            run.hear(answer)
            rounds[number] += run.step - step
            sock.sendall(run.sends)
    for sock in socks.values():
        sock.close()


@dataclass(frozen=True)
class Carried:
    """What the server did in the measured time: rounds, seconds by the clock, and CPU seconds.

    ``main`` are those of the server's one thread for commands, ``whole`` those of its whole process (syncs of the log, frees).
    ``calls`` tells microseconds a round by command, as the server itself counts them: without reading and writing sockets and log.
    """

    rounds: int
    seconds: float
    main: float
    whole: float
    calls: dict[str, float]


@contextmanager
def driving(driven: Driven) -> Iterator[Any]:
    """The processes at work; yields the counts of rounds, one a process."""
    context = multiprocessing.get_context("spawn")
    rounds, stopping = context.Array("Q", driven.processes, lock=False), context.Event()
    processes = [context.Process(target=drive, args=(driven, number, rounds, stopping)) for number in range(driven.processes)]
    for process in processes:
        process.start()
    try:
        while not all(rounds):
            assert all(process.is_alive() for process in processes), "a driving process ended; it says above why"
            time.sleep(0.01)
        yield rounds
        assert all(process.is_alive() for process in processes), "a driving process ended; it says above why"
    finally:
        stopping.set()
        for process in processes:
            process.join(10)
            process.kill()


def carried(driven: Driven, seconds: float, settle: float = 0.5) -> Carried:
    """Drive for ``seconds``, after a time to get going."""
    server = redis.Redis(unix_socket_path=driven.path, decode_responses=True)
    with driving(driven) as rounds:
        time.sleep(settle)
        before = _look(server, rounds)
        time.sleep(seconds)
        after = _look(server, rounds)
    done, clock, main, whole = (b - a for a, b in zip(before[0], after[0], strict=True))
    spent = {name: (after[1][name] - before[1].get(name, 0)) / done for name in after[1]}
    return Carried(int(done), clock, main, whole, {name: round(each, 2) for name, each in spent.items() if each > 0.01})


def _look(server: redis.Redis, rounds: Any) -> tuple[tuple[float, ...], dict[str, float]]:
    cpu: Any = server.info("cpu")
    main, whole = (cpu[f"used_cpu_user{part}"] + cpu[f"used_cpu_sys{part}"] for part in ("_main_thread", ""))
    now, done = time.perf_counter(), sum(rounds)
    stats: Any = server.info("commandstats")
    return (done, now, main, whole), {name.removeprefix("cmdstat_"): stat["usec"] for name, stat in stats.items()}
