"""Trials of trees whose messages go over another server: families, signals, stops, and a join whose
broker is killed.
"""

from __future__ import annotations

from functools import partial

from tests.support.brokers import settled
from tests.support.redis_servers import until
from tests.trials.ground import place
from tests.trials.mail import signals
from tests.trials.trees import LONG, families, stops
from tests.trials.trial import Figures

families_over_rabbit = partial(families, handover="rabbit")
families_over_redis = partial(families, handover="redis")
signals_over_rabbit = partial(signals, handover="rabbit")
signals_over_redis = partial(signals, handover="redis")
stops_over_rabbit = partial(stops, handover="rabbit")


def join_over_rabbit(size: int) -> Figures:
    """Kill the broker in the middle of a map, and start it again on its data."""
    with place("rabbit") as ground, ground.workers(2):
        assert ground.broker is not None
        inputs = {"items": size, "at_once": 50, "child": {"seconds": 0.02}}
        run = ground.client.submit("trial_map", "g", inputs=inputs)
        until(lambda: ground.count("completed") >= size // 3, "a third of the children", LONG)
        settled(ground.broker, ground.settings)
        ground.broker.kill()
        done = ground.count("completed")
        ground.broker.start()
        answer = ground.client.wait(run.id, LONG).answer
        children = len(ground.children(run))
    text = f"broker killed when {done:,} of {size:,} children had ended: {children:,} children, answer {answer:,}"
    return Figures(text, answer == size == children and done < size)
