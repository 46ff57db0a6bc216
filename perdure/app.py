"""The Celery app that runs rounds: ``celery -A perdure.app worker``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from celery import Celery


def __getattr__(name: str) -> Celery:
    """Return Perdure's Celery app, created on first use.

    So importing this module reads no settings.
    """
    if name not in ("app", "celery"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from perdure.worker import app as home

    return home.app
