"""Registration of a process's flows.

They come from the modules and the YAML files that its settings name.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from perdure.flows.loading import sources
from perdure.flows.rounds import registry
from perdure.worker.settings import Settings

#: Configuration directory of a project, relative to the working directory.
OWN = Path("config")


@cache
def shipped() -> Path:
    """Return the configuration directory that ships with Perdure.

    It is inside an installed package, or beside the source code.
    """
    package = Path(str(files("perdure.worker")))
    installed = package / "_config"
    return installed if installed.is_dir() else package.resolve().parent / "config"


def find_flows(settings: Settings) -> None:
    """Register all flows of this process: those of the configured modules, and those in YAML files.

    The YAML files are the ones that ship with Perdure, and the project's own.

    Raises:
        InvalidFlow: A module cannot be imported.
    """
    registry.load_modules(settings.flow_modules)
    sources.add_directory(shipped() / "flows", shipped=True)
    sources.add_directory(OWN / "flows")
