"""The fast path of one message: the facts that it takes along to the next one.

With a real store: tests/e2e/test_lanes.py, test_staying.py.
"""

from __future__ import annotations

import math

from perdure.worker.store import Claim, Prefetched
from tests.support.fast_rounds import fast_rounds_without_server


def claim(carried_over: bool) -> Claim:
    return Claim("1", 1, 0, 0, 0, {"id": "r"}, [], "claim", carried_over)


def test_a_run_that_keeps_its_worker_keeps_its_time_slice() -> None:
    rounds = fast_rounds_without_server()
    handoff = rounds.handoff(until=math.inf)
    rounds.keep(handoff, Prefetched("c", "", claim(carried_over=True)))
    following = handoff.take_prefetched()
    assert following is not None and following[1].until == math.inf
    assert following[1].since == handoff.since and handoff.take_prefetched() is None


def test_another_run_has_a_time_slice_of_its_own() -> None:
    rounds = fast_rounds_without_server()
    handoff = rounds.handoff(until=math.inf)
    rounds.keep(handoff, Prefetched("c", "text", claim(carried_over=False)))
    following = handoff.take_prefetched()
    assert following is not None and following[1].until < math.inf


def test_nothing_is_prefetched_in_a_drain() -> None:
    rounds = fast_rounds_without_server()
    rounds.prefetcher.begin(["c"], 1, inline=False)
    assert rounds.prefetch_request() is not None
    rounds.drain.begin()
    assert rounds.prefetch_request() is None


def test_messages_of_a_round_name_its_task_as_their_sender() -> None:
    rounds = fast_rounds_without_server()
    assert rounds.handoff().sender() is None
    sender = rounds.handoff(task=("task", None)).sender()
    assert sender is not None and (sender.root, sender.parent) == ("task", "task")
    sender = rounds.handoff(task=("task", "root")).sender()
    assert sender is not None and (sender.root, sender.parent) == ("root", "task")
