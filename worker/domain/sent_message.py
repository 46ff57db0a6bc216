"""SentMessage: the receipt for a message that was sent to a thread (a conversation)."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.worker.domain.document import Document, Flag


@dataclass(frozen=True)
class SentMessage(Document):
    """Receipt of a message to a thread. It is stored, and one run gets it once."""

    run_id: str
    """Id of the run that gets the message."""
    started: Flag
    """Whether the message started a new run. Otherwise a live run reads it in its next round."""
    thread: str
    """Name of the thread."""
