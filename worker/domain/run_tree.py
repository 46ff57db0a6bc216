"""RunTree: a run with the runs below it. Of many similar children, some are only counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from perdure.worker.domain.document import Document
from perdure.worker.domain.run import Run


@dataclass(frozen=True)
class AlikeRuns(Document):
    """Children of one flow and status that a tree counts and does not list."""

    flow: str
    """Name of their flow."""
    status: str
    """Their status, or ``damaged`` if they cannot be read."""
    count: int
    """Their number, without the children that the tree lists."""


@dataclass(frozen=True)
class RunTree(Run):
    """A run with the runs below it."""

    children: list[RunTree] = field(kw_only=True)
    """The children that are listed, in the order of their start."""
    more: list[AlikeRuns] = field(kw_only=True)
    """The children that are not listed, by flow and status."""
    not_read: int = field(kw_only=True)
    """The number of further children that were not read, because the tree is too large."""

    _members: ClassVar[tuple[str, ...]] = (*Run._members, "children", "more", "not_read")

    @property
    def counts(self) -> dict[str, int]:
        """The number of children of each status, including those that are not listed."""
        counts = Counter(child.status.value for child in self.children)
        for alike in self.more:
            counts[alike.status] += alike.count
        return dict(counts)

    def walk(self, level: int = 0) -> Iterator[tuple[int, RunTree]]:
        """Yield each listed run after its parent, with its depth (``level`` for this run)."""
        yield level, self
        for child in self.children:
            yield from child.walk(level + 1)
