"""Docstrings in Google style as Markdown, and the comments and docstrings of attributes."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import cache
from types import ModuleType

from tests.reference.markdown import code, items, paragraph, text

SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example", "Examples", "Note")
#: Sections that list names.
_LISTS = ("Args", "Attributes", "Raises")
_TITLES = {"Args": "Arguments"}
_HEAD = re.compile(rf"({'|'.join(SECTIONS)}):$")
_ENTRY = re.compile(r"([*\w][\w.*, ]*): (.*)", re.DOTALL)


def markdown_of(docstring: str | None, omitted: str | None = None) -> str:
    """Return a docstring as Markdown, its sections as lists with a bold title."""
    blocks: list[str] = []
    for title, lines in _sections(inspect.cleandoc(docstring or "")):
        if title == omitted:
            continue
        if title:
            blocks.append(f"**{_TITLES.get(title, title)}**")
        if title in _LISTS:
            blocks.append(items(map(_entry, _entries(lines))))
        else:
            source = "\n".join(lines)
            blocks += _paragraphs(textwrap.dedent(source) if title else source)
    return "\n\n".join(blocks)


def summary_of(docstring: str | None) -> str:
    """Return the first sentence of a docstring, as Markdown."""
    first = inspect.cleandoc(docstring or "").partition("\n\n")[0]
    sentence = re.split(r"(?<=[.?!])\s+(?=[A-Z`])", " ".join(first.split()))[0]
    return text(sentence)


def descriptions(docstring: str | None) -> dict[str, str]:
    """Return the descriptions in the sections Args and Attributes of a docstring, by name."""
    return {
        name.strip(" *"): found[2]
        for title, lines in _sections(inspect.cleandoc(docstring or ""))
        if title in ("Args", "Attributes")
        for entry in _entries(lines)
        if (found := _ENTRY.match(entry))
        for name in found[1].split(",")
    }


@cache
def attribute_comments(owner: type | ModuleType) -> dict[str, str]:
    """Return the ``#:`` comment above each attribute of a class or module, by name.

    A text below the attribute describes it too.
    """
    try:
        lines = textwrap.dedent(inspect.getsource(owner)).splitlines()
    except (OSError, TypeError):
        return {}
    tree: ast.Module | ast.ClassDef = ast.parse("\n".join(lines))
    if isinstance(owner, type):
        definition = tree.body[0]
        assert isinstance(definition, ast.ClassDef)
        tree = definition
    comments: dict[str, str] = {}
    comment, end = "", -1
    for statement, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        targets = (
            [statement.target]
            if isinstance(statement, ast.AnnAssign)
            else statement.targets
            if isinstance(statement, ast.Assign)
            else []
        )
        # In a module, names on consecutive lines share the comment above the first of them.
        shared = comment if isinstance(owner, ModuleType) and statement.lineno == end + 1 else ""
        comment = _comment_above(lines, statement.lineno - 1) or _text_of(following) or shared
        end = statement.end_lineno or end
        for target in targets:
            if isinstance(target, ast.Name) and comment:
                comments[target.id] = comment
    return comments


def _text_of(statement: ast.stmt | None) -> str:
    """Return the text that a statement consists of, or an empty text."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return " ".join(inspect.cleandoc(value).split()) if isinstance(value, str) else ""
    return ""


def _comment_above(lines: list[str], index: int) -> str:
    found: list[str] = []
    while index and lines[index - 1].strip().startswith("#:"):
        index -= 1
        found.insert(0, lines[index].strip().removeprefix("#:").strip())
    return " ".join(found)


def _sections(docstring: str) -> list[tuple[str, list[str]]]:
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line in docstring.splitlines():
        if head := _HEAD.match(line):
            sections.append((head[1], []))
        elif sections[-1][0] and line and not line.startswith(" "):
            sections.append(("", [line]))
        else:
            sections[-1][1].append(line)
    return sections


def _paragraphs(source: str) -> list[str]:
    blocks = re.split(r"\n[ ]*\n", source.strip("\n"))
    return [_block(re.sub("::$", ":", block)) for block in blocks if block.strip()]


def _block(block: str) -> str:
    if block.startswith(("    ", ">>> ")):
        return code(textwrap.dedent(block))
    if block.startswith(("- ", "* ")):
        return items(text(item) for item in re.split(r"(?m)^[-*] ", block)[1:])
    return paragraph(text(block))


def _entries(lines: list[str]) -> list[str]:
    """Return the entries of a section: one line each, with the indented lines below it."""
    entries: list[str] = []
    for line in textwrap.dedent("\n".join(lines)).strip().splitlines():
        if entries and (line.startswith(" ") or not line):
            entries[-1] += f" {line.strip()}"
        else:
            entries.append(line)
    return entries


def _entry(entry: str) -> str:
    found = _ENTRY.match(entry)
    if found is None:
        return text(entry)
    names = ", ".join(f"`{name.strip()}`" for name in found[1].split(","))
    return f"{names}: {text(found[2])}"
