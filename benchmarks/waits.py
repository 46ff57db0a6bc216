"""Waits: from a signal to its node, how late sleeps end, and many signals while workers are killed.

A node that waits reports when it has got past its wait, with a clock that all processes share.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise

from benchmarks.measure import Measure, percentile
from benchmarks.processes import process, until
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.perdure import alive, client_of, worker_command, worker_environment
from benchmarks.tally import Tally, tally
from perdure.worker.client import Client
from perdure.worker.errors import MailboxFull
from perdure.worker.store import StoreUnavailable

HOPS, QUICK_HOPS = 300, 20
SLEEPERS, QUICK_SLEEPERS = 10_000, 100
#: Sleepers that are submitted a second, at least.
SUBMITTED = 300
#: Runs, senders, and signals that each sender gives to each run; each signal is sent twice.
RUNS, SENDERS, EACH = 50, 8, 250
QUICK_RUNS, QUICK_EACH = 4, 5
#: Seconds between two kills of a worker.
KILLS = 1.0


def measure(options: Options) -> Report:
    """Measure the three in each pass, one by one."""
    report = Report(
        "waits",
        "From a signal to its node beside a hop of a lone run (ms), how late a sleep of a second "
        "ends alone and among others that end with it (s), and signals to runs whose workers are "
        "killed once a second.",
    )
    hops: list[float] = []
    signals: list[float] = []
    lone: list[float] = []
    many: list[float] = []
    queued: list[float] = []
    for _ in range(options.passes):
        with tally(stamping=True) as listening, fleet(listening) as client:
            count = QUICK_HOPS if options.quick else HOPS
            hops.append(1000 * percentile(hops_over_queue(client, listening, count), 0.5))
            signals.append(1000 * percentile(_signals(client, listening, count), 0.5))
            for _ in range(10):
                lone += _late(client, listening, 1)[0]
            played, woken = _late(client, listening, QUICK_SLEEPERS if options.quick else SLEEPERS)
            many += played
            queued += woken
    report.measures = [
        Measure("hop of a lone run, p50", "ms", tuple(hops)),
        Measure("from a signal to its node, p50", "ms", tuple(signals), "hop of a lone run, p50"),
        Measure("a lone sleep ends late by, p50", "s", (percentile(lone, 0.5),)),
        Measure("a lone sleep ends late by, p99", "s", (percentile(lone, 0.99),)),
        Measure("sleeps that end together, late by, p50", "s", (percentile(many, 0.5),)),
        Measure("the last of them", "s", (max(many),)),
        Measure("until such a run is queued, p50", "s", (percentile(queued, 0.5),)),
        Measure("until the last one is queued", "s", (max(queued),)),
    ]
    report.notes.append(_delivered(options.quick))
    return report


@contextmanager
def fleet(listening: Tally) -> Iterator[Client]:
    """Start a server and a worker for each core. Yield a client."""
    with (
        redis_server("everysec") as server,
        closing(client_of(server)) as client,
        workers(server, client, **listening.environment),
    ):
        yield client


@contextmanager
def workers(server: RedisServer, client: Client, **environment: str) -> Iterator[None]:
    """Start a worker for each core. Wait until all are alive."""
    processes = os.cpu_count() or 1
    command = worker_command("--pool", "threads", "--processes", str(processes))
    with process(command, **worker_environment(server), **environment):
        until(lambda: alive(client) >= processes, "the workers")
        yield


def hops_over_queue(client: Client, listening: Tally, count: int) -> list[float]:
    """Return the seconds between a lone run's rounds. The run goes through its queue each time."""
    run = client.submit("waiter", "go", {"signals": count})
    for number in range(count):
        client.signal(run.id, "paid", number)  # all are there before the node waits for them
    client.wait(run.id, 120)
    times = listening.began[-count:]
    return [later - earlier for earlier, later in pairwise(times)]


