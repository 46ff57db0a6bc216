"""Fixtures for tests of the dashboard: a server, a visitor of its pages, a store in real time.

It is a pytest plugin, which tests/conftest.py names. Fixtures import the web server themselves,
since most tests do not need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from perdure.worker.settings import Settings
    from perdure.worker.store import Store
    from tests.support.page_visitor import Visitor


@pytest.fixture
def live_store(settings: Settings) -> Iterator[Store]:
    """Yield a store with its server's clock."""
    from perdure.worker.store import Store

    made = Store(settings.redis_url or "", settings.prefix)
    yield made
    made.close()


@pytest.fixture
def url(settings: Settings) -> Iterator[str]:
    """Yield the URL of a web server in a thread of this process."""
    from tests.support.threaded_server import serving

    with serving(settings) as address:
        yield address


@pytest.fixture
def visitor(url: str) -> Iterator[Visitor]:
    """Yield a dashboard visitor without scripts."""
    from tests.support.page_visitor import visiting

    with visiting(url) as made:
        yield made
