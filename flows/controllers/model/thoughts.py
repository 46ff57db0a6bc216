"""Separation of reasoning that a model's server has left in the text of a reply, between tags.

A server without a reasoning parser for its model (llama.cpp, Ollama, vLLM, SGLang) sends the
reasoning as text: ``<think>...</think>`` before the answer. Some chat templates open the thought in
the prompt, so that the reply has only the end tag. The reasoning is no part of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

#: The tags of most open models, and the default of the model library.
THINK = ("<think>", "</think>")
#: Tags whose names are ordinary words, such as elements of an answer in XML. They count only before
#: the first words of a reply, and an end tag without a start tag does not count.
_WORDS = tuple(
    (f"<{name}>", f"</{name}>")
    for name in (
        *("thinking", "thought", "thoughts", "reasoning"),
        *("THINK", "THINKING", "THOUGHT", "REASONING"),
    )
)
#: The tags of gpt-oss. Other models end their replies with the same end tag.
_HARMONY = ("<|channel|>analysis<|message|>", "<|end|>")
#: Tags that count only at the beginning of a line. After other text, their end tag has to follow.
AT_START = (
    *_WORDS,
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("[THINK]", "[/THINK]"),  # Mistral
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Cohere
    ("<|channel>thought", "<channel|>"),  # Gemma
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    _HARMONY,
)
#: The beginning of an answer in the formats of gpt-oss and Cohere, and its possible ends.
_FINAL = re.compile(
    r"\s*(?:(?:<\|start\|>assistant)?<\|channel\|>final[^<]*<\|message\|>"
    r"|<\|START_(?:RESPONSE|TEXT)\|>)"
)
_FINAL_END = re.compile(r"(?:<\|(?:return|end|END_RESPONSE|END_TEXT)\|>)+\s*\Z")
#: A reply of gpt-oss whose server removed all tags. Prose about these names is none.
_BARE = re.compile(r"analysis(?![\s:.,;_-])(.*)(?<![ `])assistantfinal(?!\.\w| \S)(.*)", re.DOTALL)
#: A tag behind one of these characters is quoted, so it is text.
_QUOTES = ("`", '"', "'", "\u2018", "\u201c")
#: Maximum characters that wait for the end tag of a thought in the middle of a line.
MOST_HELD = 20_000


class Segment(NamedTuple):
    """A part of a reply's text.

    Attributes:
        kind: ``text`` outside of a thought, ``thought``, or ``open`` and ``close`` for a tag.
        content: The part, as it is in the reply.
        tags: The start tag and the end tag of the thought.
    """

    kind: Literal["text", "thought", "open", "close"]
    content: str
    tags: tuple[str, str]


class ThoughtSplitter:
    """A splitter of a streamed reply into text and thoughts.

    The reply comes in pieces that may end anywhere. A start tag counts at the beginning of a line.
    In the middle of a line it counts only if its end tag follows. It does not count in quotes or in
    a code fence. For the tags of other models, see ``AT_START``.

    Args:
        tags: The start tag and the end tag of the model's thoughts.
    """

    def __init__(self, tags: tuple[str, str] = THINK) -> None:
        self._main = tags
        self._starts = {pair[0]: pair for pair in (*AT_START, tags)}
        # Longer tags first, because one may be the beginning of another.
        starts = sorted(self._starts, key=len, reverse=True)
        self._start = re.compile("|".join(map(re.escape, starts)))
        self._inside: tuple[str, str] | None = None
        self._said = ""
        self._held = ""

    def _first_start(self, rest: str) -> tuple[int, tuple[str, str]] | None:
        """Return the first start tag in ``rest`` that may begin a thought.

        A tag other than the main one counts only at the beginning of a line. If it is in
        ``_WORDS``, it counts only at the beginning of the reply.

        Returns:
            The tag's place in ``rest``, and the pair of start tag and end tag. None if no start tag
                counts.
        """
        first = -1 if self._said.strip() else len(rest) - len(rest.lstrip())
        for mark in self._start.finditer(rest):
            tags = self._starts[mark[0]]
            if tags in _WORDS and tags != self._main and mark.start() != first:
                continue
            if tags == self._main or _is_line_start(self._said + rest[: mark.start()]):
                return mark.start(), tags
        return None

    def feed(self, piece: str) -> list[Segment]:
        """Add a piece of the reply, and return the segments that are certain now.

        An end that could be the beginning of a tag is held back until the next call.
        """
        rest, self._held = self._held + piece, ""
        segments: list[Segment] = []
        while rest:
            rest = self._inner(rest, segments) if self._inside else self._outer(rest, segments)
        return [each for each in segments if each.content]

    def flush(self) -> list[Segment]:
        """Return the segment that was held back, if any. Call this after the last piece."""
        held, self._held = self._held, ""
        if not held:
            return []
        if self._inside:
            return [Segment("thought", held, self._inside)]
        return [self._text(held)]

    def _text(self, content: str) -> Segment:
        self._said += content
        return Segment("text", content, self._main)

    def _inner(self, rest: str, segments: list[Segment]) -> str:
        """Add a thought's text to ``segments``, and return the piece's rest after the end tag."""
        assert self._inside is not None
        tags = self._inside
        place = rest.find(tags[1])
        if place < 0:
            keep = _tail(rest, (tags[1],))
            segments.append(Segment("thought", rest[: len(rest) - keep], tags))
            self._held = rest[len(rest) - keep :]
            return ""
        segments += [Segment("thought", rest[:place], tags), Segment("close", tags[1], tags)]
        self._inside = None
        return rest[place + len(tags[1]) :]

    def _outer(self, rest: str, segments: list[Segment]) -> str:
        """Add text outside of thoughts to ``segments``. Return the rest."""
        start = self._first_start(rest)
        if start is None:
            keep = _tail(rest, self._starts)
            segments.append(self._text(rest[: len(rest) - keep]))
            self._held = rest[len(rest) - keep :]
            return ""
        place, tags = start
        after = place + len(tags[0])
        before = self._said + rest[:place]
        if is_quoted(before):
            segments.append(self._text(rest[:after]))
            return rest[after:]
        opens = _is_line_start(before) and (tags == self._main or not before.strip())
        if not opens and tags[1] not in rest[after:] and len(rest) <= MOST_HELD:
            segments.append(self._text(rest[:place]))
            self._held = rest[place:]
            return ""
        if not opens and tags[1] not in rest[after:]:
            segments.append(self._text(rest[:after]))
            return rest[after:]
        segments += [self._text(rest[:place]), Segment("open", tags[0], tags)]
        self._inside = tags
        return rest[after:]


def is_quoted(before: str) -> bool:
    """Return whether a tag is quoted, and so ordinary text.

    Args:
        before: The text before the tag.
    """
    return before.endswith(_QUOTES) or before.count("```") % 2 == 1


def without_thoughts(text: str, tags: tuple[str, str] = THINK) -> tuple[str, str]:
    """Split a complete reply, and return its text without thoughts, and the thoughts."""
    if bare := _BARE.fullmatch(text.strip()):
        return bare[2], bare[1].strip()
    if not any(mark in text for mark in ("<", "[", "\u25c1", *tags)):
        return text, ""
    splitter = ThoughtSplitter(tags)
    segments = splitter.feed(text) + splitter.flush()
    words = "".join(each.content for each in segments if each.kind == "text")
    thoughts = [each.content for each in segments if each.kind == "thought"]
    for pair in (tags, *AT_START):
        if (unopened := _unopened(words, pair, pair == tags)) is not None:
            thoughts.insert(0, words[:unopened].replace(pair[1], "\n"))
            words = words[unopened + len(pair[1]) :]
    if final := _FINAL.match(words):
        words = _FINAL_END.sub("", words[final.end() :])
    return words, "\n\n".join(each.strip() for each in thoughts if each.strip())


def _unopened(words: str, tags: tuple[str, str], is_main: bool) -> int | None:
    """Return the place of the end tag of a thought that the prompt's template opened.

    The reply has only this end tag, without a start tag. The end of another model's tag in angle
    brackets counts only at the end of its line.

    Returns:
        None if no end tag counts.
    """
    if tags == _HARMONY or (tags in _WORDS and not is_main):
        return None
    place = words.rfind(tags[1])
    while place >= 0:
        line = words[place + len(tags[1]) :].partition("\n")[0]
        if (
            (is_main or not line.strip() or not tags[1].startswith("</"))
            and (tags[0] if is_main else tags[0].rstrip(">")) not in words[:place]
            and not is_quoted(words[:place])
        ):
            return place
        place = words.rfind(tags[1], 0, place)
    return None


def _is_line_start(before: str) -> bool:
    return not before.rpartition("\n")[2].strip()


def _tail(text: str, tags: Iterable[str]) -> int:
    """Return the length of the longest end of a text that could begin a tag."""
    lengths = (
        length
        for tag in tags
        for length in range(min(len(tag) - 1, len(text)), 0, -1)
        if text.endswith(tag[:length])
    )
    return max(lengths, default=0)
