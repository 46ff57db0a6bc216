"""What a lab ends with when it does not end well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.errors import HoldfastError
from flows.process_end import ProcessEnd

if TYPE_CHECKING:
    from worker.testing.story import Story


class CrashFound(AssertionError):
    """A story went wrong; the message tells the shortest one that did, line by line.

    Attributes:
        story: that one. others: the names of the others that went wrong.
    """

    def __init__(self, message: str, story: Story, others: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.story = story
        self.others = others


class LabError(HoldfastError):
    """The lab cannot play this flow as it was asked to; the message says what to change."""


class NotDeterministic(LabError):
    """The same run, played again with nothing done to it, went another way, so no fault could be put in a known place."""


class Stuck(LabError):
    """The run of a story does not end. Where it was disturbed, that is a fault found."""


class ProcessGone(ProcessEnd):
    """The worker's process is no more. No Exception: what a flow catches must not be in the way of its own death."""


class Abandoned(ProcessEnd):
    """The lab gives up this story for ``error``, from wherever it is."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
