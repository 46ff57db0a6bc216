"""Traces that a review of the engine found, each kept from coming back."""

from __future__ import annotations

import os

import pytest

from perdure import (
    Client,
    InvalidInput,
    InvalidSettings,
    InvalidTransition,
    RoundContext,
    UnstorableValue,
)
from perdure.worker.settings import load_settings
from perdure.worker.urls import place_of


def test_a_progress_that_is_no_json_is_refused_where_it_is_made() -> None:
    context = RoundContext("g")
    for bad in (float("nan"), {("a", "b"): 3}):
        with pytest.raises(UnstorableValue):
            context.progress(bad)  # type: ignore[arg-type]
    context.progress(1, 2, "x" * 10_000)
    assert context.signals.progress is not None and len(context.signals.progress["text"]) <= 200


def test_a_retry_that_must_wait_says_what_it_did(client: Client) -> None:
    run = client.submit("countdown", "g", {"rounds": 1}, not_before=3600)
    client._store.redis.hset(
        client._store.keys.run(run.id),
        mapping={"phase": "errored", "status": "error", "error": "x"},
    )
    assert client.retry(run.id).phase == "waiting"


def test_an_answer_that_nobody_asked_for_is_refused(client: Client) -> None:
    run = client.submit("countdown", "g", {"rounds": 1})
    client.request_stop(run.id)
    with pytest.raises(InvalidTransition, match="asks nothing"):
        client.resume(run.id, answer="yes")


def test_one_damaged_run_keeps_no_other_from_being_stopped(client: Client) -> None:
    for run_id in ("aa", "bb", "cc"):
        client.submit("countdown", "g", {"rounds": 1}, run_id=run_id)
    client._store.redis.hset(client._store.keys.run("bb"), "number", "x")
    receipts = {
        receipt.run_id: receipt.stopped for receipt in client.request_stop_many(flow="countdown")
    }
    assert receipts == {"aa": True, "bb": False, "cc": True}


@pytest.mark.parametrize("run_id", ["a:memory", "a:events", "a:artifacts"])
def test_an_id_that_would_be_another_runs_key_is_refused(client: Client, run_id: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be a run id"):
        client.submit("countdown", "g", {"rounds": 1}, run_id=run_id)


def test_far_times_and_huge_labels_are_refused(client: Client) -> None:
    with pytest.raises(InvalidInput, match="days ahead"):
        client.submit("countdown", "g", {"rounds": 1}, not_before=1e18)
    with pytest.raises(InvalidInput, match="labels and thread id"):
        client.submit("countdown", "g", {"rounds": 1}, labels={"a": "x" * 20_000})
    with pytest.raises(InvalidInput, match="limit"):
        client.runs(limit=0)


def test_no_password_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place_of("redis://u:hunter2@localhost:1/0?password=hunter2") == "redis://localhost:1/0"
    assert place_of("unix:///s.sock?db=1&password=hunter2") == "unix:///s.sock?db=1"
    monkeypatch.setenv("PERDURE_REDIS_URL", "redis://u:hunter2@localhost")
    monkeypatch.setenv("PERDURE_LEASE_SECONDS", "1")
    with pytest.raises(InvalidSettings) as caught:
        load_settings()
    assert "hunter2" not in str(caught.value) and "lease_seconds" in str(caught.value)
    assert "PERDURE_REDIS_URL" in os.environ
