"""A run whose keys were damaged by hand: ``why`` names the damage, and a run that can never go on
can be removed, with all its keys.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure import (
    Client,
    DamagedRun,
    InvalidTransition,
    Retry,
    RunNotFound,
    StepFailed,
    Steps,
    VerdictCode,
    workflow,
)
from perdure.worker.store.keys import Keys
from tests.support.cases import EachCase, cases_of
from tests.support.damaged_runs import Damage, kept, keys, overwritten
from tests.support.leftover_keys import keys_under
from tests.support.round_driver import Driver

__all__ = ["keys"]


def without(field: str) -> Damage:
    return lambda there, keys: there.hdel(keys.run("hurt"), field)


def garbled(field: str) -> Damage:
    return lambda there, keys: there.hset(keys.run("hurt"), field, "many")


#: The damage to the run, and the words that ``why`` must name.
DAMAGES: dict[str, tuple[Damage, str]] = {
    **{
        f"no {field}": (without(field), field)
        for field in (
            "epoch",
            "token",
            "id",
            "message",
            "queue",
            "retention",
            "phase",
            "current_node",
        )
    },
    **{
        f"garbled {field}": (garbled(field), field)
        for field in ("step", "attempt", "phase", "lease_until", "deadline")
    },
    **{f"another {name}": (overwritten(name), "hurt") for name in ("run", "memory", "events")},
    "no hash but a history": (lambda there, keys: there.delete(keys.run("hurt")), ""),
    "neither idem nor step": (
        lambda there, keys: there.hdel(keys.run("hurt"), "idem", "step"),
        "step",
    ),
}


def test_a_damaged_run_is_named_and_can_be_removed_with_all_its_keys(
    client: Client, keys: Keys, each_case: EachCase
) -> None:
    there = client._store.redis

    def all_kept() -> tuple[Any, ...]:
        live, due = (there.zrange(key, 0, -1) for key in (keys.index("live"), keys.due))
        return kept(client, keys), live, due

    def check(case: str, phase: str) -> None:
        if left := keys_under(there, keys.prefix):
            there.delete(*left)
        client.submit("countdown", "x", run_id="sound", idempotency_key="other")
        before = all_kept()
        options: dict[str, Any] = (
            {"interrupt_before": ["Controller"]} if phase == "interrupted" else {}
        )
        client.submit("countdown", "x", run_id="hurt", idempotency_key="mine", **options)
        damage, named = DAMAGES[case]
        damage(there, keys)
        if named:
            verdict = client.why("hurt")
            assert (
                verdict.code is VerdictCode.QUARANTINED
                and named in verdict.sentence
                and "perdure delete hurt" in verdict.sentence
            )
            with pytest.raises(DamagedRun, match="perdure why hurt"):
                client.request_stop("hurt")
        client.delete("hurt")
        assert all_kept() == before
        assert client.submit("countdown", "y", run_id="hurt", idempotency_key="mine").goal == "y"
        assert client.get("sound").goal == "x"
        with pytest.raises(RunNotFound):
            client.delete("nobody")

    each_case(cases_of(DAMAGES, ["queued", "interrupted"]), check)


@pytest.mark.parametrize("damage", ["goal", "status"])
def test_a_run_that_a_worker_could_still_claim_is_stopped_before_it_is_removed(
    client: Client, keys: Keys, damage: str
) -> None:
    client.submit("countdown", "x", run_id="hurt")
    client._store.redis.hset(keys.run("hurt"), damage, "another one")
    with pytest.raises(InvalidTransition, match="hurt is queued; stop it"):
        client.delete("hurt")
    verdict = client.why("hurt")
    assert (
        verdict.code is VerdictCode.QUARANTINED
        and "perdure stop hurt and perdure delete hurt" in verdict.sentence
    )
    assert client.request_stop("hurt").stopped
    client.delete("hurt")
    assert kept(client, keys) == []


def test_a_key_that_all_runs_share_is_no_reason_to_remove_one(client: Client, keys: Keys) -> None:
    client.submit("countdown", "x", run_id="hurt")
    client._store.redis.delete(keys.due)
    client._store.redis.set(keys.due, "not what it was")
    before = kept(client, keys)
    with pytest.raises(DamagedRun):
        client.delete("hurt")
    assert kept(client, keys) == before
    verdict = client.why("hurt")
    assert verdict.code is VerdictCode.QUARANTINED and keys.due in verdict.sentence


def test_an_idempotency_key_that_is_another_runs_by_now_stays_with_it(
    client: Client, keys: Keys
) -> None:
    client.submit("countdown", "x", run_id="first", idempotency_key="k")
    client.request_stop("first")
    client._store.redis.delete(keys.idempotency("k"))
    client.submit("countdown", "x", run_id="second", idempotency_key="k")
    client.delete("first")
    assert client.submit("countdown", "x", idempotency_key="k").id == "second"


#: The client with which the steps below read other runs.
READERS: list[Client] = []


def status_of(run_id: str) -> str:
    return READERS[0].get(run_id).status.value


@workflow("reads_a_run", retry=Retry(max_attempts=2, initial=0.01))
def reads_a_run(steps: Steps, run_id: str) -> str:
    """Reads another run in a step."""
    try:
        return str(steps.step(status_of, run_id, idempotent=True))
    except StepFailed:
        return "it cannot be read"


def test_a_run_that_reads_a_damaged_run_is_not_damaged_itself(
    client: Client, keys: Keys, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "READERS", [client])
    client.submit("countdown", "x", run_id="hurt")
    client.request_stop("hurt")
    client._store.redis.hset(keys.run("hurt"), "step", "many")
    reader = client.submit("reads_a_run", inputs={"run_id": "hurt"})
    assert driver.play_to_rest(reader.id).answer == "it cannot be read"
