"""The stream of a run: its events, and between them the live text of its rounds."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from perdure.flows.core.errors import InvalidInput
from perdure.worker.domain.document import Document
from perdure.worker.domain.event import TRIMMED, Event, position_of
from perdure.worker.errors import DamagedRun

#: Type of an item with text.
TEXT = "text"
#: Type of an item that makes the shown text of a step void.
RETRACTED = "retracted"
#: Events that make the shown text of an attempt void: it will not be committed.
GIVEN_UP = ("failed", "lost", "given_back", "waits", "stopped", "errored")
#: The position before everything.
BEGINNING = "0-0"
#: A position in the stream: that of the last event, and that of the last text.
POSITION = re.compile(r"\d{1,18}-\d{1,18}/\d{1,18}-\d{1,18}")
#: Fields of an entry of text that are numbers. ``number`` counts the entries of an attempt.
NUMBERS = ("step", "attempt", "number")


class TextEntry(NamedTuple):
    """A stored entry of a run's live text: id and fields."""

    id: str
    fields: Mapping[str, str]


@dataclass(frozen=True)
class StreamItem(Document):
    """One item of the stream of a run."""

    id: str
    """Position in the stream. It can be passed back as ``after``."""
    type: str
    """``text``, ``retracted`` (the text of this step so far is void, because its attempt ended
    without a commit), ``trimmed`` (text or events before this are gone), or the type of an event.
    The text of a step is final with its event ``committed``."""
    step: int
    """The step that it belongs to."""
    attempt: int
    """The attempt at that step."""
    node: str = ""
    """Of an event: the node that it belongs to."""
    kind: str = ""
    """Of text: ``text``, ``thinking``, or a kind that the flow names itself."""
    part: str = ""
    """Of text: the name of the text, if a round writes several texts at the same time."""
    text: str = ""
    """Of text: the piece that follows the text so far."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Of an event: further JSON data, which depends on the type."""


@dataclass(slots=True)
class StreamReader:
    """A reader that makes the items of a run's stream from stored events and texts.

    Attributes:
        event: The id of the last event that was read.
        text: The id of the last entry of text that was read.
    """

    event: str = BEGINNING
    text: str = BEGINNING
    #: By step: the attempt whose text was shown and is not final, and the number of its last entry.
    _shown: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: Whether text may have been shown that this reader does not know of.
    _resumed: bool = False

    @classmethod
    def after(cls, position: str | None) -> StreamReader:
        """Build a reader that continues after the item with id ``position``.

        None means from the beginning of the stream.

        Raises:
            InvalidInput: ``position`` is not the id of an item of a stream.
        """
        if position is None:
            return cls()
        if not POSITION.fullmatch(position):
            raise InvalidInput(
                f"after is {position[:80]!r}; expected the id of an item of the stream of a run"
            )
        event, _, text = position.partition("/")
        return cls(event, text, {}, True)

    def items(self, entries: Iterable[Event | TextEntry]) -> Iterator[StreamItem]:
        """Yield the stream's items for newly read entries.

        They are in the order of their writes. A text of an attempt yields nothing if a later
        attempt of the step has already shown text.

        Raises:
            DamagedRun: An entry of text cannot be read.
        """
        for entry in in_order(entries):
            if isinstance(entry, Event):
                yield from self._of_event(entry)
            else:
                yield from self._of_text(entry)

    def _of_event(self, event: Event) -> Iterator[StreamItem]:
        if event.type in GIVEN_UP and self._may_have_shown(event.step):
            yield self._item(RETRACTED, event.step, event.attempt)
        if event.type in (*GIVEN_UP, "committed"):
            self._shown.pop(event.step, None)
        self.event = event.id
        yield replace(
            self._item(event.type, event.step, event.attempt), node=event.node, data=event.data
        )

    def _of_text(self, entry: TextEntry) -> Iterator[StreamItem]:
        try:
            step, attempt, number = (int(entry.fields[name]) for name in NUMBERS)
            kind, part, text = (entry.fields[name] for name in ("kind", "part", "text"))
        except (ValueError, LookupError) as error:
            raise DamagedRun(
                f"entry {entry.id} of a run's live text cannot be read: "
                f"{type(error).__name__}: {error}"
            ) from error
        before, last = self._shown.get(step, (0, -1))
        if attempt < before:
            self.text = entry.id
            return  # of a worker that was taken for lost, and is still alive
        if attempt > before and attempt > 1 and (before or self._resumed):
            yield self._item(RETRACTED, step, attempt - 1)
        if number > (last + 1 if attempt == before else 0) and (before or not self._resumed):
            yield self._item(TRIMMED, step, attempt)
        self._shown[step] = attempt, number
        self.text = entry.id
        yield replace(self._item(TEXT, step, attempt), kind=kind, part=part, text=text)

    def _may_have_shown(self, step: int) -> bool:
        return step in self._shown or (self._resumed and not self._shown)

    def _item(self, kind: str, step: int, attempt: int) -> StreamItem:
        return StreamItem(f"{self.event}/{self.text}", kind, step, attempt)


def in_order(entries: Iterable[Event | TextEntry]) -> Iterator[Event | TextEntry]:
    """Yield events and texts, merged in the order of their writes.

    Events stay in their order, and texts too. Ids of an event and of a text in the same millisecond
    cannot be compared. Then the text comes first, unless it belongs to a later round.
    """
    listed = list(entries)
    events = deque(entry for entry in listed if isinstance(entry, Event))
    texts = deque(entry for entry in listed if not isinstance(entry, Event))
    while events and texts:
        text, event = texts[0], events[0]
        written, happened = position_of(text.id)[0], position_of(event.id)[0]
        is_before = written < happened or (
            written == happened and _round_of(text) <= (event.step, event.attempt)
        )
        yield texts.popleft() if is_before else events.popleft()
    yield from events or texts


def _round_of(entry: TextEntry) -> tuple[int, int]:
    """Return step and attempt of an entry of text. (0, 0) if it cannot be read."""
    try:
        return int(entry.fields["step"]), int(entry.fields["attempt"])
    except (ValueError, LookupError):
        return 0, 0
