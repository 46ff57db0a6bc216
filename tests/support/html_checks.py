"""The faults of a page as HTML, and the parts that a strict content security policy would block."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

#: Elements that have no end tag.
VOID = {
    "area",
    "base",
    "br",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "source",
    "track",
    "wbr",
}
#: Attributes that name elements of the page by their ids.
REFERENCES = ("for", "list", "aria-labelledby", "aria-describedby", "aria-controls")


class Markup(HTMLParser):
    """Reads a page; ``faults`` lists its faults."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.scripts: list[str] = []
        self._open: list[str] = []
        self._ids: Counter[str] = Counter()
        self._named: list[tuple[str, str]] = []
        if not html.lstrip().lower().startswith("<!doctype html>"):
            self.faults.append("it does not begin with a doctype")
        self.feed(html)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self._open]
        self.faults += [
            f"the id {name!r} is there {times} times"
            for name, times in self._ids.items()
            if times > 1
        ]
        self.faults += [
            f"{attribute} names {name!r}, which is not there"
            for attribute, name in self._named
            if name not in self._ids
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self._open.append(tag)
        self._look(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._look(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID or not self._open or self._open[-1] != tag:
            self.faults.append(
                f"</{tag}> on line {self.getpos()[0]} closes {self._open[-1:] or 'nothing'}"
            )
        else:
            self._open.pop()

    def _look(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        where = f"<{tag}> on line {self.getpos()[0]}"
        if len(told) < len(attrs):
            self.faults.append(f"{where} has an attribute twice")
        self.faults += [
            f"{where} has {name}" for name in told if name.startswith("on") or name == "style"
        ]
        self.faults += [
            f"{where} leads to a script"
            for name in ("href", "action", "src")
            if told.get(name, "").lower().startswith("javascript:")
        ]
        if tag == "style" or (tag == "script" and "src" not in told):
            self.faults.append(f"{where} stands in the page itself")
        if tag == "script":
            self.scripts.append(told.get("src", ""))
        if told.get("id"):
            self._ids[told["id"]] += 1
        self._named += [(name, each) for name in REFERENCES for each in told.get(name, "").split()]
