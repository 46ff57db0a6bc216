"""The app of tests.support.apps.theirs with Perdure's guard as its transport, under the name that a unix socket's URL needs."""

from __future__ import annotations

import perdure.worker.app  # noqa: F401  registers that name
from tests.support.apps.theirs import app

__all__ = ["app"]
