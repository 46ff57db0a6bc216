"""A submission or answer beyond its bounds changes nothing on the server."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Client
from perdure.flows.core.errors import InvalidInput, UnstorableValue
from tests.support.deep_values import deep


@pytest.mark.parametrize(
    "what", ["inputs nested", "inputs large", "goal", "labels", "idempotency key", "run id"]
)
def test_a_submission_beyond_its_bounds_stores_nothing(client: Client, what: str) -> None:
    bounds = client.settings
    given: dict[str, dict[str, Any]] = {
        "inputs nested": {"inputs": {"rounds": deep()}},
        "inputs large": {
            "inputs": {"rounds": 1, "seconds": 0, "text": "x" * (bounds.max_addition_bytes + 1)}
        },
        "goal": {"goal": "ä" * (bounds.max_goal_bytes // 2 + 1)},
        "labels": {"labels": {"a": "x" * 20_000}},
        "idempotency key": {"idempotency_key": "x" * 1025},
        "run id": {"run_id": "x" * 201},
    }
    with pytest.raises((InvalidInput, UnstorableValue)):
        client.submit("question", **{"goal": "g", **given[what]})
    assert client.runs().runs == []


def test_an_answer_or_a_reason_beyond_its_bounds_changes_nothing(client: Client) -> None:
    run = client.submit("question", "g", interrupt_before=["Controller"])
    record = client.get(run.id)
    with pytest.raises(UnstorableValue, match="levels deep"):
        client.resume(run.id, deep())
    with pytest.raises(InvalidInput, match=r"the answer takes .* bytes; the limit is 262144"):
        client.resume(run.id, "x" * 262_143)
    with pytest.raises(InvalidInput, match="bytes; the limit is 16384"):
        client.request_stop(run.id, reason="x" * 16_385)
    assert client.get(run.id) == record
