"""The app of tests.support.theirs with Holdfast's guard as its transport, under the name that a unix socket's URL needs."""

from __future__ import annotations

import worker.app  # noqa: F401  registers that name
from tests.support.theirs import app

__all__ = ["app"]
