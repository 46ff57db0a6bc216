"""Perdure's app with a BRPOP that waits for ten minutes: only its worker can end the wait."""

from __future__ import annotations

from perdure.worker.app import app

app.conf.broker_transport_options = {**app.conf.broker_transport_options, "polling_interval": 600}
__all__ = ["app"]
