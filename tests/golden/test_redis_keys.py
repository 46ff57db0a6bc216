"""The keys in Redis: names, types, fields and the form of their contents."""

from __future__ import annotations

import logging
import os
import socket

import pytest

from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.golden import session
from tests.golden.golden_files import PRODUCT, compare
from tests.golden.snapshots import Snapshots

#: The registry of this process holds flows of other tests; titles are made of other names.
LEFT_OUT = r"\.(flows|builds)\.(?!charging|countdown)|\.disabled|\.title$"


def test_keys_and_fields_are_those_of_the_golden_file(
    settings: Settings, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, PRODUCT)  # runs fail here as they should
    settings = session.quiet(settings)
    names = {f"gen{os.getpid()}@{socket.gethostname()}": "gen@HOST", socket.gethostname(): "HOST"}
    snapshots = Snapshots(store.redis, settings.prefix, {**names, "golden-": "ID-"}, LEFT_OUT)
    session.play(settings, snapshots.look)
    for _ in session.transitions(store):
        snapshots.look()
    compare("redis_keys", snapshots.seen())
