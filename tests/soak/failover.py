"""The cost of failovers: ``python -m tests.soak.failover`` prints one row a way to fail and a
protection (``--help``: how many, which).

Three servers, three Sentinels, two workers, one client that submits without a pause. The figures in
docs/operations/sentinel.md are this table.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
from pathlib import Path

from perdure import Settings
from tests.support.failovers import FAULTS, Load, Told
from tests.support.sentinels import watched

#: Guards against a loss, as settings of Perdure and of the servers.
PROTECTIONS: dict[str, tuple[dict[str, int], dict[str, str]]] = {
    "none": ({}, {}),
    "wait_replicas 1": ({"wait_replicas": 1}, {}),
    "wait_replicas 2": ({"wait_replicas": 2}, {}),
    "min-replicas-to-write 1": ({}, {"min_replicas_to_write": "1"}),
}
HEAD = (
    "| the master was | protection | failovers (faults) | submits acknowledged | **lost** | not acknowledged "
    "| commits confirmed | taken back | recovery, s: median (max) |"
)


def measured(fault: str, protection: str, failovers: int, server: str) -> Told:
    """Fail over so often; raises AssertionError where the surviving history is not exact."""
    ours, theirs = PROTECTIONS[protection]
    with tempfile.TemporaryDirectory(prefix="hf-f-") as room, watched(server, **theirs) as service:
        settings = Settings(
            redis_url=service.url,
            prefix="failover",
            flow_modules=("tests.support.example_flows.rings",),
            **ours,
        )  # type: ignore[arg-type]
        with Load(service, settings, Path(room) / "confirmed").running() as load:
            for _ in range(failovers):
                load.fail_over(FAULTS[fault])
            load.settle()
            inexact = load.inexact()
            assert not inexact, f"not exact on the surviving history: {inexact}"
            assert all(worker.process.poll() is None for worker in load.fleet), "a worker ended"
            return load.told


def row(fault: str, protection: str, told: Told) -> str:
    """Format one line of the table."""
    times = f"{statistics.median(told.recovery):.1f} ({max(told.recovery):.1f})"
    cells = (
        fault,
        protection,
        f"{told.elections} ({len(told.recovery)})",
        len(told.acknowledged),
        f"**{len(told.lost)}**",
        len(told.doubtful) + told.failed,
    )
    return f"| {' | '.join(map(str, (*cells, told.confirmed, told.undone, times)))} |"


def main() -> None:
    """Measure and print."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing stays behind
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--failovers", type=int, default=5, help="for each row")
    parser.add_argument("--server", choices=("valkey", "redis"), default="valkey")
    parser.add_argument("--fault", choices=tuple(FAULTS), action="append")
    parser.add_argument("--protection", choices=tuple(PROTECTIONS), action="append")
    said = parser.parse_args()
    print(HEAD, "|" + "---|" * HEAD.count(" |"), sep="\n", flush=True)
    for fault in said.fault or FAULTS:
        for protection in said.protection or PROTECTIONS:
            print(
                row(fault, protection, measured(fault, protection, said.failovers, said.server)),
                flush=True,
            )


if __name__ == "__main__":
    main()
