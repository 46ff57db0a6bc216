"""The commit log of a run, for tests that look for lost, repeated or late rounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perdure import Client
from perdure.worker.domain.event import Event

#: V1: a running run moves within a lease and two sweeps (4 + 2 x 0.5 s), beside its round.
V1 = 5.0


@dataclass(frozen=True)
class Gap:
    """The time between two commits of a run, in seconds since 1970, and its faults."""

    run_id: str
    step: int
    start: float
    end: float
    losses: int


def commits(client: Client, run_id: str) -> list[int]:
    """Return the steps of the commit log, in order."""
    return [
        event.step for event in client.events(run_id, follow=False) if event.type == "committed"
    ]


def exact(client: Client, run_id: str, rounds: int) -> bool:
    """Return whether the run is completed, its log is 0..rounds-1 in order, and its state agrees
    with the log.
    """
    run = client.get(run_id)
    return run.answer == list(range(rounds)) == commits(client, run_id) and run.state.step == rounds


def gaps(run_id: str, events: Iterable[Event]) -> list[Gap]:
    """Return the gaps between the submission and each commit."""
    found, since, losses = [], 0.0, 0
    for event in events:
        at = event.at.timestamp()
        if event.type == "submitted":
            since = at
        elif event.type == "lost":
            losses += 1
        elif event.type == "committed":
            found.append(Gap(run_id, event.step, since, at, losses))
            since, losses = at, 0
    return found


def allowed(
    gap: Gap,
    round_seconds: float,
    thrown: int,
    kills: Iterable[tuple[float, float]],
    outages: Iterable[tuple[float, float]],
) -> float:
    """Compute the time that V1 allows for the gap.

    Once for each fault that hit it (a message thrown away, a kill), the backoff after repeated
    losses, and twice the time without a worker: a run that stood in line is looked at again after
    as long as it has waited.
    """
    faults = max(1, thrown + sum(gap.start <= end and begin <= gap.end for begin, end in kills))
    backoff = sum(min(1.0 * 2 ** (loss - 2), 30.0) * 1.5 for loss in range(2, gap.losses + 1))
    down = sum(max(0.0, min(gap.end, end) - max(gap.start, start)) for start, end in outages)
    return faults * (V1 + round_seconds) + backoff + 2 * down
