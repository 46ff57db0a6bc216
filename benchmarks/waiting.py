"""Rounds that wait: up to 500 at once in one process, each for a reply on its own socket."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Measure
from benchmarks.processes import memory, process, until
from benchmarks.redis_server import RedisServer, redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.perdure import alive, worker_command
from benchmarks.slow_server import answering
from perdure.worker.client import Client
from perdure.worker.settings import Settings
from perdure.worker.store.keys import Keys

#: Rounds at once.
COUNTS, QUICK_COUNTS = (1, 10, 50, 100, 200, 500), (1, 8)
#: Seconds until a reply. The short ones measure the rate, the long ones the heartbeats, because
#: they last several of these.
SHORT, LONG = 1.0, 5.0
#: Seconds of counting.
SECONDS, QUICK_SECONDS = 6.0, 1.5
#: Counting starts when this number of the rounds have waited at once; between two rounds, none
#: waits.
BEGUN = 0.9
#: Goals with the most rounds: the part of the ideal rate, megabytes, and seconds that a heartbeat
#: may be late.
AIM_RATE, AIM_MB, AIM_LATE = 0.9, 150, 1.0
FLOWS = "benchmarks.loads"
MB = 1e6


@dataclass(frozen=True)
class Waited:
    """Result of one load.

    Attributes:
        rate: Part of the ideal number of rounds.
        resident, own: Megabytes of the worker: RSS; and with its share of shared memory, PSS.
        stale: The longest time (seconds) that any lease was without a heartbeat.
        errors: Rounds that failed, were lost, or whose message was published again.
    """

    rate: float
    resident: float
    own: float
    stale: float
    errors: int


def measure(options: Options) -> Report:
    """Measure every number of rounds, in turns."""
    report = Report(
        "waiting",
        "Rounds that wait on a socket at once, in one worker process with as many threads; "
        "each for an answer that takes its time.",
        settings={
            "answer_seconds": SHORT,
            "long_answer_seconds": LONG,
            "seconds": QUICK_SECONDS if options.quick else SECONDS,
        },
    )
    counts = QUICK_COUNTS if options.quick else COUNTS
    loads = [(count, SHORT) for count in counts] + ([] if options.quick else [(counts[-1], LONG)])
    found: dict[tuple[int, float], list[Waited]] = {load: [] for load in loads}
    for _ in range(options.passes):
        for load in loads:
            found[load].append(waited(*load, seconds=report.settings["seconds"] * load[1]))
    for (count, answer), passes in found.items():
        told = f"{count} rounds of {answer:g} s"
        report.measures += [
            Measure(f"{told}: of the ideal rate", "", tuple(one.rate for one in passes)),
            Measure(f"{told}: longest without a beat", "s", tuple(one.stale for one in passes)),
            Measure(f"{told}: errors", "", tuple(float(one.errors) for one in passes)),
            Measure(f"{told}: memory of the worker", "MB", tuple(one.resident for one in passes)),
            Measure(f"{told}: memory of its own", "MB", tuple(one.own for one in passes)),
        ]
    report.notes += verdicts(found)
    return report


def waited(count: int, answer: float, seconds: float) -> Waited:
    """Play ``count`` rounds at once, and watch for ``seconds``.

    Each waits ``answer`` seconds for its reply.
    """
    with ExitStack() as stack:
        server = stack.enter_context(redis_server())
        asked = stack.enter_context(answering(answer))
        settings = Settings(redis_url=server.url, flow_modules=(FLOWS,))
        client = stack.enter_context(closing(Client(settings=settings)))
        environment = {"PERDURE_REDIS_URL": server.url, "PERDURE_FLOW_MODULES": FLOWS}
        started = stack.enter_context(
            process(worker_command("--pool", "threads", "--concurrency", str(count)), **environment)
        )
        until(lambda: alive(client) == 1, "the worker")
        ids = [
            client.submit("waiter", "wait", {"port": asked.port, "rounds": 1_000_000}).id
            for _ in range(count)
        ]
        with suppress(TimeoutError):  # then the rate will tell
            until(lambda: asked.most >= BEGUN * count, "the first rounds", 10 + 2 * answer)
        before, began = asked.answered, time.perf_counter()
        stale = 0.0
        while (passed := time.perf_counter() - began) < seconds:
            stale = max(stale, longest_silence(server, ids))
            time.sleep(0.1)
        rate = (asked.answered - before) * answer / (count * passed)
        told = memory(started.pid)
        return Waited(rate, told["Rss"] / MB, told["Pss"] / MB, stale, errors(server, ids))


def longest_silence(server: RedisServer, ids: list[str]) -> float:
    """Return the seconds since the oldest heartbeat or claim. Only present leases count."""
    pipeline = server.redis.pipeline(transaction=False)
    pipeline.time()
    for run_id in ids:
        pipeline.hmget(Keys().run(run_id), "phase", "claimed_at", "beat_at")
    (seconds, micros), *runs = pipeline.execute()
    now = 1000 * seconds + micros // 1000
    heard = [
        max(int(claimed or 0), int(beat or 0)) for phase, claimed, beat in runs if phase == "leased"
    ]
    return float(now - min(heard, default=now)) / 1000


def errors(server: RedisServer, ids: list[str]) -> int:
    """Count the events of these runs that report failures."""
    pipeline = server.redis.pipeline(transaction=False)
    for run_id in ids:
        pipeline.xrange(Keys().events(run_id))
    events: list[list[tuple[str, dict[str, Any]]]] = pipeline.execute()
    return sum(
        event["type"] not in ("submitted", "committed") for run in events for _, event in run
    )


def verdicts(found: dict[tuple[int, float], list[Waited]]) -> list[str]:
    """Return the goals' results for the most rounds."""
    most = max(count for count, _ in found)
    said = []
    for (count, answer), passes in found.items():
        if count == most:
            worst = [
                (
                    "of the ideal rate",
                    min(one.rate for one in passes),
                    min(one.rate for one in passes) >= AIM_RATE,
                    AIM_RATE,
                ),
                (
                    "errors",
                    max(one.errors for one in passes),
                    not any(one.errors for one in passes),
                    0,
                ),
                (
                    "MB",
                    max(one.resident for one in passes),
                    max(one.resident for one in passes) <= AIM_MB,
                    AIM_MB,
                ),
                (
                    "s without a beat",
                    max(one.stale for one in passes),
                    max(one.stale for one in passes) <= 1 + AIM_LATE,
                    1 + AIM_LATE,
                ),
            ]
            words = [
                f"{value:.3g} {what} (aim {aim:g}: {'reached' if good else 'NOT reached'})"
                for what, value, good, aim in worst
            ]
            said.append(f"{count} rounds of {answer:g} s, the worst pass: {', '.join(words)}")
    return said
