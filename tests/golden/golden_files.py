"""Golden files: what the product looks like from outside, written down and compared.

A test describes one outside of the product as JSON values and calls ``compare``. The description
names no module and quotes no prose, so moving code and rewriting texts leave the files unchanged.
The product's own name is stored as ``PRODUCT``, so renaming the product leaves them unchanged too.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

#: The product's name in code, keys and commands. A rename changes this line and no golden file.
PRODUCT = "perdure"
#: The import names of the product's own packages.
PACKAGES = ("perdure",)
#: Set by ``python -m tests.golden``: write the files instead of comparing with them.
REWRITE = "GOLDEN_REWRITE"
FILES = Path(__file__).parent / "files"
#: Lines of difference that a failing test shows.
MAX_LINES = 200

_MODULE_PATH = re.compile(r"(?<![\w./-])(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")


def compare(name: str, value: Any) -> None:
    """Fail with a readable difference unless ``files/NAME.json`` holds this value.

    Args:
        name: the file's name without its ending.
        value: dicts, lists and scalars. Lists that are sets must be given as sets.
    """
    actual = as_text(value)
    path = FILES / f"{name}.json"
    if os.environ.get(REWRITE):
        path.write_text(actual, "utf-8")
        return
    expected = path.read_text("utf-8") if path.exists() else ""
    if actual == expected:
        return
    lines = list(
        difflib.unified_diff(
            expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm="", n=4
        )
    )
    left_out = [f"... {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    pytest.fail(
        "\n".join(
            [
                f"{name} differs from tests/golden/files/{name}.json:",
                *lines[:MAX_LINES],
                *left_out,
                "If the change is intended, rewrite the file, review it and commit it:",
                f"    .venv/bin/python -m tests.golden {name}",
            ]
        ),
        pytrace=False,
    )


def as_text(value: Any) -> str:
    """Return a golden file's text: sorted keys, sorted sets, the product's name replaced."""
    return json.dumps(_neutral(value), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def without_product(text: str) -> str:
    """Return ``text`` with the product's name replaced in its three spellings."""
    for name, neutral in (
        (PRODUCT.upper(), "PRODUCT"),
        (PRODUCT.title(), "Product"),
        (PRODUCT, "PRODUCT"),
    ):
        text = text.replace(name, neutral)
    return text


def without_modules(text: str) -> str:
    """Return ``text`` with the module path removed from each dotted name."""
    return _MODULE_PATH.sub("", text)


def _neutral(value: Any) -> Any:
    if isinstance(value, str):
        return without_product(value)
    if isinstance(value, dict):
        return {without_product(str(key)): _neutral(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_neutral(item) for item in value), key=json.dumps)
    if isinstance(value, list | tuple):
        return [_neutral(item) for item in value]
    return value
