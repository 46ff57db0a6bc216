"""The pytest plugin: the fixture ``crash_lab``.

pytest loads this module in every project of the environment. Its name is its own: a project's ``worker``
or ``flows`` never stands in its place, and nothing else of Holdfast is imported until a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from worker.testing.lab import Lab


@pytest.fixture(scope="session")
def crash_lab() -> Iterator[Lab]:
    """``crash_lab(flow, goal, ...)`` plays a flow through every fault; see worker.testing. One server serves the session."""
    try:
        from worker.testing.lab import Lab
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("worker"):
            raise
        raise pytest.UsageError(
            "crash_lab needs Holdfast's package `worker`, and another module of that name comes first on the path. "
            "Rename yours, or run these tests where it is not on the path"
        ) from error
    with Lab() as lab:
        yield lab
