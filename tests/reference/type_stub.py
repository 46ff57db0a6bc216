"""``perdure/__init__.pyi``: the public names for type checkers and editors, from ``perdure._NAMES``."""

from __future__ import annotations

from pathlib import Path

import perdure

PATH = Path(__file__).parents[2] / "perdure/__init__.pyi"
HEAD = '''"""The public names of Perdure. `make reference` writes this file from perdure/__init__.py."""

'''
WIDTH = 100


def text() -> str:
    """Return the stub as it should be."""
    imports = "".join(
        _import(module, sorted(names)) for module, names in sorted(perdure._NAMES.items())
    )
    return f"{HEAD}{imports}\n__all__: list[str]\n"


def _import(module: str, names: list[str]) -> str:
    aliases = [f"{name} as {name}" for name in names]
    line = f"from {module} import {', '.join(aliases)}\n"
    if len(line) <= WIDTH:
        return line
    return f"from {module} import (\n{''.join(f'    {alias},{chr(10)}' for alias in aliases)})\n"
