"""The app of ``perdure.app`` where the pool's processes are no forks but fresh interpreters, as on macOS."""

from __future__ import annotations

import billiard

from perdure.worker.app import app

billiard.set_start_method("spawn", force=True)

__all__ = ["app"]
