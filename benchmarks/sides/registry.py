"""All sides by name."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks import postgres
from benchmarks.sides import restate
from benchmarks.sides.dbos import Dbos
from benchmarks.sides.langgraph import LangGraph
from benchmarks.sides.perdure import Perdure
from benchmarks.sides.plain import Plain
from benchmarks.sides.restate import Restate
from benchmarks.sides.side import Side
from perdure.worker.embedded.binary import find_binary

#: The base of the comparisons: plain Celery with the settings for users who want no round lost, on
#: its default pool.
BASE = "Celery, prefork, late acks"


def servers() -> dict[str, str]:
    """Return the versions of the installed server programs."""
    programs = {
        "Redis": find_binary(),
        "PostgreSQL": postgres.server(),
        "Restate": restate.program(),
    }
    return {name: told(program) for name, program in programs.items() if program is not None}


def told(program: Path) -> str:
    """Return the first line of the reply to ``--version``."""
    return (
        subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        .stdout.splitlines()[0]
        .strip()
    )


def sides() -> list[Side]:
    """Return all sides, in the order of the table."""
    return [*perdure(), *plain(), *others()]


def perdure() -> list[Side]:
    """Return the sides of Perdure."""
    return [
        Perdure("Perdure, threads", fetch=True),
        Perdure("Perdure, threads, without fetch", fetch=False),
        Perdure("Perdure, threads, synced", fsync="always"),
        Perdure("Perdure, threads, one process", single=True),
        Perdure("Perdure, threads, a process more", more=1),
        Perdure("Perdure, solo", "solo"),
        Perdure("Perdure, solo, a process more", "solo", more=1),
        Perdure("Perdure, solo, a process more, without fetch", "solo", more=1, fetch=False),
        Perdure("Perdure, prefork", "prefork"),
        Perdure("Perdure, threads, outbox", outbox=True),
    ]


def plain() -> list[Side]:
    """Return the sides of plain Celery."""
    return [
        Plain("Celery, prefork, early acks"),
        Plain(BASE, late=True, prefetch=1),
        Plain("Celery, prefork, late acks, prefetch 4", late=True),
        Plain("Celery, prefork, late acks, a process more", late=True, prefetch=1, more=1),
        Plain("Celery, prefork, late acks, results", late=True, prefetch=1, results=True),
        Plain("Celery, solo, early acks", "solo"),
        Plain("Celery, solo, late acks", "solo", late=True, prefetch=1),
        Plain("Celery, solo, late acks, prefetch 4", "solo", late=True),
        Plain("Celery, solo, late acks, a process more", "solo", late=True, prefetch=1, more=1),
        Plain("Celery, solo, late acks, results", "solo", late=True, prefetch=1, results=True),
        Plain("Celery, threads, early acks", "threads"),
        Plain("Celery, threads, late acks", "threads", late=True, prefetch=1),
        Plain(
            "Celery, threads, late acks, one process", "threads", late=True, prefetch=1, single=True
        ),
    ]


def others() -> list[Side]:
    """Return the other engines."""
    return [
        Restate("Restate, steps"),
        Restate("Restate, queued", "one_round"),
        LangGraph("LangGraph, sync"),
        LangGraph("LangGraph, async", "async"),
        Dbos("DBOS, queued"),
        Dbos("DBOS, steps", "all_rounds"),
    ]
