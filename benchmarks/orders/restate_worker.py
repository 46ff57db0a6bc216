"""One process that serves Restate's orders. The argument is its port.

It gives the user's service a separate name, since Restate would call all processes of one service
over one connection, and so only one process.
"""

from __future__ import annotations

import asyncio
import sys

import restate

from benchmarks.orders.examples.restate_order import orders
from benchmarks.sides.restate import serve_restate
from benchmarks.sides.self_report import number

if __name__ == "__main__":
    orders.service_tag.name = f"orders{number()}"
    asyncio.run(serve_restate(restate.app([orders]), int(sys.argv[1])))
