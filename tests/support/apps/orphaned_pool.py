"""Perdure's app on a system whose pool processes outlive their parent: every system but Linux."""

from __future__ import annotations

from celery import platforms

from perdure.worker.app import app

platforms.set_pdeathsig = lambda *_: None

__all__ = ["app"]
