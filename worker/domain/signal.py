"""SignalReceipt: the receipt for a sent signal. SignalReply: the reply of a run to a signal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perdure.worker.domain.document import Document, Flag


@dataclass(frozen=True)
class SignalReceipt(Document):
    """Receipt for a sent signal. The signal is stored, and a round of the run takes it once."""

    _later = ("ends_wait",)

    run_id: str | None
    """Id of the run. None: no run holds the topic yet."""
    name: str
    """Name of the signal."""
    number: int
    """Its number among the run's signals of this name, from 1.

    Without a run, its number among the signals that wait.
    """
    status: str
    """The run's phase when the signal came in; for a repeated signal, its phase now.

    ``kept``: the signal waits for a run that takes its topic.
    """
    ends_wait: Flag = False
    """Whether the run has waited for this signal and continues."""


@dataclass(frozen=True)
class SignalReply(Document):
    """The reply of a run to a signal, or the fact that the run has not replied yet."""

    run_id: str
    """Id of the run."""
    name: str
    """Name of the signal."""
    number: int
    """Its number among the run's signals of this name, from 1."""
    replied: bool
    """Whether a round of the run has replied."""
    value: Any = None
    """The reply, as JSON data. None if the run has not replied."""
