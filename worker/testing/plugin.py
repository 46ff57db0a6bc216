"""The pytest plugin: the fixture ``crash_lab``.

pytest imports this module in every project whose environment has Perdure installed. So the module
imports nothing else of Perdure until a test uses the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from perdure.worker.testing.lab import Lab


@pytest.fixture(scope="session")
def crash_lab() -> Iterator[Lab]:
    """Yield a crash lab, which runs a flow through every fault: ``crash_lab(flow, goal, ...)``.

    One server serves the whole pytest session.
    """
    from perdure.worker.testing.lab import Lab

    with Lab() as lab:
        yield lab
