"""An app whose BRPOP waits longer than any test does: nothing but its worker ends it. For ``WorkerProcess(app=...)``."""

from __future__ import annotations

from perdure.worker.app import app

app.conf.broker_transport_options = {**app.conf.broker_transport_options, "polling_interval": 600}
__all__ = ["app"]
