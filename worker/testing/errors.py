"""Errors that end a lab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.flows.core.errors import PerdureError, ProcessEnd

if TYPE_CHECKING:
    from perdure.worker.testing.story import Story


class CrashFound(AssertionError):
    """A story went wrong. The message shows the shortest failed story line by line.

    Attributes:
        story: The shortest failed story.
        others: Names of the other stories that went wrong.
    """

    def __init__(self, message: str, story: Story, others: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.story = story
        self.others = others


class LabError(PerdureError):
    """The lab cannot run this flow as requested. The message says what to change."""

    code = "lab"


class NotDeterministic(LabError):
    """A repeated run took another path without a fault. Faults therefore have no known boundary."""

    code = "not-deterministic"


class Stuck(LabError):
    """The run of a story does not end. In a disturbed story, that counts as a finding."""

    code = "stuck"


class ProcessGone(ProcessEnd):
    """The worker's process is dead.

    It is not an Exception, because a flow that catches exceptions must not prevent its own death.
    """


class Abandoned(ProcessEnd):
    """The lab aborts this story because of ``error``.

    It may be raised anywhere inside the story.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
