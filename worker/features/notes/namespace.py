"""NoteNamespace: a namespace with the number and age of its notes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure.worker.domain.document import Document


@dataclass(frozen=True)
class NoteNamespace(Document):
    """A namespace that has notes."""

    namespace: str
    """Its name, with the facts of the runs filled in."""
    notes: int
    """Number of its notes."""
    newest: datetime
    """When the newest of them was written."""
