"""Visiting the dashboard without a browser, as a person without JavaScript does: pages are fetched,
forms are filled in and sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from types import TracebackType

import httpx2

from tests.support.html_checks import Markup

#: Seconds that a page may take on a machine that is busy with other tests.
PATIENCE = 60.0


@dataclass
class Form:
    """A form of a page: its target, and its values, hidden fields included; of buttons the names
    alone.
    """

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[str] = field(default_factory=list)


class Page(HTMLParser):
    """A page as it was answered.

    Attributes:
        text: its readable text, in one line. forms: those to be sent. links: their targets.
        headings: by their words.
        chosen: the ids of the runs on which its form acts.
    """

    #: Text between these tags is not read, or is read elsewhere.
    UNREAD = ("script", "style", "title", "svg")

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__()
        self.status, self.url, self.html = response.status_code, str(response.url), response.text
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.headings: list[str] = []
        self.chosen: list[str] = []
        self._words: list[str] = []
        self._inside: list[str] = []
        self._area: str | None = None
        self._select: str | None = None
        self.feed(response.text)
        self.close()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._words).split())

    def form(self, action: str) -> Form:
        """Return the form with that action."""
        found = [
            form for form in self.forms if form.action.endswith(action) and form.method == "post"
        ]
        assert found, (
            f"no form is sent to {action}; there are {[form.action for form in self.forms]}: {self.text}"
        )
        return found[0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self._inside.append(tag)
        if tag == "form":
            self.forms.append(Form(told.get("action", ""), told.get("method", "get")))
        elif tag == "a":
            self.links.append(told.get("href", ""))
        elif tag in ("h1", "h2", "h3"):
            self.headings.append("")
        elif (
            self.forms and tag == "input" and (told.get("type") != "checkbox" or "checked" in told)
        ):
            self.forms[-1].fields[told.get("name", "")] = told.get("value", "")
            if told.get("name") == "run":
                self.chosen.append(told.get("value", ""))
        elif self.forms and tag == "textarea":
            self._area = told.get("name", "")
            self.forms[-1].fields[self._area] = ""
        elif self.forms and tag == "select":
            self._select = told.get("name", "")
        elif self.forms and tag == "option" and self._select is not None:
            if "selected" in told or self._select not in self.forms[-1].fields:
                self.forms[-1].fields[self._select] = told.get("value", "")
        elif self.forms and tag == "button":
            self.forms[-1].buttons.append(told.get("value", ""))
        if tag in ("input", "link", "meta", "br"):
            self._inside.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass
        self._area = None if tag == "textarea" else self._area
        self._select = None if tag == "select" else self._select

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self.forms[-1].fields[self._area] += data.removeprefix("\n")
        elif not set(self.UNREAD) & set(self._inside):
            self._words.append(data)
            if self.headings and self._inside and self._inside[-1] in ("h1", "h2", "h3"):
                self.headings[-1] += data.strip()


class Visitor:
    """A person at a browser that runs no scripts."""

    def __init__(self, url: str, token: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx2.Client(
            base_url=url, follow_redirects=True, headers=headers, timeout=PATIENCE
        )

    def see(self, path: str) -> Page:
        """Get the page there."""
        return Page(self._http.get(path))

    def send(self, page: Page, action: str, **filled: str) -> Page:
        """Fill in the form of ``page`` that goes to ``action``, press its button, and see the page
        that comes.
        """
        form = page.form(action)
        return Page(
            self._http.post(
                form.action, data={**form.fields, **filled}, headers={"Referer": page.url}
            )
        )

    def choose(self, page: Page, **filled: str) -> Page:
        """Submit the action on all runs of the page."""
        form = page.form("/chosen")
        data: dict[str, str | list[str]] = {**form.fields, **filled, "run": page.chosen}
        return Page(self._http.post(form.action, data=data, headers={"Referer": page.url}))

    def __enter__(self) -> Visitor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()


@contextmanager
def visiting(url: str, token: str | None = None) -> Iterator[Visitor]:
    """Yield a visitor of the dashboard there."""
    with Visitor(url, token) as visitor:
        yield visitor


def sound(page: Page, status: int = 200) -> Page:
    """Return the page, once checked: this status, well-formed, and nothing that a strict policy
    forbids.
    """
    assert page.status == status, f"{page.url} answered {page.status}: {page.text}"
    assert Markup(page.html).faults == []
    for hostile in ("\u202e", "\x00", "<script>alert"):
        assert hostile not in page.html
    return page
