"""The methods of notes, of each kind of client."""

from __future__ import annotations

from perdure.worker.client.in_thread import in_thread
from perdure.worker.features.notes import operations
from perdure.worker.operations.operation import method


class NoteMethods:
    """The methods of notes."""

    note_namespaces = method(operations.note_namespaces)
    notes = method(operations.notes)
    put_note = method(operations.put_note)
    forget_notes = method(operations.forget_notes)


class AsyncNoteMethods:
    """The methods of notes, as coroutines."""

    note_namespaces = in_thread(NoteMethods.note_namespaces)
    notes = in_thread(NoteMethods.notes)
    put_note = in_thread(NoteMethods.put_note)
    forget_notes = in_thread(NoteMethods.forget_notes)
