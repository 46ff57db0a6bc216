"""The registry's source of flows in YAML files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from perdure.flows.loading.directories import Directories
from perdure.flows.loading.errors import shown_path
from perdure.flows.loading.yaml_flow import YamlFlow
from perdure.flows.rounds import registry

_directories = Directories()


def add_directory(path: Path, shipped: bool = False) -> None:
    """Add a directory with flows written in YAML.

    The next ``make`` or ``registered`` searches it. It need not exist.

    Args:
        shipped: whether the flows come with Perdure. Your own flow of the same name replaces a
            shipped one.
    """
    _directories.add(path, shipped)
    registry.add_source(_files)


def register_file(path: Path) -> YamlFlow:
    """Read a YAML file again, and register its flow.

    Raises:
        InvalidFlow: the flow cannot be registered.
        InvalidFlowFile: the file is not a valid flow.
    """
    written = _directories.read(path, again=True)
    registry.keep(written.name, written)
    return written


def _files(shipped: bool) -> Iterator[tuple[str, Callable[[], YamlFlow]]]:
    for path in _directories.files(shipped):
        yield f"file {shown_path(path)}", partial(_directories.read, path)
