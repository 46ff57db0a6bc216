"""The directory ``docs/reference/``: all pages, their differences from the code, and writing them."""

from __future__ import annotations

from tests.reference import cli, errors, http, metrics, python_api, settings
from tests.reference.markdown import DOCS, items, page, with_links

DIRECTORY = DOCS / "reference"
#: The index's description of each page.
TITLES = {
    "python.md": ("Python API", "names that `perdure` and `perdure.testing` export"),
    "cli.md": ("Command line", "commands, options and exit codes"),
    "http.md": ("HTTP API", "requests, parameters, bodies, answers and problems"),
    "settings.md": ("Settings", "keys, variables, defaults and units"),
    "errors.md": ("Errors", "classes, problems, statuses and exit codes"),
    "metrics.md": ("Metrics", "names, types and labels"),
}


def pages() -> dict[str, str]:
    """Return all pages by their path in ``docs/reference/``."""
    written = {"index.md": _index()}
    for part in (python_api, cli, http, settings, errors, metrics):
        written |= part.pages()
    return {path: with_links(text, f"reference/{path}") for path, text in written.items()}


def outdated() -> list[str]:
    """Return the pages that are missing, differ from the code, or are written from nothing."""
    expected = pages()
    stored = {
        str(path.relative_to(DIRECTORY)): path.read_text("utf-8")
        for path in DIRECTORY.rglob("*.md")
    }
    return sorted(path for path in {*expected, *stored} if expected.get(path) != stored.get(path))


def write() -> None:
    """Write all pages, and remove pages without code."""
    expected = pages()
    for path in DIRECTORY.rglob("*.md"):
        if str(path.relative_to(DIRECTORY)) not in expected:
            path.unlink()
    for name, text in expected.items():
        target = DIRECTORY / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")


def _index() -> str:
    rows = (f"[{title}]({path}): {about}" for path, (title, about) in TITLES.items())
    return page("Reference", "These pages are written from the code.", items(rows))
