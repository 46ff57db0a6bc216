"""Notifications, over real workers and a receiver that verifies each signature with a library of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure import Client
from perdure.worker.settings import Settings
from tests.support.servers import CrashableServer, until
from tests.support.webhook_receiver import SECRET, Receiver, listening, rules
from tests.support.workers import workers


@pytest.fixture
def settings(server: CrashableServer, prefix: str) -> Settings:
    return Settings(
        redis_url=server.url,
        prefix=prefix,
        flow_modules=(
            "tests.support.example_flows.rings",
            "tests.support.example_flows.thinking",
        ),
    )


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening(Receiver()) as made:
        yield made


def variables(receiver: Receiver, **more: object) -> dict[str, str]:
    """The environment of workers that send to the receiver."""
    return {
        "PERDURE_NOTIFY": rules(receiver, **more),
        "PERDURE_PRIVATE_WEBHOOKS": "true",
        "PERDURE_PUBLIC_URL": "https://runs.example.org/",
        "PERDURE_FLOW_MODULES": (
            "tests.support.example_flows.rings,tests.support.example_flows.thinking"
        ),
        "OPS_WEBHOOK_SECRET": SECRET,
    }


def test_an_end_is_sent_as_a_signed_webhook(
    client: Client, settings: Settings, receiver: Receiver
) -> None:
    with workers(1, settings, **variables(receiver)):
        until(
            lambda: client._store.redis.exists(client._store.keys.notifications("looked")) == 1,
            "a look",
        )
        run = client.submit("ledger", "g", {"rounds": 2}, labels={"team": "a"}, run_id="done")
        until(lambda: len(receiver.accepted) == 1, "the webhook")
        [(_, body)] = receiver.accepted
        assert body["type"] == "run.completed"
        assert body["data"] == {
            "run_id": run.id, "flow": "ledger", "goal": "g", "status": "completed", "finished": True,
            "labels": {"team": "a"}, "submitted_by": None, "epoch": 0, "error": None, "in_doubt": None,
            "question": None, "link": "https://runs.example.org/runs/done",
        }  # fmt: skip
    assert receiver.forged == 0
