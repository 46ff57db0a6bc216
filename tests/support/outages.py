"""An outage of the state server, and its error."""

from __future__ import annotations

import logging

import pytest

from perdure.worker.store.outage import Outage

AWAY = ConnectionError("no answer")


@pytest.fixture
def outage(caplog: pytest.LogCaptureFixture) -> Outage:
    caplog.set_level(logging.WARNING, "perdure.store")
    return Outage()
