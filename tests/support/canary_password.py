"""A password that nothing may repeat, and a server that demands it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.acl_server import LockedServer, locked_server, password

CANARY = password("worker")


@pytest.fixture(scope="module")
def locked() -> Iterator[LockedServer]:
    with locked_server("valkey") as running:
        yield running