def _signals(client: Client, listening: Tally, count: int) -> list[float]:
    """Return the seconds from each signal to its node. The run is parked."""
    run = client.submit("waiter", "go", {"signals": count})
    seconds = []
    for number in range(count):
        until(lambda: client.get(run.id).phase == "parked", "the wait", every=0.001)
        before = len(listening.began)
        began = time.monotonic()
        client.signal(run.id, "paid", number)
        until(lambda told=before: len(listening.began) > told, "the node", every=0.0005)
        seconds.append(listening.began[before] - began)
    client.wait(run.id, 60)
    return seconds


def _late(client: Client, listening: Tally, together: int) -> tuple[list[float], list[float]]:
    """Return the seconds by which sleeps end late. They are negative if a sleep ends early.

    Returns:
        Until the node is played, and until the run is queued for that.
    """
    before = len(listening.began)
    # A run that is submitted when a sweep has woken the previous run would end just behind a sweep.
    ends = time.time() + max(2.0, together / SUBMITTED) + random.random()
    offset = time.time() - time.monotonic()
    runs = [
        client.submit("waiter", "go", {"seconds": ends - time.time()}).id for _ in range(together)
    ]
    assert time.time() < ends, "the last of them would be submitted too late"
    until(lambda: len(listening.began) >= before + together, "the sleepers", 120)
    played = [each + offset - ends for each in listening.began[before:]]
    woken = [
        int(event["at"]) / 1000 - ends
        for run_id in runs
        for _, event in client._store.events.read(run_id)
        if event["type"] == "woken"
    ]
    return played, woken


def _delivered(quick: bool) -> str:
    """Send many signals twice to runs with killed workers.

    Return a sentence on the signals that the runs took.
    """
    runs, each = (QUICK_RUNS, QUICK_EACH) if quick else (RUNS, EACH)
    expected = SENDERS * each
    with redis_server("everysec") as server, closing(client_of(server)) as client:
        environment = worker_environment(server)
        ids = [
            client.submit("waiter", "go", {"signals": expected, "batch": True}).id
            for _ in range(runs)
        ]
        done = threading.Event()
        kills = 0

        def kill() -> None:
            nonlocal kills
            while not done.is_set():
                with process(worker_command("--pool", "threads"), **environment) as worker:
                    if not done.wait(3 * KILLS):
                        os.killpg(worker.pid, signal.SIGKILL)
                        kills += 1

        def send(sender: int) -> None:
            with closing(client_of(server)) as own:
                for number in range(each):
                    for run_id in ids:
                        for _ in range(2):
                            _send(own, run_id, f"{sender}:{number}")

        killing = threading.Thread(target=kill)
        senders = [threading.Thread(target=send, args=(place,)) for place in range(SENDERS)]
        began = time.monotonic()
        for thread in (killing, *senders):
            thread.start()
        with process(worker_command("--pool", "threads"), **environment):
            for thread in senders:
                thread.join()
            answers = [client.wait(run_id, 600).answer for run_id in ids]
            seconds = time.monotonic() - began
            done.set()
            killing.join()
    sent = sorted(f"{sender}:{number}" for sender in range(SENDERS) for number in range(each))
    lost = sum(len(set(sent) - set(taken)) for taken in answers)
    doubled = sum(len(taken) - len(set(taken)) for taken in answers)
    in_order = all(_is_in_order(taken) for taken in answers)
    return (
        f"{runs * expected:,} signals of {SENDERS} senders to {runs} runs, each sent twice under "
        f"its key, {kills} kills, {seconds:.0f} s: {lost} lost, {doubled} taken twice, "
        f"{'in order' if in_order else 'NOT in order'} for each sender"
    )


def _send(client: Client, run_id: str, text: str) -> None:
    while True:
        try:
            client.signal(run_id, "paid", text, key=text)
            return
        except (StoreUnavailable, MailboxFull):
            time.sleep(0.05)


def _is_in_order(taken: list[str]) -> bool:
    by_sender: dict[str, list[int]] = {}
    for text in taken:
        sender, _, number = text.partition(":")
        by_sender.setdefault(sender, []).append(int(number))
    return all(numbers == sorted(numbers) for numbers in by_sender.values())
