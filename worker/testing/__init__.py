"""Testing: a crash laboratory for your own flows, and a model without a provider.

``crash_lab(flow, goal)`` runs a flow undisturbed, then once for each fault at each of its
boundaries. The worker dies, the message is delivered twice, the run is stopped, or a worker freezes
and wakes too late. The runtime is the real one, on a real server, but there is no worker process,
no broker and no waiting. docs/guides/testing.md shows examples. pytest has the fixture
``crash_lab``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.worker.testing.errors import CrashFound, LabError, NotDeterministic
    from perdure.worker.testing.fake_model import FakeMessage, FakeModel, FakeReply, FakeRequest
    from perdure.worker.testing.faults import point
    from perdure.worker.testing.lab import Lab, crash_lab
    from perdure.worker.testing.replay import check_replay
    from perdure.worker.testing.report import Report
    from perdure.worker.testing.story import Call, Question, Story

#: Imported on first use: pytest loads this package in every project that has Perdure installed.
_HOMES = {
    "CrashFound": "perdure.worker.testing.errors",
    "LabError": "perdure.worker.testing.errors",
    "NotDeterministic": "perdure.worker.testing.errors",
    "FakeMessage": "perdure.worker.testing.fake_model",
    "FakeModel": "perdure.worker.testing.fake_model",
    "FakeReply": "perdure.worker.testing.fake_model",
    "FakeRequest": "perdure.worker.testing.fake_model",
    "Lab": "perdure.worker.testing.lab",
    "crash_lab": "perdure.worker.testing.lab",
    "point": "perdure.worker.testing.faults",
    "check_replay": "perdure.worker.testing.replay",
    "Report": "perdure.worker.testing.report",
    "Call": "perdure.worker.testing.story",
    "Question": "perdure.worker.testing.story",
    "Story": "perdure.worker.testing.story",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "Call",
    "CrashFound",
    "FakeMessage",
    "FakeModel",
    "FakeReply",
    "FakeRequest",
    "Lab",
    "LabError",
    "NotDeterministic",
    "Question",
    "Report",
    "Story",
    "check_replay",
    "crash_lab",
    "point",
]
