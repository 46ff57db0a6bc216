"""``YamlFlow``: a flow that was read from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perdure.flows.loading.errors import shown_path
from perdure.flows.rounds.flow import Flow
from perdure.flows.rounds.registry import WrittenFlow


@dataclass(frozen=True)
class FlowStart:
    """The position in a file at which the name of a started flow is written.

    Attributes:
        flow: The name of the started flow.
        file: The file, as error texts name it.
        line: The line, counted from 1.
        key: The path of the key. Empty in a Python file.
    """

    flow: str
    file: str
    line: int
    key: str


@dataclass(frozen=True)
class YamlFlow(WrittenFlow):
    """A flow in a file. A call returns a new flow object, because every round needs its own.

    Attributes:
        path: Absolute path of the file.
        name: The ``name`` in the file, by default the file's name without its suffix.
        factory: Makes a new flow object.
        shipped: Whether the file comes with Perdure. If so, a user's flow of the same name replaces
            it.
        starts: The positions in the file that name flows to start.
    """

    path: Path
    name: str
    factory: Callable[[], Flow]
    shipped: bool = False
    starts: tuple[FlowStart, ...] = ()

    @property
    def origin(self) -> Path:
        """The path of the file."""
        return self.path

    def __call__(self) -> Flow:
        return self.factory()

    def __str__(self) -> str:
        return shown_path(self.path)
