"""Registration of the flows of a process.

The flows come from the modules that the settings name, and from YAML files.
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

    It is ``_config`` in the installed package. In a source checkout, it is ``config`` beside the
    package.
    """
    package = Path(str(files("perdure.worker")))
    installed = package / "_config"
    return installed if installed.is_dir() else package.resolve().parent / "config"


def find_flows(settings: Settings) -> None:
    """Register all flows of this process: those of ``flow_modules``, and those in YAML files.

    The YAML files are in the configuration directory that ships with Perdure, and in that of the
    project.

    Raises:
        InvalidFlow: A module cannot be imported.
    """
    registry.load_modules(settings.flow_modules)
    sources.add_directory(shipped() / "flows", shipped=True)
    sources.add_directory(OWN / "flows")
