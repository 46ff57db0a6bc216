"""The page of settings: type, default, unit and variable of each, from the code.

Their descriptions are the comments of ``config/worker.toml``, which ships as the file to edit.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from perdure.worker.settings import PREFIX, Settings
from tests.reference.markdown import anchor, items, page, paragraph, table, text

FILE = Path(__file__).parents[2] / "config" / "worker.toml"
_SECTION = re.compile(r"# --- (.+?) -+$")
_KEY = re.compile(r"#? ?(\w+) = ")
#: Units that a name does not end with.
UNITS = {
    "concurrency": "rounds",
    "max_attempts": "attempts",
    "max_losses": "workers",
    "max_children": "runs",
    "max_depth": "generations",
    "max_tree": "runs",
    "max_notes": "notes",
    "retention": "days",
    "wait_replicas": "replicas",
}
_TYPES = {str: "text", float: "number", int: "whole number", bool: "true or false"}
_BOUNDS = {Ge: ("ge", "at least"), Gt: ("gt", "more than"), Le: ("le", "at most")}


class Block(NamedTuple):
    """A comment of the settings file with the settings that it describes."""

    section: str
    description: str
    names: tuple[str, ...]


def pages() -> dict[str, str]:
    """Return the page by its path in ``docs/reference/``."""
    introduction = paragraph(
        "A flag of a command overrides a variable, a variable overrides `config/worker.toml`, and"
        " that file overrides the default. An unknown key is an error that names the nearest known"
        " one. In a variable, the items of a list are separated by commas. A duration is a number"
        " of seconds or a text like `90s` or `10m`."
    )
    rows = [
        (
            f"[`{name}`](#{anchor(_title(_block_of(name)))})",
            f"`{variable(name)}`",
            default(field),
            unit(name),
        )
        for name, field in Settings.model_fields.items()
    ]
    return {
        "settings.md": page(
            "Settings",
            introduction,
            table(("Key in `config/worker.toml`", "Variable", "Default", "Unit"), rows),
            *_sections(),
        )
    }


def blocks(source: str | None = None) -> list[Block]:
    """Return the comments of the settings file with their keys, in its order."""
    found: list[Block] = []
    section, comment, names = "", [], []  # type: ignore[var-annotated]
    lines = (FILE.read_text("utf-8") if source is None else source).splitlines()
    for line in [*lines, ""]:
        if head := _SECTION.match(line):
            section, comment, names = head[1], [], []
        elif key := _KEY.match(line):
            names.append(key[1])
        elif line.startswith("#"):
            comment.append(line.removeprefix("#").strip())
        else:
            if names:
                found.append(Block(section, " ".join(comment), tuple(names)))
            comment, names = [], []
    return found


def gaps() -> list[str]:
    """Return the settings that the file does not describe, and the numbers without a unit."""
    described = {name for block in blocks() for name in block.names if block.description}
    return [f"{name}: no comment in {FILE.name}" for name in Settings.model_fields if name not in described] + [
        f"{name}: no unit"
        for name, field in Settings.model_fields.items()
        if type_of(field).startswith(("number", "whole", "duration")) and not unit(name)
    ]  # fmt: skip


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def unit(name: str) -> str:
    """Return the unit of a number, or an empty text if the setting is no number."""
    for ending in ("seconds", "bytes"):
        if name.endswith(f"_{ending}"):
            return ending
    return UNITS.get(name, "")


def default(field: FieldInfo) -> str:
    """Return the default as written in the settings file."""
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    return f"`{value:g}`" if isinstance(value, float) and value < 1e5 else f"`{_plain(value)}`"


def type_of(field: FieldInfo) -> str:
    """Return a setting's type in words, with its bounds."""
    annotation: Any = field.annotation
    options = [each for each in typing.get_args(annotation) if each is not type(None)]
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        annotation = options[0]
    is_duration = any(isinstance(each, BeforeValidator) for each in field.metadata)
    if typing.get_origin(annotation) is typing.Annotated:
        is_duration = True
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) is Literal:
        return " or ".join(f"`{each}`" for each in typing.get_args(annotation))
    if typing.get_origin(annotation) is tuple:
        return "list of texts"
    if typing.get_origin(annotation) is Mapping:
        return "tables by name"
    words = ["duration" if is_duration else _TYPES[annotation]]
    for bound in _bounds(field):
        if type(bound) in _BOUNDS:
            attribute, phrase = _BOUNDS[type(bound)]
            words.append(f"{phrase} {getattr(bound, attribute):g}")
    return ", ".join(words)


def _bounds(field: FieldInfo) -> list[Any]:
    return [each for each in field.metadata if isinstance(each, Ge | Gt | Le | Lt)]


def _plain(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, float) else f"{value}"


def _block_of(name: str) -> Block:
    return next(block for block in blocks() if name in block.names)


def _title(block: Block) -> str:
    return ", ".join(f"`{name}`" for name in block.names)


def _sections() -> list[str]:
    written: list[str] = []
    section = ""
    for block in blocks():
        if block.section != section:
            section = block.section
            written.append(f"## {section[0].upper()}{section[1:]}")
        facts = [
            f"`{name}`: {type_of(field)}; default {default(field)}"
            + (f" ({unit(name)})" if unit(name) else "")
            for name in block.names
            for field in [Settings.model_fields[name]]
        ]
        written.append(
            f"### {_title(block)}\n\n{paragraph(text(block.description))}\n\n{items(facts)}"
        )
    return written
