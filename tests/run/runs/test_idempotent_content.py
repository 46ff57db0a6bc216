"""Two submissions under one idempotency key are the same by the callers' arguments alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from perdure import Client, Conflict

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
