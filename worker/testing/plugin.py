"""The pytest plugin: the fixture ``crash_lab``. Nothing else of Holdfast is imported until a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from worker.testing.lab import Lab


@pytest.fixture(scope="session")
def crash_lab() -> Iterator[Lab]:
    """``crash_lab(flow, goal, ...)`` plays a flow through every fault; see worker.testing. One server serves the session."""
    from worker.testing.lab import Lab

    with Lab() as lab:
        yield lab
