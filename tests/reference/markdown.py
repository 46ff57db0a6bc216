"""Markdown that GitHub and mkdocs show alike: wrapped text, lists, tables, code, headings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

WIDTH = 100
#: A span of code, with one or two backticks as docstrings have them.
_CODE = re.compile(r"``(.+?)``|`([^`]+)`", re.DOTALL)
#: A line that begins like this would be read as a list item, a heading or a quotation.
_BLOCK = re.compile(r"([-+*>#]|#+|\d+[.)])(\s|$)")
_PAGE = re.compile(r"\bdocs/([\w/-]+\.md)\b")
DOCS = Path(__file__).parents[2] / "docs"
#: Stands for the path from a page to ``docs/`` until it is known which page has the link. It is
#: as long as the longest such path, so that no line grows beyond 100 columns.
_UP = "docs::"


def text(written: str) -> str:
    """Return the text of a docstring, comment or help as Markdown.

    Code spans get one backtick. Characters that Markdown would interpret elsewhere are escaped.
    ``docs/NAME.md`` becomes a link if there is such a page.
    """
    parts, end = [], 0
    for span in _CODE.finditer(written):
        parts += [_escaped(written[end : span.start()]), f"`{span[1] or span[2]}`"]
        end = span.end()
    return "".join([*parts, _escaped(written[end:])])


def paragraph(markdown: str, indent: str = "") -> str:
    """Return a paragraph wrapped at 100 columns; lines after the first begin with ``indent``."""
    lines: list[str] = []
    for line in textwrap.wrap(
        " ".join(markdown.split()),
        WIDTH - len(indent),
        break_long_words=False,
        break_on_hyphens=False,
    ):
        if lines and _BLOCK.match(line):
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    return f"\n{indent}".join(lines)


def items(rows: Iterable[str]) -> str:
    """Return a list with one item for each row."""
    return "\n".join(f"- {paragraph(row, '  ')}" for row in rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table.

    Raises:
        ValueError: A cell has a pipe, which GitHub and mkdocs escape in different ways.
    """
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    return "\n".join(lines)


def code(source: str, language: str = "python") -> str:
    """Return a block of code."""
    return f"```{language}\n{source}\n```"


def anchor(heading: str) -> str:
    """Return the anchor that both GitHub and mkdocs give to a heading."""
    return re.sub(r"[\s]", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def page(title: str, introduction: str, *blocks: str) -> str:
    """Return a whole page, with a note on where it comes from."""
    note = "<!-- Written by `make reference` from the code. Edit the code, not this page. -->"
    return "\n\n".join([f"# {title}", note, introduction, *filter(None, blocks)]) + "\n"


def with_links(markdown: str, path: str) -> str:
    """Return the Markdown of the page ``docs/PATH`` with its links to other pages."""
    return markdown.replace(f"]({_UP}", f"]({'../' * path.count('/')}")


def _escaped(written: str) -> str:
    return _PAGE.sub(
        lambda found: f"[{found[0]}]({_UP}{found[1]})" if (DOCS / found[1]).exists() else found[0],
        re.sub(r"([<*\[\]])", r"\\\1", written),
    )


def _row(cells: Sequence[str]) -> str:
    for cell in cells:
        if "|" in cell or "\n" in cell:
            raise ValueError(f"no pipe and no line break may be in a cell of a table: {cell!r}")
    return f"| {' | '.join(cells)} |"
