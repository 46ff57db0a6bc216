"""All sides by name."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks import postgres
from benchmarks.sides import restate
from benchmarks.sides.dbos import Dbos
from benchmarks.sides.holdfast import Holdfast
from benchmarks.sides.langgraph import LangGraph
from benchmarks.sides.plain import Plain
from benchmarks.sides.restate import Restate
from benchmarks.sides.side import Side
from worker.embedded.binary import find_binary

#: What the others are compared with: the settings that people take who want no round lost, on Celery's default pool.
BASE = "Celery, prefork, late acks"


def servers() -> dict[str, str]:
    """What the programs of the servers say of their versions, where they are there."""
    programs = {"Redis": find_binary(), "PostgreSQL": postgres.server(), "Restate": restate.program()}
    return {name: told(program) for name, program in programs.items() if program is not None}


def told(program: Path) -> str:
    """The first line that it answers to ``--version``."""
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()


def sides() -> list[Side]:
    """In the order of the table."""
    return [*holdfast(), *plain(), *others()]


def holdfast() -> list[Side]:
    """Ours."""
    return [
        Holdfast("Holdfast, threads", fetch=True),
        Holdfast("Holdfast, threads, without fetch", fetch=False),
        Holdfast("Holdfast, threads, synced", fsync="always"),
        Holdfast("Holdfast, threads, one process", single=True),
        Holdfast("Holdfast, threads, a process more", more=1),
        Holdfast("Holdfast, solo", "solo"),
        Holdfast("Holdfast, solo, a process more", "solo", more=1),
        Holdfast("Holdfast, solo, a process more, without fetch", "solo", more=1, fetch=False),
        Holdfast("Holdfast, prefork", "prefork"),
        Holdfast("Holdfast, threads, outbox", outbox=True),
    ]


def plain() -> list[Side]:
    """Plain Celery."""
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
        Plain("Celery, threads, late acks, one process", "threads", late=True, prefetch=1, single=True),
    ]


def others() -> list[Side]:
    """The other engines."""
    return [
        Restate("Restate, steps"),
        Restate("Restate, queued", "one_round"),
        LangGraph("LangGraph, sync"),
        LangGraph("LangGraph, async", "async"),
        Dbos("DBOS, queued"),
        Dbos("DBOS, steps", "all_rounds"),
    ]
