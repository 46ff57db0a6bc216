"""Query line of a list of runs, as terms: ``status:errored -flow:react "words of the goal"``.

This is the syntax only. The meaning of the terms is in ``run_query.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from perdure.worker.errors import InvalidInput

#: Maximum characters of a query line. It is part of an address, as browsers send it.
MOST_CHARACTERS = 2000
#: Maximum number of terms of a query line, so that a look at one run stays cheap.
MOST_TERMS = 50
_QUOTED = r'"(?:[^"\\]|\\.)*"'
#: One term: an optional ``-``, an optional key, and a text that is in quotes if it has spaces. The
#: text of ``label:team="a b"`` begins without quotes and ends with them.
_TERM = re.compile(
    rf'(?P<not>-(?=\S))?(?:(?P<key>[A-Za-z_]+):)?(?P<bare>[^\s"]*)(?P<quoted>{_QUOTED})?(?=\s|$)',
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
#: A text that needs no quotes. A word with a colon would be read as a key.
_PLAIN = re.compile(r'[^\s"\\:-][^\s"\\:]*')
_PLAIN_VALUE = re.compile(r'[^\s"\\]+')


@dataclass(frozen=True)
class QueryTerm:
    """One term of a query line: ``key:text``, or a text alone (``key`` is then empty).

    ``is_not`` is True for a term that begins with ``-``. It chooses the runs that do not match.
    """

    key: str
    text: str
    is_not: bool = False

    def __str__(self) -> str:
        sign = "-" if self.is_not else ""
        if not self.key:
            return sign + (self.text if _PLAIN.fullmatch(self.text) else quoted(self.text))
        return f"{sign}{self.key}:" + (
            self.text if _PLAIN_VALUE.fullmatch(self.text) else quoted(self.text)
        )


def quoted(text: str) -> str:
    """Return a text in double quotes, escaped for a query line."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def terms_of(line: str) -> tuple[QueryTerm, ...]:
    """Return the terms of a query line, in order. An empty line has none.

    Keys become lowercase. They are not checked here.

    Raises:
        InvalidInput: A quote is not closed, a key has no text, or the line has too many characters
            or terms.
    """
    if len(line) > MOST_CHARACTERS:
        raise InvalidInput(f"query: expected at most {MOST_CHARACTERS} characters, got {len(line)}")
    terms: list[QueryTerm] = []
    position, line = 0, line.strip()
    while position < len(line):
        match = _TERM.match(line, position)
        if match is None or not match[0]:
            raise InvalidInput(
                f"query: cannot read {line[position : position + 40]!r}; expected key:value or "
                'words, and quotes around a text with spaces: flow:react "words of the goal"'
            )
        text = match["bare"] + _ESCAPED.sub(r"\1", (match["quoted"] or "")[1:-1])
        key = (match["key"] or "").lower()
        if not text and key:
            raise InvalidInput(f"query: expected a text after {key}:, such as {key}:text")
        if text:
            terms.append(QueryTerm(key, text, match["not"] is not None))
        position = match.end()
        while position < len(line) and line[position].isspace():
            position += 1
    if len(terms) > MOST_TERMS:
        raise InvalidInput(f"query: expected at most {MOST_TERMS} terms, got {len(terms)}")
    return tuple(terms)


def line_of(terms: Iterable[QueryTerm]) -> str:
    """Return the query line with these terms. ``terms_of`` of this line returns the same terms."""
    return " ".join(map(str, terms))


def with_term(line: str, key: str, text: str | None) -> str:
    """Return the query line with the term ``key:text``.

    It replaces all terms of this key, and is at the end.

    Args:
        text: The text of the new term. None only removes the terms of this key.

    Raises:
        InvalidInput: ``line`` is not a query line.
    """
    terms = [term for term in terms_of(line) if term.key != key]
    return line_of([*terms, QueryTerm(key, text)] if text is not None else terms)


def added_term(line: str, key: str, text: str) -> str:
    """Return the query line with the term ``key:text`` at its end.

    If the line already has this term, no term is added.

    Raises:
        InvalidInput: ``line`` is not a query line.
    """
    terms = terms_of(line)
    term = QueryTerm(key, text)
    return line_of(terms if term in terms else [*terms, term])
