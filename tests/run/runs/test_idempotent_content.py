"""Two submissions under one idempotency key or nonce are compared by the callers' arguments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from perdure import Client, Conflict, RunExists
from tests.support.cases import EachCase, cases_of

SOON = datetime.now(UTC) + timedelta(hours=1)


#: Options, and the same ones said again.
SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"not_before": timedelta(hours=1)}, {"not_before": 3600}),
    ({"deadline": 3600.0}, {"deadline": timedelta(seconds=3600)}),
    ({"deadline": SOON}, {"deadline": SOON.astimezone(timezone(timedelta(hours=5)))}),
    ({"deadline": SOON}, {"deadline": SOON.timestamp()}),
    ({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2", "a": "1"}}),
    ({"interrupt_before": ["Executor"]}, {"interrupt_before": ("Executor",)}),
    ({"inputs": None}, {"inputs": {}}),
    ({"inputs": {"a": (1, 2)}}, {"inputs": {"a": [1, 2]}}),
]
#: Calls that differ from a call without options.
OTHER: list[dict[str, Any]] = [
    {"not_before": 60},
    {"deadline": 60},
    {"deadline": SOON},
    {"not_before": SOON},
    {"max_rounds": 3},
    {"thread_id": "t"},
    {"labels": {"a": "1"}},
    {"interrupt_before": []},
    {"interrupt_after": ["Executor"]},
    {"inputs": {"a": 1}},
]


@pytest.mark.parametrize(("first", "again"), SAME)
def test_the_same_content_said_again_is_the_same_run(
    client: Client, first: dict[str, Any], again: dict[str, Any]
) -> None:
    run = client.submit("question", "x", idempotency_key="k", **first)
    assert client.submit("question", "x", idempotency_key="k", **first).id == run.id
    assert client.submit("question", "x", idempotency_key="k", **again).id == run.id


@pytest.mark.parametrize("option", OTHER)
def test_every_option_is_part_of_the_content(client: Client, option: dict[str, Any]) -> None:
    client.submit("question", "x", idempotency_key="k")
    with pytest.raises(Conflict):
        client.submit("question", "x", idempotency_key="k", **option)


#: A call with a nonce of the caller, and what a second call has instead of it.
CALL: dict[str, Any] = {
    "flow": "countdown", "goal": "g", "inputs": {"rounds": 3}, "run_id": "r", "nonce": "a1" * 8,
}  # fmt: skip
CHANGES: dict[str, dict[str, Any]] = {
    "flow": {"flow": "question"},
    "goal": {"goal": "h"},
    "inputs": {"inputs": {"rounds": 4}},
    "inputs or options": {"inputs": {}},
    "flow, goal": {"flow": "question", "goal": "h"},
}


def test_a_call_repeated_under_its_nonce_must_be_the_same_call(
    client: Client, each_case: EachCase
) -> None:
    client.submit(**CALL)
    assert client.submit(**CALL).id == "r"

    def check(differing: str) -> None:
        with pytest.raises(Conflict) as error:
            client.submit(**{**CALL, **CHANGES[differing]})
        assert error.value.run_id == "r" and f"({differing})" in str(error.value)

    each_case(cases_of(sorted(CHANGES)), check)
    with pytest.raises(Conflict):
        client.submit(**CALL, labels={"a": "1"})
    with pytest.raises(RunExists):
        client.submit(**CALL, labels={"a": "1"}, submitted_by="another")


def test_a_fork_repeated_under_its_nonce_must_be_the_same_fork(client: Client) -> None:
    run = client.submit("countdown", "g")
    options = {"run_id": "f", "nonce": "a1" * 8}
    assert client.fork(run, 0, **options).id == client.fork(run, 0, **options).id == "f"
    with pytest.raises(Conflict):
        client.fork(run, 0, goal="h", **options)


def test_a_run_of_an_earlier_release_is_the_same_whatever_is_submitted(client: Client) -> None:
    client.submit(**CALL)
    store = client._store
    store.redis.hdel(store.keys.run("r"), "submitted_as")
    assert client.submit(**{**CALL, "goal": "h"}).goal == "g"


def test_a_repeated_call_is_not_refused_because_it_is_late(client: Client) -> None:
    # The deadline comes nearer with each repetition, the start does not.
    times = {"not_before": timedelta(hours=1), "deadline": datetime.now(UTC) + timedelta(hours=2)}
    run = client.submit(**CALL, **times)
    times["deadline"] = datetime.now(UTC) + timedelta(minutes=30)
    with pytest.raises(Conflict):  # and not InvalidInput
        client.submit(**CALL, **times)
    assert client.get(run.id).goal == "g"
