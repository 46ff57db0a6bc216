"""Imported by a worker (``PERDURE_FLOW_MODULES``): it counts, in the server, how often Celery looks through all that is installed."""

from __future__ import annotations

from typing import Any

from celery.utils import imports

from perdure.worker.app import app, engine_of

_look = imports.entry_points


def counted(**wanted: Any) -> Any:
    """As ``importlib.metadata.entry_points``."""
    engine = engine_of(app)
    engine.store.redis.incr(f"{engine.settings.prefix}:test:looked")
    return _look(**wanted)


imports.entry_points = counted
#: One look, which shows that looks are counted.
list(imports.load_extension_class_names("perdure.tests"))
