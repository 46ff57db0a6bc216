"""A counter, in the server, of Celery's scans of the installed entry points.

A worker imports it by ``PERDURE_FLOW_MODULES``.
"""

from __future__ import annotations

from typing import Any

from celery.utils import imports

from perdure.worker.app import app, engine_of

_look = imports.entry_points


def counted(**wanted: Any) -> Any:
    """Count the looks; find as ``importlib.metadata.entry_points`` does."""
    engine = engine_of(app)
    engine.store.redis.incr(f"{engine.settings.prefix}:test:looked")
    return _look(**wanted)


imports.entry_points = counted
#: One look, which shows that looks are counted.
list(imports.load_extension_class_names("perdure.tests"))
