"""Celery tasks that the end of a run calls, and the queue in which they wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from celery import signature

from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support.redis_servers import CrashableServer


@pytest.fixture
def settings(server: CrashableServer, prefix: str) -> Settings:
    return Settings(
        redis_url=server.url,
        prefix=prefix,
        flow_modules=("tests.support.example_flows.rings", "tests.support.named_crash_points"),
    )


@pytest.fixture
def calls(prefix: str) -> str:
    """A user's queue, without a worker in these tests."""
    return f"{prefix}.calls"


@pytest.fixture
def real(settings: Settings) -> Iterator[Store]:
    """A store with the server's own clock."""
    with closing(Store(str(settings.redis_url), settings.prefix)) as made:
        yield made


def to(queue: str, *args: Any, **options: Any) -> Any:
    return signature("somebodys.task", args=args, options={"queue": queue}, **options)
