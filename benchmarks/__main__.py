"""Measures: rounds a second beside plain Celery, stop now, and the time from a kill to the next round."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import messages
from benchmarks.plain import ENDED
from worker.client import Client
from worker.embedded import EmbeddedServer
from worker.settings import Settings

PASSES = 5
RUNS, ROUNDS = 40, 30
STOPS, KILLS = 20, 5


@contextmanager
def worker(app: str, url: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process, killed afterwards."""
    quiet = ("-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat")
    command = [sys.executable, "-m", "celery", "-A", app, "worker", *quiet, *options]
    environment = {**os.environ, "HOLDFAST_REDIS_URL": url, "HOLDFAST_FLOW_MODULES": "benchmarks.flows", "BENCH_URL": url}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ours(url: str) -> float:
    """Rounds a second of Holdfast."""
    client = Client(settings=Settings(redis_url=url, flow_modules=("benchmarks.flows",)))
    with worker("worker.app", url):
        client.wait(client.submit("empty", "warm up", {"rounds": 2}).id, 60)
        began = time.perf_counter()
        ids = [client.submit("empty", "go", {"rounds": ROUNDS}).id for _ in range(RUNS)]
        for run_id in ids:
            client.wait(run_id, 120)
        seconds = time.perf_counter() - began
    client.close()
    return RUNS * ROUNDS / seconds


def plain(url: str) -> float:
    """Rounds a second of plain Celery, durable or not."""
    os.environ["BENCH_URL"] = url
    import benchmarks.plain as other

    client = Client(settings=Settings(redis_url=url))
    redis = client._store.redis
    other.app.conf.broker_url = other.broker_url(url).replace("holdfast+", "redis+")
    state = {"goal": "go", "state": "x" * 500}
    with worker("benchmarks.plain", url):
        redis.delete(ENDED)
        other.play.delay(state, 2)
        while not redis.get(ENDED):
            time.sleep(0.01)
        redis.delete(ENDED)
        began = time.perf_counter()
        for _ in range(RUNS):
            other.play.delay(state, ROUNDS)
        while int(redis.get(ENDED) or 0) < RUNS:
            time.sleep(0.005)
        seconds = time.perf_counter() - began
    client.close()
    return RUNS * ROUNDS / seconds


def stop_now(url: str) -> tuple[float, float]:
    """Milliseconds that ``stop --now`` takes on a run whose round sleeps, and until its slot is free: medians."""
    client = Client(settings=Settings(redis_url=url, flow_modules=("benchmarks.flows",)))
    calls, frees = [], []
    with worker("worker.app", url, "--concurrency", "1"):
        for _ in range(STOPS):
            run = client.submit("sleeper", "sleep")
            while client.get(run.id).phase != "leased":
                time.sleep(0.005)
            began = time.perf_counter()
            assert client.request_stop(run.id, mode="now").stopped
            calls.append(time.perf_counter() - began)
            client.wait(client.submit("empty", "behind it", {"rounds": 1}).id, 60)  # it needs the only slot
            frees.append(time.perf_counter() - began)
    client.close()
    return 1000 * statistics.median(calls), 1000 * statistics.median(frees)


def recovery(url: str) -> list[float]:
    """Seconds from SIGKILL of the worker that plays a round until another has claimed it; a second worker stands by."""
    client = Client(settings=Settings(redis_url=url, flow_modules=("benchmarks.flows",)))
    found = []
    with worker("worker.app", url) as standing_by:
        for _ in range(KILLS):
            with worker("worker.app", url) as doomed:
                while len([w for w in client.workers() if w["alive"] and w["silent"] < 3]) < 2:
                    time.sleep(0.01)
                while True:
                    run = client.submit("sleeper", "sleep", {"seconds": 30})
                    while not (owner := client.get(run.id).details.get("owner")):
                        time.sleep(0.005)
                    if owner.endswith(f":{doomed.pid}"):
                        break
                    client.request_stop(run.id, mode="now")
                os.killpg(doomed.pid, signal.SIGKILL)
                began = time.perf_counter()
                while not client.get(run.id).details.get("owner", "").endswith(f":{standing_by.pid}"):
                    time.sleep(0.005)
                found.append(time.perf_counter() - began)
                client.request_stop(run.id, mode="now")
    client.close()
    return found


def main() -> None:
    """Measure everything, print a table, and store it beside this file."""
    with tempfile.TemporaryDirectory(prefix="hf-") as room, EmbeddedServer(Path(room), appendfsync="everysec") as server:
        url = server.url
        rates: dict[str, list[float]] = {"holdfast": [], "plain Celery": []}
        for number in range(PASSES):  # A B A B: the machine drifts
            rates["holdfast"].append(ours(url))
            rates["plain Celery"].append(plain(url))
            latest = ", ".join(f"{name} {values[-1]:.0f} rounds/s" for name, values in rates.items())
            print(f"pass {number + 1} of {PASSES}: {latest}", flush=True)
        call, free = stop_now(url)
        kills = recovery(url)
    message = messages.measure()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratio = statistics.median(a / b for a, b in zip(*rates.values(), strict=True))
    result = {
        "rounds_per_second": {name: {"median": round(statistics.median(v)), "all": [round(x) for x in v]} for name, v in rates.items()},
        "ratio_to_plain_celery": round(ratio, 2),
        "message": message,
        "stop_now_ms": round(call, 2),
        "stop_now_slot_free_ms": round(free),
        "kill_to_next_round_s": {"median": round(statistics.median(kills), 2), "max": round(max(kills), 2)},
    }
    for name, median in medians.items():
        print(f"{name:15} {median:7.0f} rounds/s (median of {PASSES}, {RUNS} runs x {ROUNDS} empty rounds, 16 threads, one worker)")
    print(f"{'ratio':15} {ratio:7.2f}")
    print(messages.line(message))
    print(f"{'stop --now':15} {call:7.2f} ms until the call returns, {free:.0f} ms until the slot is free (medians of {STOPS})")
    print(f"{'kill -9':15} {statistics.median(kills):7.2f} s until the next claim (median of {KILLS}, max {max(kills):.2f} s)")
    Path(__file__).with_name("results.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
