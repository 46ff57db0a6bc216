"""Comparison: the same workload on plain Celery, under the faults that kill, by the same seed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

from tests.soak.clients import ROUND_SECONDS
from tests.soak.cluster import Cluster, Place
from tests.soak.faults import Fault as Kind
from tests.soak.faults import cold_shutdown, kill_child, kill_server, kill_worker, warm_shutdown
from tests.soak.figures import of_recovery
from tests.soak.history import Effect, Fault
from tests.soak.nemesis import Nemesis
from tests.soak.plain_celery import BROKER, VISIBILITY_TIMEOUT
from tests.support.redis_servers import until

KILLS: dict[str, Sequence[Kind]] = {
    "workers": (kill_worker, kill_child, warm_shutdown, cold_shutdown),
    "ground": (kill_server,),
}
#: kombu looks for messages to restore about every 100 s; with nothing new for this long, nothing
#: will come any more.
STILL_SECONDS = 130.0


class PlainCluster(Cluster):
    """The same server and workers, without Perdure on them and without the proxy."""

    app = "tests.soak.plain_celery"

    @property
    def broker(self) -> str:
        return f"redis+socket://{self.server.socket}?virtual_host=0"

    def environment(self, place: Place) -> dict[str, str]:
        return {**super().environment(place), BROKER: self.broker}

    def ready(self) -> None:
        def waiting() -> int:
            with self.server.admin() as admin:
                return sum(client["cmd"] == "brpop" for client in admin.client_list())

        until(lambda: waiting() >= len(self.places), "plain workers that wait for messages", 60)


@dataclass(frozen=True)
class Plain:
    """The results."""

    seconds: float
    submitted: list[str]
    rounds: int
    effects: list[Effect]
    faults: list[Fault]
    fallen: list[str]

    def figures(self) -> dict[str, Any]:
        """Return the figures as JSON data."""
        left = Counter(
            (effect.run, effect.step) for effect in self.effects if effect.what == "left"
        )
        tried = Counter(
            (effect.run, effect.step) for effect in self.effects if effect.what == "tried"
        )
        return {
            "chaos_seconds": self.seconds,
            "visibility_timeout": VISIBILITY_TIMEOUT,
            "runs": len(self.submitted),
            "lost": sorted(run for run in self.submitted if not left[run, self.rounds - 1]),
            "rounds_ended": sum(left.values()),
            "rounds_doubled": sum(count > 1 for count in left.values()),
            "tried": sum(tried.values()),
            "faults": dict(Counter(fault.kind for fault in self.faults if fault.fired)),
            "recovery": of_recovery(self.faults, self.effects, ()),
            "fallen": len(self.fallen),
        }


def compare(
    seed: int,
    seconds: float,
    runs: int,
    rounds: int,
    kinds: dict[str, Sequence[Kind]] | None = None,
) -> Plain:
    """Cause chaos for these seconds, then wait until all runs have ended or none moves any more."""
    chance = random.Random(f"{seed} plain")
    with PlainCluster() as cluster, ExitStack() as ending:
        nemesis = Nemesis(cluster, KILLS if kinds is None else kinds, seed, seconds)
        ending.callback(nemesis.abort)
        nemesis.start()
        began = time.monotonic()
        names = [f"goal-{number}" for number in range(runs)]
        with Celery("client", broker=cluster.broker, set_as_current=False) as client:
            for number, name in enumerate(names):
                time.sleep(max(0.0, began + 0.95 * seconds * number / runs - time.monotonic()))
                _submit(client, name, rounds, chance.uniform(*ROUND_SECONDS))
            faults = nemesis.finish()
            effects = _settled(cluster, names, rounds)
        return Plain(seconds, names, rounds, effects, faults, cluster.fallen)


def _submit(client: Celery, name: str, rounds: int, seconds: float) -> None:
    for _ in range(100):
        with suppress(OperationalError):
            client.send_task("plain.round", (name, 0, rounds, round(seconds, 3)))
            return
        time.sleep(0.2)
    raise AssertionError(f"plain Celery could not submit {name}")


def _settled(cluster: Cluster, names: list[str], rounds: int) -> list[Effect]:
    seen, since = -1, time.monotonic()
    while True:
        cluster.mind_the_fallen()
        effects = cluster.ledger.effects()
        ended = {
            effect.run for effect in effects if effect.what == "left" and effect.step == rounds - 1
        }
        if len(effects) != seen:
            seen, since = len(effects), time.monotonic()
        still = time.monotonic() - since
        # All have ended once; doubled messages may still be under way, so a little longer.
        if still > (STILL_SECONDS if ended < set(names) else VISIBILITY_TIMEOUT):
            return effects
        time.sleep(1.0)
