"""Tests of your own flows: the crash lab runs them through every crash, ``FakeModel`` is a model.

Names are imported when they are first used: importing this module loads no Celery and no Redis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.worker import testing

if TYPE_CHECKING:
    from perdure.worker.testing import (
        Call,
        CrashFound,
        FakeMessage,
        FakeModel,
        FakeReply,
        FakeRequest,
        Lab,
        LabError,
        NotDeterministic,
        Question,
        Report,
        Story,
        check_replay,
        crash_lab,
        point,
    )

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


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(testing, name)
