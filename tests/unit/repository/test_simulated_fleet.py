"""The simulated fleet obeys the laws of queues."""

from __future__ import annotations

import random

import pytest

from benchmarks.simulated import Fleet, Server, simulate, upkeep, varied

pytestmark = pytest.mark.slow  # no run depends on it

NEVER = 1e9
ROUND = 250e-6


def exponential(chance: random.Random, mean: float) -> float:
    """Draw the gap between arrivals at random times."""
    return chance.expovariate(1 / mean)


def crowd(rate: float) -> Fleet:
    """Make a fleet of many runs with rare rounds: together they arrive as at random (Poisson)."""
    return Fleet(
        10_000,
        1,
        10_000 / rate,
        exponential,
        own=0.0001 * ROUND,
        beat_every=NEVER,
        sweep_every=NEVER,
    )


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_commits_at_random_wait_as_long_as_the_law_of_m_d_1_says(load: float) -> None:
    outcome = simulate(crowd(load / ROUND), Server(ROUND), 8)
    assert outcome.busy == pytest.approx(load, rel=0.03)
    assert outcome.wait == pytest.approx(load * ROUND / (2 * (1 - load)), rel=0.1)


@pytest.mark.parametrize("latency", [0.05, 0.5])
def test_the_slots_are_what_is_waited_served_and_played_at_that_rate(latency: float) -> None:
    """Little's law, on both sides of the server's limit."""
    fleet = Fleet(100, 10, latency, beat_every=NEVER, sweep_every=NEVER, own=20e-6)
    outcome = simulate(fleet, Server(ROUND), 4)
    assert outcome.rate * (outcome.wait + ROUND + latency + fleet.own) == pytest.approx(
        fleet.workers * fleet.slots, rel=0.05
    )


def test_no_more_rounds_come_out_than_one_core_carries() -> None:
    outcome = simulate(
        Fleet(100, 10, 0.0, own=1e-6, beat_every=NEVER, sweep_every=NEVER), Server(ROUND), 2
    )
    assert outcome.rate == pytest.approx(1 / ROUND, rel=0.01) and outcome.busy == pytest.approx(
        1.0, rel=0.01
    )


def test_no_more_rounds_come_out_than_the_workers_own_cores_play() -> None:
    outcome = simulate(
        Fleet(2, 10, 0.0, own=2e-3, beat_every=NEVER, sweep_every=NEVER), Server(ROUND), 4
    )
    assert (
        outcome.rate == pytest.approx(2 / 2e-3, rel=0.02) == pytest.approx(outcome.ideal, rel=0.02)
    )


def test_the_upkeep_is_what_beats_sweeps_and_announcements_take() -> None:
    fleet, server = Fleet(500, 10, 100.0), Server(idle=0.0)
    assert simulate(fleet, server, 20).upkeep == pytest.approx(
        upkeep(fleet, server, fleet.slots), rel=0.05
    )


def test_the_latency_that_is_drawn_has_the_mean_that_is_asked_for() -> None:
    chance = random.Random(1)
    assert (
        sum(varied(chance, 2.0) for _ in range(20_000)) / 20_000 == pytest.approx(2.0, rel=0.03)
        and varied(chance, 0.0) == 0.0
    )
