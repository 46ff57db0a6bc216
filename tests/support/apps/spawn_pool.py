"""Perdure's app with pool processes that are spawned and not forked, as on macOS."""

from __future__ import annotations

import billiard

from perdure.worker.app import app

billiard.set_start_method("spawn", force=True)

__all__ = ["app"]
