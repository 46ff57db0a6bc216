"""The app of ``perdure.app`` on a system that does not end processes with their parent, as all but Linux."""

from __future__ import annotations

from celery import platforms

from perdure.worker.app import app

platforms.set_pdeathsig = lambda *_: None

__all__ = ["app"]
