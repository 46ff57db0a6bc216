"""The build of a flow: a short text that differs if the code of two workers does.

A run keeps the build whose code made its last commit. If code does not fit the run, that tells
whether another worker's code may, and which worker has it
(docs/internals/decisions/0073-a-run-waits-for-code-that-fits.md).
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path

from perdure.flows.flow import Flow
from perdure.worker.runtime.process_facts import version

#: Hexadecimal digits of a build that is a digest.
DIGITS = 12
#: Directories of packages that were installed. Their versions are part of an image, not of the
#: code that is edited between two deployments.
INSTALLED = ("site-packages", "dist-packages")
_VARIABLE = re.compile(r"(?:environ(?:\.get\(|\[)|getenv\()\s*[\"'](\w+)[\"']")


def builds_of(
    flows: Mapping[str, Callable[[], Flow]], modules: Sequence[str] = (), given: str = ""
) -> dict[str, str]:
    """Return the build of each flow that a worker plays, by the flow's name.

    It is a digest of the flow's source files, of the environment variables that these name, and of
    the version of Perdure. Call it when the flows have been loaded: the files may be replaced while
    the worker runs.

    Args:
        flows: a factory for each flow, by name.
        modules: the modules that register flows. They are taken for the code of a flow that does
            not say where it is written, as of a graph or of a YAML file.
        given: the setting ``build``. It is then the build of every flow.
    """
    return {name: given or _digest_of(make(), modules) for name, make in flows.items()}


def _digest_of(flow: Flow, modules: Sequence[str]) -> str:
    own = _modules_of(flow)
    files: set[Path] = set()
    for module in own or modules:
        _add_files(module, files)
    if (path := getattr(flow, "path", None)) is not None:
        files.add(Path(path))
    digest = hashlib.blake2b(version().encode(), digest_size=DIGITS // 2)
    # In the order of their contents: where the files are does not count.
    for content, variables in sorted(_read(file, _changed_at(file)) for file in files):
        digest.update(content)
        for name in variables:
            digest.update(f"{name}={os.environ.get(name)}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _modules_of(flow: Flow) -> list[str]:
    """Return the modules in which a flow is written. None are of Perdure."""
    written = [*type(flow).__mro__, getattr(type(flow), "function", None)]
    names = (str(getattr(each, "__module__", "")) for each in written)
    return [name for name in dict.fromkeys(names) if _is_of_project(name)]


def _is_of_project(module: str) -> bool:
    top = module.partition(".")[0]
    return (
        bool(top) and top != "perdure" and top not in sys.stdlib_module_names
    ) or top == "__main__"


def _add_files(module: str, files: set[Path]) -> None:
    """Add the source files of a module: its whole package, or itself and what it imports.

    Installed packages are left out.
    """
    top = module.partition(".")[0]
    file = _file_of(top)
    if file is None or file in files or not set(INSTALLED).isdisjoint(file.parts):
        return
    files.add(file)
    if file.name == "__init__.py":
        files |= _files_below(file.parent)
        return
    for name in _imports(file, _changed_at(file)):
        if _is_of_project(name):
            _add_files(name, files)


def _file_of(top: str) -> Path | None:
    """Return the source file of a module or package that has no package above it."""
    if top == "__main__":
        found = getattr(sys.modules[top], "__file__", None)
    else:
        try:
            spec = PathFinder.find_spec(top)
        except (ImportError, ValueError):
            return None
        found = None if spec is None else spec.origin
    file = None if found is None else Path(found).resolve()
    return file if file is not None and file.suffix == ".py" and file.is_file() else None


@lru_cache
def _files_below(package: Path) -> frozenset[Path]:
    """Return the source files of a package. An environment that lies in it is not part of it."""
    files = (each for each in package.rglob("*.py") if each.is_file() and os.access(each, os.R_OK))
    return frozenset(each for each in files if set(INSTALLED).isdisjoint(each.parts))


def _changed_at(file: Path) -> int:
    return file.stat().st_mtime_ns


@lru_cache(maxsize=4096)
def _read(file: Path, _changed_at: int) -> tuple[bytes, tuple[str, ...]]:
    """Return a file's digest, and the environment variables that it names."""
    content = file.read_bytes()
    names = _VARIABLE.findall(content.decode("utf-8", "replace"))
    return hashlib.blake2b(content).digest(), tuple(sorted(set(names)))


@lru_cache(maxsize=1024)
def _imports(file: Path, _changed_at: int) -> frozenset[str]:
    """Return the names of the modules that a source file imports. Empty if it has no valid code."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return frozenset()
    names: set[str] = set()
    for each in ast.walk(tree):
        if isinstance(each, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in each.names}
        elif isinstance(each, ast.ImportFrom) and each.module and not each.level:
            names.add(each.module.partition(".")[0])
    return frozenset(names)
