"""Which modules of the repository a test file imports, read from its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

#: Support modules that start processes, and the package that these processes run.
STARTED = {
    "tests/support/command_line.py": "worker/cli",
    "tests/support/workers.py": "worker/runtime",
}


class Imports:
    """The imports of the test files under ``root``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._modules = cache(self._read_modules)

    def reaches(self, file: str, changed: set[str]) -> bool:
        """Return whether a test file imports a changed module of the tests, or a changed package.

        Modules of ``tests`` are followed. Packages of the product are not: nearly all would lead to
        each other.
        """
        packages = {package_of(each) for each in changed if not each.startswith("tests/")}
        seen, pending = {file}, [file]
        while pending:
            for module in self._modules(pending.pop()):
                if module in changed or package_of(module) in packages:
                    return True
                if STARTED.get(module) in packages:
                    return True
                if module.startswith("tests/") and module not in seen:
                    seen.add(module)
                    pending.append(module)
        return False

    def _read_modules(self, file: str) -> frozenset[str]:
        tree = ast.parse((self._root / file).read_text("utf-8"))
        return frozenset(path for name in imported_names(tree) if (path := self._path(name)))

    def _path(self, name: str) -> str | None:
        """Return the file of a module's name, or of the module that has it as an attribute."""
        parts = name.split(".")
        if parts[0] == "perdure" and len(parts) > 2:
            del parts[0]
        for words in (parts, parts[:-1]):
            path = "/".join(words)
            for file in (f"{path}.py", f"{path}/__init__.py"):
                if words and (self._root / file).is_file():
                    return file
        return None


def package_of(file: str) -> str:
    """Return the package of the product that has a file, such as ``worker/store``."""
    parts = file.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else file


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield each imported module, and each name that is imported from one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
