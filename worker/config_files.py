"""The configuration that ships, and the project's own beside it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from flows import registry
from worker.settings import Settings

#: Where a project keeps its configuration, looked for in the working directory.
OWN = Path("config")


@cache
def shipped() -> Path:
    """The directory that ships: inside the package where it is installed, beside it where it is edited."""
    package = Path(str(files("worker")))
    installed = package / "_config"
    return installed if installed.is_dir() else package.parent / "config"


def find_flows(settings: Settings) -> None:
    """Make the registry find all flows of this process: its modules', and those written in YAML, shipped and its own.

    Raises:
        InvalidFlow: a module cannot be imported.
    """
    registry.load_modules(settings.flow_modules)
    registry.add_directory(shipped() / "flows", shipped=True)
    registry.add_directory(OWN / "flows")
