"""An id that a caller chooses may have been that of a deleted run. The new run is another one."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Client, Settings
from tests.support.example_flows import rings  # noqa: F401 -- registers flows
from tests.support.runs import hash_of
from tests.support.runs_in_every_status import play

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.rings",))


def key_before_and_after_the_answer(
    client: Client, settings: Settings, **options: Any
) -> tuple[str, str]:
    """Play a run that asks for its key; return its id and its key, unchanged by the answer."""
    run = client.submit("asker", "x", **options)
    play(settings, run.id)
    [waiting] = client.inbox()
    asked: str = waiting.data["key"]
    client.resume(run.id, 1)
    play(settings, run.id)
    assert client.get(run.id).answer["key"] == asked
    return run.id, asked


def test_a_deleted_runs_id_submitted_again_has_other_idempotency_keys(
    client: Client, settings: Settings
) -> None:
    keys = set()
    for _ in range(2):
        run_id, key = key_before_and_after_the_answer(client, settings, run_id="order-1")
        assert key.startswith("order-1:")
        keys.add(key)
        client.delete(run_id)
    assert len(keys) == 2


def test_a_submission_that_is_sent_again_after_the_deletion_has_the_same_keys(
    client: Client, settings: Settings
) -> None:
    keys = set()
    for _ in range(2):
        options = {"run_id": "order-1", "nonce": "a1b2c3d4e5f6a7b8"}
        run_id, key = key_before_and_after_the_answer(client, settings, **options)
        keys.add(key)
        client.delete(run_id)
    assert len(keys) == 1


def test_the_keys_of_other_runs_are_as_they_were(client: Client, settings: Settings) -> None:
    run_id, key = key_before_and_after_the_answer(client, settings)
    assert key.split(":")[:-1] == [run_id, "0"] and "key_salt" not in hash_of(client._store, run_id)


def test_a_run_of_an_earlier_version_keeps_its_keys(client: Client, settings: Settings) -> None:
    run = client.submit("asker", "x", run_id="order-1")
    store = client._store
    store.redis.hdel(store.keys.run(run.id), "key_salt")
    play(settings, run.id)
    [waiting] = client.inbox()
    assert waiting.data["key"].split(":")[:-1] == ["order-1", "0"]
