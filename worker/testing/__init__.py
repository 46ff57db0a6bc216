"""Testing: a crash laboratory for flows of one's own.

``crash_lab(flow, goal)`` plays a run once undisturbed, then again for every boundary of it with a fault there: the worker dies,
the message comes twice, somebody stops the run, a worker freezes and wakes too late. The engine is the real one, on a real server; there is
no worker process, no broker and no waiting. docs/testing.md shows it at work; with pytest it is the fixture of the same name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker.testing.failures import CrashFound, LabError, NotDeterministic
    from worker.testing.lab import Lab, crash_lab
    from worker.testing.points import point
    from worker.testing.report import Report
    from worker.testing.story import Call, Question, Story

#: Imported when first used: pytest loads this package for everybody who has Holdfast installed.
_HOMES = {
    "CrashFound": "worker.testing.failures",
    "LabError": "worker.testing.failures",
    "NotDeterministic": "worker.testing.failures",
    "Lab": "worker.testing.lab",
    "crash_lab": "worker.testing.lab",
    "point": "worker.testing.points",
    "Report": "worker.testing.report",
    "Call": "worker.testing.story",
    "Question": "worker.testing.story",
    "Story": "worker.testing.story",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'worker.testing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = ["Call", "CrashFound", "Lab", "LabError", "NotDeterministic", "Question", "Report", "Story", "crash_lab", "point"]
