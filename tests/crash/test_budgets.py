"""Budgets hold through crashes and retries: a killed process's spending counts as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client
from perdure.worker.domain.run import Run
from perdure.worker.settings import Settings
from perdure.worker.store import Claim, Store
from tests.support.example_flows.paid_decisions import TOKENS, Account
from tests.support.in_process_runtime import runtime_of
from tests.support.named_crash_points import Player


@pytest.fixture
def player(settings: Settings) -> Iterator[Player]:
    made = Player(settings, "tests.support.example_flows.paid_decisions")
    yield made
    made.close()


def played_on(
    client: Client, store: Store, player: Player, run: Run, point: str = ""
) -> tuple[Run, int]:
    """Play until the run rests, with a new process for each that dies; the run then, and how many
    have died.
    """
    deaths = 0
    while True:
        process, killed = player.play(run.id, point)
        if not killed:
            return client.get(run.id), deaths
        deaths += 1
        now = client.get(run.id)
        assert store.rounds.release_dead_lease(
            run.id, epoch=int(now.details["epoch"]), step=now.state.step, process=process
        ) == ["ok"]
        assert store.fleet.sweep(lease=4000, max_losses=10, jitter=0.5).report == [
            (run.id, "freed")
        ]


@pytest.mark.slow
def test_a_budget_with_a_kill_in_every_second_request_is_exceeded_by_at_most_one(
    client: Client, player: Player, settings: Settings, tmp_path: Path
) -> None:
    store, account = (
        Store(str(settings.redis_url), settings.prefix),
        Account(str(tmp_path / "account")),
    )
    run = client.submit("payer", "100", {"account": str(account.path)}, budgets={"tokens": 10_000})
    after, deaths = played_on(client, store, player, run, "paid")
    assert deaths >= 4, "every second request killed its process"
    assert (after.status.value, after.state.interrupt_reason) == ("interrupted", "budget_exhausted")
    assert 10_000 - 2 * TOKENS < account.requests * TOKENS <= 10_000 + TOKENS
    assert after.details["spent"]["tokens"] >= account.requests * TOKENS, "no request is forgotten"

    # With a higher limit it goes on; the earlier spending still counts.
    paid = account.requests
    client.resume(run.id, add={"tokens": 3_000})
    again, _ = played_on(client, store, player, run, "paid")
    assert again.state.interrupt_reason == "budget_exhausted"
    assert 1 <= account.requests - paid <= 4
    store.close()


@pytest.mark.slow
def test_a_retried_request_is_paid_for_as_often_as_it_was_made(
    client: Client, player: Player, settings: Settings, tmp_path: Path
) -> None:
    store, account = (
        Store(str(settings.redis_url), settings.prefix),
        Account(str(tmp_path / "account")),
    )
    run = client.submit(
        "payer", "100", {"account": str(account.path), "fails": True}, budgets={"tokens": 10_000}
    )
    now = client.get(run.id)
    while now.status.value != "interrupted":
        now, _ = played_on(client, store, player, run)
        store.fleet.sweep(lease=4000, max_losses=10, jitter=0.5)
    assert now.state.interrupt_reason == "budget_exhausted"
    assert account.requests == 10
    assert now.details["spent"]["tokens"] == 10_000, "what is known is charged exactly"
    store.close()


@pytest.mark.slow
def test_at_the_soft_limit_the_run_knows_and_money_and_cycles_hold_as_well(
    client: Client, player: Player, settings: Settings, tmp_path: Path
) -> None:
    store = Store(str(settings.redis_url), settings.prefix)
    for name, limit, rounds in (
        ("tokens", 10_000, 10),
        ("money", 0.05, 5),
        ("cycles", 3, 3),
        ("commands.wait", 4, 4),
    ):
        account = Account(str(tmp_path / name))
        run = client.submit("payer", "100", {"account": str(account.path)}, budgets={name: limit})
        after, _ = played_on(client, store, player, run)
        assert (
            after.state.interrupt_data is not None and after.state.interrupt_data["budget"] == name
        )
        observed = [turn["observation"] for turn in client.transcript(run.id)["history"]]
        assert len(observed) == rounds, name
        if name == "tokens":
            assert observed == [False] * 7 + [True] * 3, "from 80 % on"
    store.close()


@pytest.mark.slow
def test_a_run_within_its_budget_ends_and_tells_what_it_cost(
    client: Client, player: Player, settings: Settings, tmp_path: Path
) -> None:
    store = Store(str(settings.redis_url), settings.prefix)
    run = client.submit(
        "payer",
        "3",
        {"account": str(tmp_path / "account")},
        budgets={"tokens": 10_000, "seconds": 600},
    )
    after, _ = played_on(client, store, player, run)
    assert (after.status.value, after.answer) == ("completed", 3)
    assert after.details["spent"] == {"tokens": 4_000, "money": 0.04}
    decided = [
        event.data
        for event in client.events(run.id, follow=False)
        if event.type == "committed" and event.node == "Controller"
    ]
    assert all(
        (data["model"], data["tokens"], data["money"]) == ("paid-1", 1_000, 0.01)
        for data in decided
    )
    store.close()


def test_a_fetched_round_that_is_not_begun_costs_nothing(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    """A worker that leaves returns the claim: the next attempt must not be charged for an attempt
    without a request.
    """
    account = Account(str(tmp_path / "account"))
    run = client.submit("payer", "3", {"account": str(account.path)}, budgets={"tokens": 10_000})
    store, rounds = client._store, runtime_of(client).rounds
    for _ in range(2):
        claim = store.rounds.claim(
            run.id,
            epoch=0,
            step=0,
            claim="fetched",
            owner="leaving",
            lease=4000,
            known=("payer",),
            schema="1",
        )
        assert isinstance(claim, Claim)
        rounds.release(claim)
        assert client.get(run.id).phase == "queued"
    rounds.run(run.id, 0, 0)
    after = client.get(run.id)
    assert (after.state.step, account.requests, after.details["spent"]["tokens"]) == (1, 1, TOKENS)
