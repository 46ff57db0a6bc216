"""One worker process of DBOS that plays orders."""

from __future__ import annotations

import os

from benchmarks.orders.examples.dbos_order import launch
from benchmarks.sides.dbos import POLLING, URL, VERSION
from benchmarks.sides.self_report import number, stay

if __name__ == "__main__":
    launch(os.environ[URL], VERSION, f"worker-{number()}", POLLING)
    stay()
