"""The parts of the benchmarks.

Each is a module with ``measure(options)``, which returns its Report.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import cast

from benchmarks.report import Options, Report

#: The subject of each part, by its name. The module is ``benchmarks.NAME``.
PARTS = {
    "rounds": (
        "rounds a second beside plain Celery, DBOS, LangGraph and Restate, "
        "and what each round costs"
    ),
    "levers": "what each lever of the fast path is worth alone",
    "workers": "rounds a second with 1, 2 and 4 worker processes",
    "latency": "one hop of a lone run, and submit to first round",
    "stops": "stop to stopped, and until the slot is free",
    "recovery": "kill -9 to the next round",
    "wave": "kill -9 to the next round, while 30,000 sleepers wake",
    "supervised": "kill -9 of a process of --processes to the next round",
    "start": "start-up of commands, worker and server",
    "memory": "the memory of a worker",
    "messages": "what a round's message costs",
    "calls": "what a call of a transition costs its caller",
    "scripts": "what one Redis carries: the scripts, driven without Celery",
    "fleet": "a simulated fleet: where the limit lies for 100, 1,000, 10,000 workers",
    "growth": "how the cost of a round grows with the rounds of its run",
    "long_run": "the memory and the speed of a run of 100,000 rounds that bounds its history",
    "listing": "a page of the list of runs over HTTP",
    "search": "searches of the list of runs over HTTP, and the dashboard's pages in a browser",
    "parked": "what runs cost that wait for a person",
    "parked_on_signals": "what runs cost that wait for a signal",
    "waits": "from a signal to its node, how late a sleep ends, and many signals at once",
    "children": "from a child's end to its parent, children of a map, and a stop of a tree",
    "joins": "a map beside Celery's chord, and joins during which a worker is killed",
    "workflows": "an order in Perdure, DBOS, Restate and Celery; what a step of a workflow costs",
    "metrics": "what a scrape of /metrics costs beside 100,000 runs",
    "backlog": "what a queue of 100,000 runs costs",
    "waiting": "1 to 500 rounds that wait on a socket in one worker process",
}


def part(name: str) -> Callable[[Options], Report] | None:
    """Return the function that measures the part.

    Returns:
        None if this version has no such module.
    """
    if find_spec(f"benchmarks.{name}") is None:
        return None
    return cast(Callable[[Options], Report], import_module(f"benchmarks.{name}").measure)
