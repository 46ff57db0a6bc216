"""Notes: texts that runs keep for later runs, under namespaces.

They are outside of the protocol of rounds. No transition of a run reads or writes them, and the
deletion of a run does not delete them. ``flows/rounds/notes.py`` is the part that rounds use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from perdure.worker.features.feature import Feature

if TYPE_CHECKING:
    from perdure.flows.rounds.flow import Flow
    from perdure.worker.domain.record import Record
    from perdure.worker.features.notes.run_notes import RunNotes
    from perdure.worker.settings import Settings
    from perdure.worker.store import Store
    from perdure.worker.store.fence import Fence


class NotesFeature(Feature):
    """The feature of notes."""

    name: ClassVar[str] = "notes"
    commands: ClassVar[Mapping[str, str]] = {
        "notes": "List, show and delete what runs keep for later runs.",
    }
    scripts: ClassVar[tuple[str, ...]] = ("put_note", "forget_notes")

    def routes(self) -> Iterable[Any]:
        """Return the router of notes."""
        from perdure.worker.features.notes.routes import notes_router

        return (notes_router,)

    def context(
        self,
        store: Store,
        settings: Settings,
        record: Record,
        flow: Flow,
        fence: Fence | None = None,
        broken: Callable[[Exception], None] = lambda error: None,
    ) -> Mapping[str, Any]:
        """Return the field ``note_access``, which opens the notes of a round."""
        return {"note_access": _run_notes()(store, settings, record, flow, fence, broken)}


@cache
def _run_notes() -> type[RunNotes]:
    # An import statement in each round would take a microsecond.
    from perdure.worker.features.notes.run_notes import RunNotes

    return RunNotes


FEATURE = NotesFeature()
