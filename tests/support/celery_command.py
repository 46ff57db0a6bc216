"""``celery -A APP ...`` on the app of a user, in this process."""

from __future__ import annotations

import os

from celery.bin.celery import main

from perdure.worker.app import broker_url
from perdure.worker.settings import Settings
from tests.support.command_line import ROOT, Done, run_here

APP = ("-A", "tests.support.apps.user_app")


class CeleryCommand:
    """``celery`` with an environment that names a broker and a prefix, and no state server."""

    def __init__(self, settings: Settings) -> None:
        assert settings.redis_url is not None
        bare = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PERDURE_", "CELERY_"))
        }
        broker = broker_url(settings.redis_url).replace("perdure+socket", "redis+socket")
        self.environment = {
            **bare,
            "PYTHONPATH": str(ROOT),
            "NO_COLOR": "1",
            "THEIRS_BROKER": broker,
            "PERDURE_PREFIX": settings.prefix,
        }

    def __call__(self, *arguments: str, **variables: str) -> Done:
        """Run ``celery`` in this process."""
        done = run_here(main, ["celery", *arguments], ROOT, self.environment | variables)
        assert "Traceback" not in done.out + done.err, done.err
        return done
