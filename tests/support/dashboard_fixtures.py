"""The fixtures of tests of the dashboard: a server on loopback, a visitor of its pages, and a store in real time.

A pytest plugin, which tests/conftest.py names. It imports the web server where a fixture needs it: most tests do not.
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
    """A store that goes by the server's clock."""
    from perdure.worker.store import Store

    made = Store(settings.redis_url or "", settings.prefix)
    yield made
    made.close()


@pytest.fixture
def url(settings: Settings) -> Iterator[str]:
    """The address of a server with the dashboard and the HTTP API, in a thread of this process."""
    from tests.support.threaded_server import serving

    with serving(settings) as address:
        yield address


@pytest.fixture
def visitor(url: str) -> Iterator[Visitor]:
    """A visitor of the dashboard whose browser runs no scripts."""
    from tests.support.page_visitor import visiting

    with visiting(url) as made:
        yield made
