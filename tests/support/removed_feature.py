"""A copy of the code without one feature: its folder and its lines of registration are deleted."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[2]
FEATURES = Path("worker/features")
NOTHING: Mapping[str, str] = MappingProxyType({})
#: The modules in which a feature is registered.
REGISTRATION = (
    "worker/features/__init__.py", "worker/features/clients.py", "worker/features/settings.py",
    "perdure/__init__.py", "perdure/__init__.pyi",
)  # fmt: skip
#: Folders at the top that are not copied.
LEFT_OUT = {".git", ".venv", ".venv-minimums", ".venv-newest", ".hypothesis", "site", "mutants"}
#: Folders that are not copied wherever they stand.
LEFT_OUT_ANYWHERE = {"__pycache__", "node_modules"}


def _left_out(folder: str, names: list[str]) -> set[str]:
    return set(names) & (LEFT_OUT_ANYWHERE | (LEFT_OUT if Path(folder) == ROOT else set()))


def copy_without(feature: str, root: Path, tables: Mapping[str, str] = NOTHING) -> None:
    """Copy the code to ``root``, a new folder, without a feature.

    Args:
        tables: A pattern for each file of a table with lines of features. Lines with it are left
            out.
    """
    shutil.copytree(ROOT, root, symlinks=True, ignore=_left_out)
    shutil.rmtree(root / FEATURES / feature)
    for name in REGISTRATION:
        module = root / name
        module.write_text(without_lines(feature, module.read_text("utf-8")), "utf-8")
    for name, pattern in tables.items():
        lines = (root / name).read_text("utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not (line[0] == " " and re.search(pattern, line))]
        (root / name).write_text("".join(kept), "utf-8")


def files_of_tests(feature: str, root: Path) -> list[str]:
    """Return the files of tests that import a feature, or a module of the support that does."""
    imports = re.compile(rf"^(?:from|import) perdure\.worker\.features\.{feature}\b", re.MULTILINE)
    supports = [
        path.stem
        for path in (root / "tests/support").glob("*.py")
        if imports.search(path.read_text("utf-8"))
    ]
    if supports:
        names = "|".join(supports)
        imports = re.compile(
            rf"{imports.pattern}|^from tests.support.({names}) import", re.MULTILINE
        )
    return [
        str(path.relative_to(root))
        for path in sorted((root / "tests").rglob("test_*.py"))
        if imports.search(path.read_text("utf-8"))
    ]


def without_lines(feature: str, text: str) -> str:
    """Return a module of the registration without the lines of a feature."""
    imports = [
        (node, alias.asname or alias.name)
        for node in ast.parse(text).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if f".features.{feature}" in f"{node.module}." or alias.name == feature
    ]
    names = [name for _, name in imports]
    gone = {line for node, _ in imports for line in range(node.lineno, node.end_lineno + 1)}
    own = re.compile(rf"\s*({'|'.join(names)})(\.\w+)?,\s*") if names else None
    lines = [
        line
        for number, line in enumerate(text.splitlines(keepends=True), 1)
        if number not in gone
        and not (own and own.fullmatch(line))
        and f"perdure.worker.features.{feature}." not in line
    ]
    return re.sub(rf'"{feature}",? ?', "", "".join(lines))
