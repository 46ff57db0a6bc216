"""The control room in a browser: live text in its round, a page on which nothing jumps, the fleet."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from perdure import Client, Run
from perdure.worker.errors import InvalidSettings
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.store.live_text import LiveTextRecords
from tests.support.browser import browsing, chromium, grave_findings
from tests.support.runs import claim, commit_next, fail_round
from tests.support.threaded_server import serving

#: Adds up how far things moved by themselves, as browsers report it (Cumulative Layout Shift).
SHIFTS = """
window.shifted = 0; window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    window.shifted += entry.value;
    window.shifts.push([entry.value, entry.sources.map((each) => each.node?.outerHTML?.slice(0, 90))]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""
