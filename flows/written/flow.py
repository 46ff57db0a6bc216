"""WrittenFlow: a flow that was read from a file, and what makes it afresh for every round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flows.base import Flow
from flows.written.faults import shown_path


@dataclass(frozen=True)
class WrittenFlow:
    """A flow in a file.

    Attributes:
        path: of the file; absolute.
        name: the file's ``name``, else what the file is called.
        factory: makes a fresh flow object.
        shipped: it came with Holdfast, so a flow of one's own of this name takes its place.
    """

    path: Path
    name: str
    factory: Callable[[], Flow]
    shipped: bool = False

    def __call__(self) -> Flow:
        return self.factory()

    def __str__(self) -> str:
        return shown_path(self.path)
