"""A Celery signature is called when a run has ended, however it ends and whichever process dies
meanwhile; chains and chords follow from there.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import closing
from typing import Any

import pytest
from celery import signature

from perdure import AsyncClient, Client, Conflict, InvalidInput
from perdure.worker.app import engine_of, make_app
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support.end_calls import calls, real, settings, to

__all__ = ["calls", "real", "settings"]


def test_a_call_that_names_no_queue_is_told_by_a_worker_that_knows_none_and_stays_due(
    client: Client, settings: Settings, real: Store, caplog: pytest.LogCaptureFixture
) -> None:
    run = client.submit("ledger", "g", {"rounds": 1}, on_end=signature("somebodys.task"))
    client.request_stop(run.id)
    engine = engine_of(make_app(settings))
    with closing(engine), caplog.at_level(logging.ERROR, "perdure.calls"):
        engine.callbacks.make(run.id, 0)
    assert "names no queue" in caplog.text and run.id in caplog.text
    assert real.redis.zrange(real.keys.endings, 0, -1) == [f"{run.id} 0"]


@pytest.mark.parametrize(
    "wrong",
    [
        "no json",
        "[]",
        {},
        {"task": ""},
        {"task": "t", "args": [object()]},
        {"task": "t", "args": ["a" * 20_000]},
        7,
    ],
)
def test_what_is_no_signature_is_refused_and_nothing_is_stored(
    client: Client, real: Store, wrong: Any
) -> None:
    with pytest.raises(InvalidInput, match="on_end"):
        client.submit("ledger", "g", {"rounds": 1}, on_end=wrong)
    assert not real.redis.keys(f"{real.keys.prefix}:run:*")


def test_who_is_called_is_part_of_what_was_submitted(client: Client, calls: str) -> None:
    first = client.submit("ledger", "g", {"rounds": 1}, idempotency_key="k", on_end=to(calls, 1))
    assert (
        client.submit(
            "ledger", "g", {"rounds": 1}, idempotency_key="k", on_end=json.dumps(to(calls, 1))
        ).id
        == first.id
    )
    for other in (None, to(calls, 2)):
        with pytest.raises(Conflict):
            client.submit("ledger", "g", {"rounds": 1}, idempotency_key="k", on_end=other)


def test_an_async_client_takes_it(settings: Settings, calls: str, real: Store) -> None:
    async def stopped() -> str:
        client = AsyncClient(settings=settings)
        try:
            run = await client.submit("ledger", "g", {"rounds": 1}, on_end=to(calls))
            await client.request_stop(run.id)
            return run.id
        finally:
            await client.close()

    run_id = asyncio.run(stopped())
    assert real.redis.zrange(real.keys.endings, 0, -1) == [f"{run_id} 0"]
