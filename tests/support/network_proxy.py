"""A remote client behind a network with faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from perdure import RemoteClient
from tests.soak.proxy import Proxy


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    """A bad network in front of it."""
    port = urlsplit(url).port
    assert port is not None
    made = Proxy(port)
    made.start()
    yield made
    made.stop()


@contextmanager
def through(proxy: Proxy) -> Iterator[RemoteClient]:
    client = RemoteClient(f"http://127.0.0.1:{proxy.port}", timeout=5)
    try:
        yield client
    finally:
        client.close()
