"""The memory of a worker: when it is ready, and when it has played rounds."""

from __future__ import annotations

from contextlib import ExitStack, closing

from benchmarks.measure import Measure
from benchmarks.processes import family, memory, process, until
from benchmarks.redis_server import redis_server
from benchmarks.report import Options, Report
from benchmarks.sides.perdure import FLOWS, alive, client_of, worker_command
from benchmarks.work import ROUNDS

#: Each kind of worker, with its options.
WORKERS = {
    "threads": ("--pool", "threads"),
    "solo": ("--pool", "solo"),
    "prefork, 2 processes": ("--pool", "prefork", "--concurrency", "2"),
}
#: Rounds that it has played.
PLAYED, QUICK_PLAYED = (0, 990, 9_990), (0, 60)
MB = 1e6


def measure(options: Options) -> Report:
    """Measure each kind of worker in turns."""
    report = Report(
        "memory",
        "A worker with all that it started (a pool of processes has a parent): "
        "RSS, which counts what processes share once for each, "
        "and PSS, which divides it among those that share it.",
    )
    played = QUICK_PLAYED if options.quick else PLAYED
    wanted = {name: given for name, given in WORKERS.items() if options.wants(name)}
    found: dict[tuple[str, int], list[tuple[float, float]]] = {
        (name, rounds): [] for name in wanted for rounds in played
    }
    for _ in range(options.passes):
        for name, given in wanted.items():
            for rounds, sizes in _sizes(given, played).items():
                found[name, rounds].append(sizes)
    for (name, rounds), passes in found.items():
        told = f"{name}, {'ready' if not rounds else f'after {rounds:,} rounds'}"
        report.measures += [
            Measure(f"{told}: RSS", "MB", tuple(resident for resident, _ in passes)),
            Measure(f"{told}: PSS", "MB", tuple(own for _, own in passes)),
        ]
    return report


def _sizes(given: tuple[str, ...], played: tuple[int, ...]) -> dict[int, tuple[float, float]]:
    """Return RSS and PSS in megabytes, by played rounds."""
    sizes = {}
    with ExitStack() as stack:
        server = stack.enter_context(redis_server())
        client = stack.enter_context(closing(client_of(server)))
        environment = {"PERDURE_REDIS_URL": server.url, "PERDURE_FLOW_MODULES": FLOWS}
        started = stack.enter_context(process(worker_command(*given), **environment))
        until(lambda: alive(client) == 1, "the worker")
        done = 0
        for rounds in played:
            ids = [
                client.submit("empty", "go", {"rounds": ROUNDS}).id
                for _ in range((rounds - done) // ROUNDS)
            ]
            for run_id in ids:
                client.wait(run_id, 300)
            done = rounds
            told = [memory(pid) for pid in family([started.pid])]
            sizes[rounds] = (
                sum(each["Rss"] for each in told) / MB,
                sum(each["Pss"] for each in told) / MB,
            )
    return sizes
