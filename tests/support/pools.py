"""Celery's pools that rounds are played on."""

from __future__ import annotations

import pytest

POOLS = ("threads", "prefork", "solo")
#: For what has its own test on each pool elsewhere, or differs little: the default one quickly, the others in the slow suite.
ONE_AND_SLOWLY_THE_OTHERS = (
    "threads",
    *(pytest.param(pool, marks=pytest.mark.slow) for pool in POOLS[1:]),
)
