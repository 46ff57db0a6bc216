"""The class YamlFlow: a flow that was read from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perdure.flows.loading.errors import shown_path
from perdure.flows.rounds.flow import Flow
from perdure.flows.rounds.registry import WrittenFlow


@dataclass(frozen=True)
class FlowStart:
    """A place in a file that names a started flow."""

    flow: str
    file: str
    line: int
    key: str


@dataclass(frozen=True)
class YamlFlow(WrittenFlow):
    """A flow in a file. A call returns a new flow object, which every round needs.

    Attributes:
        path: Absolute path of the file.
        name: The ``name`` in the file, by default the file's name.
        factory: Makes a fresh flow object.
        shipped: Whether the file comes with Perdure. A user's flow of this name then replaces it.
        starts: The places in the file that name flows to start.
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
