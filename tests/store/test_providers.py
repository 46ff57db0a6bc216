"""ask_provider: of many rounds that wait for one provider, one request at a time probes it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from perdure import RetryableError, RoundContext
from perdure.worker.engine.provider_waits import ProviderWaits
from perdure.worker.store import Store
from tests.support.runs import advance, claim, fail_round, hash_of, messages, new_run, parts, sweep


def ask(store: Store, what: str, holder: str = "a", **named: int) -> tuple[str, int]:
    times = {
        "enter": {"lease": 30_000, "longest": 5_000},
        "refused": {"first": 1_000, "longest": 60_000},
    }.get(what, {})
    return store.rounds.ask_provider(what, "p", holder, **{**times, **named})


def test_a_provider_that_refused_nobody_is_open(store: Store) -> None:
    assert ask(store, "enter") == ("go", 0) and ask(store, "answered") == ("ok", 0)
    assert store.redis.hkeys(store.keys.queues) == []


def test_one_round_probes_and_the_others_wait_until_its_probe_has_been_answered(
    store: Store,
) -> None:
    assert ask(store, "refused") == ("wait", 1_000)
    assert ask(store, "refused", "b") == ("wait", 1_000), (
        "a refusal of a request that was under way moves nothing"
    )
    assert ask(store, "enter", "b") == ("wait", 1_000)
    advance(store, 1_000)
    assert [ask(store, "enter", "b") for _ in range(2)] == [("probe", 0)] * 2, (
        "asked again after a lost reply"
    )
    assert ask(store, "enter", "a") == ("wait", 5_000)
    assert ask(store, "answered", "a") == ("ok", 0) and ask(store, "enter", "c")[0] == "wait", (
        "only the probe opens it"
    )
    assert ask(store, "answered", "b") == ("ok", 0)
    assert ask(store, "enter", "a") == ("go", 0)


def test_the_waits_between_probes_double_to_the_longest_or_are_the_providers(store: Store) -> None:
    waits = [ask(store, "refused")[1]]
    for _ in range(7):
        advance(store, waits[-1])
        assert ask(store, "enter") == ("probe", 0)
        waits.append(ask(store, "refused")[1])
        assert ask(store, "refused")[1] == waits[-1], "told again after a lost reply"
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    advance(store, 60_000)
    ask(store, "enter")
    assert ask(store, "refused", wait=7_000) == ("wait", 7_000)


def test_a_probe_whose_worker_died_is_followed_by_another(store: Store) -> None:
    ask(store, "refused")
    advance(store, 1_000)
    assert ask(store, "enter", "dies") == ("probe", 0)
    advance(store, 29_999)
    assert ask(store, "enter", "b") == ("wait", 1)
    advance(store, 1)
    assert ask(store, "enter", "b") == ("probe", 0)
    assert ask(store, "answered", "dies") == ("ok", 0) and ask(store, "enter", "c")[0] == "wait"


def test_a_probe_that_came_to_something_else_is_followed_by_another_at_once(store: Store) -> None:
    ask(store, "refused")
    advance(store, 1_000)
    ask(store, "enter", "a")
    assert ask(store, "left", "a") == ("ok", 0)
    assert ask(store, "enter", "b") == ("probe", 0)


def test_a_field_that_somebody_damaged_is_an_open_provider(store: Store) -> None:
    store.redis.hset(store.keys.queues, "provider:p", "what")
    assert ask(store, "enter") == ("go", 0)
    store.redis.delete(store.keys.queues)
    store.redis.set(store.keys.queues, "a text")
    assert ask(store, "enter")[0] == "damaged"


@dataclass
class Provider:
    """Answers from ``opens`` on; counts requests."""

    store: Store
    opens: int
    requests: list[int] = field(default_factory=list)

    def ask(self) -> None:
        self.requests.append(self.store.now or 0)
        if (self.store.now or 0) < self.opens:
            raise RetryableError("answers 429", counts=False)


@pytest.mark.parametrize(
    ("seconds", "most"), [(10, 120), pytest.param(600, 200, marks=pytest.mark.slow)]
)
def test_an_outage_ends_no_run_and_a_hundred_runs_make_few_requests(
    store: Store, seconds: int, most: int
) -> None:
    """The clock is advanced from one due time to the next; the rounds of four processes ask as a
    model's controller does.
    """
    runs = [f"r{number}" for number in range(100)]
    for run_id in runs:
        new_run(store, run_id)
    outage = (store.now or 0) + seconds * 1000
    provider = Provider(store, outage)
    processes = [ProviderWaits(store, random.Random(number)) for number in range(4)]
    done: set[str] = set()
    for _ in range(100_000):
        for text in [text for role in ("controller", "executor") for text in messages(store, role)]:
            run_id = parts(text)[0]
            granted = claim(store, run_id)
            context = RoundContext("g", run_id=run_id, attempt=granted.attempt)
            asks = processes[runs.index(run_id) % 4]
            try:
                asks.enter("p", context)
                try:
                    provider.ask()
                except RetryableError as error:
                    raise asks.failed("p", context, error) from None
                asks.answered("p", context)
            except RetryableError as error:
                wait = round(1000 * (error.retry_after or 0))
                assert fail_round(
                    store, granted, uncounted=1, delay=wait, within=86_400_000, max_failures=1
                ) == ("ok", "waiting")
            else:
                fail_round(store, granted, fatal=1)
                done.add(run_id)
        if len(done) == len(runs):
            break
        ((_, coming),) = store.redis.zrange(store.keys.due, 0, 0, withscores=True)
        advance(store, max(500, int(coming) - (store.now or 0)))
        sweep(store, batch=200)
    assert len(done) == 100 and all(hash_of(store, run_id)["failures"] == "1" for run_id in done), (
        "the end is the only failure"
    )
    in_outage = [at for at in provider.requests if at < outage]
    print(f"{len(in_outage)} requests in {seconds} s of outage")
    assert len(in_outage) < most and len(provider.requests) - len(in_outage) == 100
    assert (store.now or 0) - outage < 75_000, "all are let go soon after the provider is back"
