"""The ends of the supported range: the least versions that pyproject.toml declares, and the newest
Python of this machine.

`python -m tests.versions minimums` prints constraints for pip; `python -m tests.versions newest` a
path.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The extras that the core suite runs with.
EXTRAS = ("embedded", "server", "ai", "openai-agents", "langgraph", "mcp", "otel")
#: Newest first. `.venv` is made of the first of these that PATH has.
NAMES = ("python3.16", "python3.15", "python3.14", "python3.13", "python3.12", "python3.11")
DECLARED = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(\[[^\]]*\])?>=(?P<least>[0-9.]+)")


def minimums() -> list[str]:
    """Return ``name==version`` for each requirement of the package and its extras that names a
    least version.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = [
        *project["dependencies"],
        *(each for extra in EXTRAS for each in project["optional-dependencies"][extra]),
    ]
    return sorted(
        {
            f"{found['name']}=={found['least']}"
            for each in requirements
            if (found := DECLARED.match(each))
        }
    )


def newest() -> str:
    """Return the newest Python that can make a virtual environment: of PATH, or of pyenv, which
    hides some from PATH.
    """
    pyenv = shutil.which("pyenv")
    root = _said(pyenv, "root") if pyenv else None
    for name in NAMES:
        behind = (
            sorted(Path(root).glob(f"versions/{name.removeprefix('python')}.*/bin/python"))
            if root
            else []
        )
        for python in (name, *map(str, reversed(behind))):
            if _said(python, "-c", "import ensurepip, sys, venv; print(sys.executable)"):
                return python
    return sys.executable


def _said(*command: str) -> str | None:
    """Return a program's output, or None if it is missing or fails: a name on PATH may be a
    placeholder.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


if __name__ == "__main__":
    print("\n".join(minimums()) if sys.argv[1:] == ["minimums"] else newest())
