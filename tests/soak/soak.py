"""One soak from beginning to end: chaos for a time, then quiet, then the sums."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from perdure import Client
from tests.soak.checker import Verdict, check
from tests.soak.clients import Clients, go_on
from tests.soak.cluster import Cluster
from tests.soak.collect import Traffic, collect, left, traffic
from tests.soak.drift import Drift, Watch
from tests.soak.faults import GROUND, WORKERS, Fault, clock_jump
from tests.soak.history import History
from tests.soak.nemesis import Nemesis

#: 200 runs of 20 rounds in three minutes: the capacity of four workers under chaos that leaves them
#: half of the time.
RUNS_PER_SECOND = 200 / 180
QUIET_LOOKS_EVERY = 0.5
#: The number of runs for which there is one family more.
RUNS_PER_FAMILY = 5


@dataclass(frozen=True)
class Plan:
    """The order for a soak.

    Attributes:
        chaos: seconds of faults and submissions. quiet: seconds after them in which every run must
            complete.
        kinds: the faults, by group; see tests/soak/faults.py.
    """

    seed: int
    chaos: float = 600.0
    quiet: float = 60.0
    runs: int = 0
    rounds: int = 20
    kinds: dict[str, Sequence[Fault]] = field(
        default_factory=lambda: {"workers": WORKERS, "ground": GROUND}
    )

    @property
    def submitted(self) -> int:
        return self.runs or max(1, round(self.chaos * RUNS_PER_SECOND))

    @property
    def families(self) -> int:
        return max(1, self.submitted // RUNS_PER_FAMILY)


@dataclass(frozen=True)
class Outcome:
    """The results.

    Attributes:
        settled: seconds of quiet until all runs had completed and nothing was left to do.
        unfinished: runs that never completed.
        fallen: workers that ended by themselves.
        refusals: how often a worker refused to start, because the server's clock was wrong; a
            supervisor starts it again.
        missing: kinds of fault that this machine cannot have.
    """

    plan: Plan
    history: History
    traffic: Traffic
    drift: list[Drift]
    fallen: list[str]
    refusals: int
    unfinished: list[str]
    settled: float
    missing: list[str]
    verdict: Verdict

    @property
    def well(self) -> bool:
        """Whether nothing is wrong: no law broken, every fault fired, every run completed, every
        worker lived until it was ended.
        """
        return self.verdict.valid and not self.unfinished and not self.fallen


def soak(plan: Plan) -> Outcome:
    """Run it; raises where the laboratory itself breaks."""
    with Cluster() as cluster, ExitStack() as ending:
        missing = [] if cluster.server.has_clock else [clock_jump.__name__]
        kinds = {
            lane: [kind for kind in each if kind.__name__ not in missing]
            for lane, each in plan.kinds.items()
        }
        nemesis = Nemesis(cluster, kinds, plan.seed, plan.chaos)
        clients = Clients(
            cluster, plan.seed, plan.submitted, plan.rounds, plan.families, plan.chaos * 0.95
        )
        watch = Watch(cluster)
        for ends in (clients.abort, nemesis.abort, watch.stop):
            ending.callback(
                ends
            )  # after any error here, no thread starts a worker or calls the server later
        watch.start()
        clients.start()
        nemesis.start()
        faults = nemesis.finish()
        clients.submitted()
        clients.stop()
        client = Client(settings=cluster.settings(proxied=False))
        try:
            began = time.monotonic()
            unfinished = list(dict.fromkeys(clients.notebook.runs))
            while (unfinished or any(left(client).values())) and (
                time.monotonic() < began + plan.quiet
            ):
                cluster.mind_the_fallen()
                unfinished = [
                    run_id for run_id in unfinished if not go_on(clients.notebook, client, run_id)
                ]
                time.sleep(QUIET_LOOKS_EVERY)
            settled = time.monotonic() - began
            drift = watch.stop()
            cluster.still()
            history = collect(cluster, client, clients.notebook, faults, nemesis.asked, plan.rounds)
            return Outcome(
                plan=plan,
                history=history,
                traffic=traffic(cluster, client, history),
                drift=drift,
                fallen=cluster.fallen,
                refusals=cluster.refusals,
                unfinished=unfinished,
                settled=settled,
                missing=missing,
                verdict=check(history),
            )
        finally:
            client.close()
