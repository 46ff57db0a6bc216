"""The build of a flow: a short text that differs between workers with different code.

A run stores the build of the code that made its last commit. If a worker's code does not fit the
run, the build shows whether another worker's code may fit, and which worker has that code
(docs/internals/decisions/0073-a-run-waits-for-code-that-fits.md).
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path

from perdure.flows.rounds.flow import Flow
from perdure.worker.runtime.process_facts import version

#: Hexadecimal digits of a build that is a digest.
DIGITS = 12
#: Names of directories of installed packages, which do not count for a build. Their versions are
#: part of an image, not of the code that is edited between two deployments.
INSTALLED = ("site-packages", "dist-packages")
_VARIABLE = re.compile(r"(?:environ(?:\.get\(|\[)|getenv\()\s*[\"'](\w+)[\"']")


def builds_of(
    flows: Mapping[str, Callable[[], Flow]], modules: Sequence[str] = (), given: str = ""
) -> dict[str, str]:
    """Return the build of each flow, by flow name.

    A build is a digest of the flow's source files, of the environment variables that these files
    name, and of the version of Perdure. Call this function when the flows are loaded, because the
    files may be replaced while the worker runs.

    Args:
        flows: a function that makes each flow, by flow name.
        modules: the modules that register flows. They count as the code of a flow whose own code is
            not in a module of the project, such as a graph or a YAML file.
        given: the setting ``build``. It is then the build of every flow. Empty if it is unset.
    """
    digests: dict[frozenset[Path], str] = {}
    builds = {}
    for name, make in flows.items():
        files = frozenset() if given else _files_of(make(), modules)
        if not given and files not in digests:
            digests[files] = _digest_of(files)
        builds[name] = given or digests[files]
    return builds


def _digest_of(files: Iterable[Path]) -> str:
    digest = hashlib.blake2b(version().encode(), digest_size=DIGITS // 2)
    # In the order of their contents: where the files are does not count.
    for content, variables in sorted(_read(file, _changed_at(file)) for file in files):
        digest.update(content)
        for name in variables:
            digest.update(f"{name}={os.environ.get(name)}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files_of(flow: Flow, modules: Sequence[str]) -> frozenset[Path]:
    """Return the source files of a flow.

    Args:
        modules: the modules to use if no module of the project has the flow's own code.
    """
    files: set[Path] = set()
    seen: set[str] = set()
    for module in _modules_of(flow) or modules:
        _add_files(module.partition(".")[0], files, seen)
    if (path := getattr(flow, "path", None)) is not None:
        files.add(Path(path))
    return frozenset(files)


def _modules_of(flow: Flow) -> list[str]:
    """Return the modules that have a flow's code, without modules of Perdure and of Python."""
    written = [*type(flow).__mro__, getattr(type(flow), "function", None)]
    names = (str(getattr(each, "__module__", "")) for each in written)
    return [name for name in dict.fromkeys(names) if _is_of_project(name)]


def _is_of_project(module: str) -> bool:
    top = module.partition(".")[0]
    return (
        bool(top) and top != "perdure" and top not in sys.stdlib_module_names
    ) or top == "__main__"


def _add_files(top: str, files: set[Path], seen: set[str]) -> None:
    """Add a module's source files to ``files``.

    The module ``top`` is a top-level module. For a package, these are all its files. For a single
    file, these are the file and the files of the modules that it imports. Installed packages are
    left out.

    Args:
        seen: the top-level modules that were added already. They are left out, and ``top`` is
            added.
    """
    if top in seen:
        return
    seen.add(top)
    file, folders = _place_of(top)
    for folder in folders:
        if not _is_installed(folder):
            files |= _files_below(folder)
    if file is None or folders or _is_installed(file) or not file.is_file():
        return
    files.add(file)
    for name in _imports(file, _changed_at(file)):
        if _is_of_project(name):
            _add_files(name, files, seen)


def _place_of(top: str) -> tuple[Path | None, list[Path]]:
    """Return the source file of a top-level module, and its directories if it is a package.

    The file is None if there is no Python source file, as in some packages. If the module is not
    found, the list of directories is empty, too.
    """
    loaded = sys.modules.get(top)
    if loaded is not None:
        file, folders = getattr(loaded, "__file__", None), getattr(loaded, "__path__", ())
    else:  # A function's imports may not be loaded yet.
        try:
            spec = PathFinder.find_spec(top)
        except (ImportError, ValueError):
            spec = None
        file = None if spec is None else spec.origin
        folders = () if spec is None else spec.submodule_search_locations or ()
    source = None if file is None else Path(file).resolve()
    is_source = source is not None and source.suffix == ".py"
    return source if is_source else None, [Path(folder).resolve() for folder in folders]


def _is_installed(path: Path) -> bool:
    return not set(INSTALLED).isdisjoint(path.parts)


@lru_cache
def _files_below(package: Path) -> frozenset[Path]:
    """Return the source files of a package. Files of a virtual environment in it are left out."""
    files = (each for each in package.rglob("*.py") if each.is_file() and os.access(each, os.R_OK))
    return frozenset(each for each in files if not _is_installed(each))


def _changed_at(file: Path) -> int:
    return file.stat().st_mtime_ns


@lru_cache(maxsize=4096)
def _read(file: Path, _changed_at: int) -> tuple[bytes, tuple[str, ...]]:
    """Return the digest of a file, and the names of the environment variables in its text.

    The result is cached. ``_changed_at`` is part of the cache's key, so that a changed file is read
    again.
    """
    content = file.read_bytes()
    names = _VARIABLE.findall(content.decode("utf-8", "replace"))
    return hashlib.blake2b(content).digest(), tuple(sorted(set(names)))


@lru_cache(maxsize=1024)
def _imports(file: Path, _changed_at: int) -> frozenset[str]:
    """Return the top-level modules that a source file imports.

    Empty if the file is not valid Python. The result is cached as in ``_read``.
    """
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
