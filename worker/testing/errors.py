"""Errors of the crash lab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.flows.core.errors import PerdureError, ProcessEnd

if TYPE_CHECKING:
    from perdure.worker.testing.story import Story


class CrashFound(AssertionError):
    """Raised when a story went wrong. The message shows the shortest failed story line by line.

    Attributes:
        story: The shortest failed story.
        others: Names of the other stories that went wrong.
    """

    def __init__(self, message: str, story: Story, others: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.story = story
        self.others = others


class LabError(PerdureError):
    """Raised when the lab cannot run a flow as requested. The message says what to change."""

    code = "lab"


class NotDeterministic(LabError):
    """Raised when a repeated run takes another path before any fault.

    Without a path that is always the same, the lab cannot inject a fault at a given boundary.
    """

    code = "not-deterministic"


class Stuck(LabError):
    """Raised when the run of a story does not end. With a fault, the story counts as failed."""

    code = "stuck"


class ProcessGone(ProcessEnd):
    """Raised inside a round to simulate the death of its worker's process.

    It is not an Exception, so that a flow that catches exceptions does not catch its own death.
    """


class Abandoned(ProcessEnd):
    """Raised anywhere inside a story to abort it. The lab then raises or reports ``error``."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
