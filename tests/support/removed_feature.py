"""A copy of the code without one feature: its folder and its lines of registration are deleted."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
FEATURES = Path("worker/features")
#: The modules in which a feature is registered.
REGISTRATION = ("__init__.py", "clients.py", "settings.py")
#: What a copy needs to be tested and checked.
COPIED = (
    "worker", "flows", "config", "tests", "perdure", "docs", "pyproject.toml", "README.md",
    "Makefile", "docker-compose.yml", "Dockerfile", "CHANGELOG.md", "mkdocs.yml",
)  # fmt: skip


def copy_without(feature: str, root: Path) -> None:
    """Copy the code to ``root``, a new folder, without a feature."""
    root.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            left_out = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(ROOT / name, root / name, symlinks=True, ignore=left_out)
        else:
            shutil.copy(ROOT / name, root / name)
    shutil.rmtree(root / FEATURES / feature)
    for name in REGISTRATION:
        module = root / FEATURES / name
        module.write_text(without_lines(feature, module.read_text("utf-8")), "utf-8")


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
        if number not in gone and not (own and own.fullmatch(line))
    ]
    return re.sub(rf'"{feature}",? ?', "", "".join(lines))
