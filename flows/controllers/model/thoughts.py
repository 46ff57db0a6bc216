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
    for word in ("think", "thinking", "thought", "thoughts", "reasoning")
    for name in (word, word.upper(), word.capitalize())
    if name != "think"
)
#: The tags of gpt-oss, also with the role before them. Other models end their replies with the same
#: end tag.
_HARMONY = (
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<|start|>assistant<|channel|>analysis<|message|>", "<|end|>"),
)
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
    *_HARMONY,
)
#: The beginning of an answer in the formats of gpt-oss and Cohere, and its possible ends.
_FINAL = re.compile(
    r"\s*(?:(?:<\|start\|>assistant)?<\|channel\|>final(?:[^<]|<\|constrain\|>)*+<\|message\|>"
    r"|<\|START_(?:RESPONSE|TEXT)\|>)"
)
#: It begins behind no tag of its own: a search from each of many tags would take quadratic time.
_FINAL_END = re.compile(
    r"(?<!<\|return\|>)(?<!<\|end\|>)(?<!<\|END_RESPONSE\|>)(?<!<\|END_TEXT\|>)"
    r"(?:<\|(?:return|end|END_RESPONSE|END_TEXT)\|>)++\s*\Z"
)
#: A reply of gpt-oss whose server removed all tags. Prose about these names is none, and a mark in
#: quotes is a part of the answer.
_BARE = re.compile(
    r"analysis(?![\s:.,;_/(-])(.*)"
    r"(?<![ `])(?:(?<![\"'])assistantfinal|assistantfinal(?![\"']))(?!\.\w| \S)(.*)",
    re.DOTALL,
)
#: The end of a line without words.
_LINE_END = re.compile(r"[^\S\n]*+(?:\n|\Z)")
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


class TextBefore:
    """The text before a tag. It grows, and holds only what decides whether the tag counts.

    Attributes:
        is_blank: Whether the text has no words yet.
        is_line_start: Whether the text's last line has no words.
        is_in_span: Whether a code span is open in the text's last line.
    """

    def __init__(self) -> None:
        self.is_blank = self.is_line_start = True
        self.is_in_span = False
        self._end = ""
        self._ticks = ""
        self._fences = 0

    @property
    def is_quoted(self) -> bool:
        """Whether a tag behind the text is quoted, and so ordinary text."""
        return self._end in _QUOTES or self._fences % 2 == 1

    def add(self, text: str) -> None:
        """Add the text that follows."""
        if not text:
            return
        self.is_blank = self.is_blank and not text.strip()
        _, line_break, line = text.rpartition("\n")
        self.is_line_start = (bool(line_break) or self.is_line_start) and not line.strip()
        self.is_in_span = (self.is_in_span and not line_break) ^ (line.count("`") % 2 == 1)
        self._end = text[-1]
        # The backticks at the end may be the beginning of a fence.
        text = self._ticks + text
        self._fences += text.count("```")
        self._ticks = "`" * ((len(text) - len(text.rstrip("`"))) % 3)


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
        self._before = TextBefore()
        self._held = ""
        self._last_ends: dict[str, int] = {}

    def feed(self, piece: str) -> list[Segment]:
        """Add a piece of the reply, and return the segments that are certain now.

        An end that could be the beginning of a tag is held back until the next call.
        """
        rest, self._held = self._held + piece, ""
        self._last_ends = {}
        segments: list[Segment] = []
        at = 0
        while at < len(rest):
            read = self._inner if self._inside else self._outer
            at = read(rest, at, segments)
        return [each for each in segments if each.content]

    def flush(self) -> list[Segment]:
        """Return the segment that was held back, if any. Call this after the last piece."""
        held, self._held = self._held, ""
        if not held:
            return []
        if self._inside:
            return [Segment("thought", held, self._inside)]
        self._before.add(held)
        return [Segment("text", held, self._main)]

    def _inner(self, rest: str, begin: int, segments: list[Segment]) -> int:
        """Add a thought's text from ``begin`` to ``segments``, and return the end of its tag."""
        assert self._inside is not None
        tags = self._inside
        place = rest.find(tags[1], begin)
        if place < 0:
            certain = len(rest) - _tail(rest[begin:], (tags[1],))
            segments.append(Segment("thought", rest[begin:certain], tags))
            self._held = rest[certain:]
            return len(rest)
        segments += [Segment("thought", rest[begin:place], tags), Segment("close", tags[1], tags)]
        self._inside = None
        return place + len(tags[1])

    def _outer(self, rest: str, begin: int, segments: list[Segment]) -> int:
        """Add the text from ``begin`` to the next thought to ``segments``, and return its end.

        A tag other than the main one counts only at the beginning of a line. If it is in
        ``_WORDS``, it counts only at the beginning of the reply.
        """
        before, at = self._before, begin
        for mark in self._start.finditer(rest, begin):
            before.add(rest[at : mark.start()])
            at = mark.start()
            tags = self._starts[mark[0]]
            is_main = tags == self._main
            if not (is_main or (before.is_blank if tags in _WORDS else before.is_line_start)):
                continue
            if before.is_quoted:
                continue
            opens = before.is_line_start and (is_main or before.is_blank)
            if not opens and not self._ends_after(mark.end(), rest, tags):
                if len(rest) - at > MOST_HELD:
                    continue
                segments.append(Segment("text", rest[begin:at], self._main))
                self._held = rest[at:]
                return len(rest)
            text = Segment("text", rest[begin:at], self._main)
            segments += [text, Segment("open", tags[0], tags)]
            self._inside = tags
            return mark.end()
        certain = len(rest) - _tail(rest[begin:], self._starts)
        before.add(rest[at:certain])
        segments.append(Segment("text", rest[begin:certain], self._main))
        self._held = rest[certain:]
        return len(rest)

    def _ends_after(self, place: int, rest: str, tags: tuple[str, str]) -> bool:
        """Return whether an end tag follows. Each end tag is searched once in a piece."""
        if tags[1] not in self._last_ends:
            self._last_ends[tags[1]] = rest.rfind(tags[1])
        return self._last_ends[tags[1]] >= place


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


def has_bare_thoughts(text: str) -> bool:
    """Return whether a reply of gpt-oss without its tags could not be split.

    Its reasoning may name commands that the model then rejects.
    """
    return text.lstrip().startswith("analysis") and "assistantfinal" in text


def _unopened(words: str, tags: tuple[str, str], is_main: bool) -> int | None:
    """Return the place of the end tag of a thought that the prompt's template opened.

    The reply has only this end tag, without a start tag. The end of another model's tag in angle
    brackets counts only at the end of its line.

    Returns:
        None if no end tag counts.
    """
    if tags in _HARMONY or (tags in _WORDS and not is_main):
        return None
    start = words.find(tags[0] if is_main else tags[0].rstrip(">"))
    before, at, place = TextBefore(), 0, None
    for end in re.finditer(re.escape(tags[1]), words[: start if start >= 0 else None]):
        before.add(words[at : end.start()])
        at = end.start()
        counts = is_main or not tags[1].startswith("</") or _LINE_END.match(words, end.end())
        if counts and not before.is_quoted:
            place = at
    return place


def _tail(text: str, tags: Iterable[str]) -> int:
    """Return the length of the longest end of a text that could begin a tag."""
    lengths = (
        length
        for tag in tags
        for length in range(min(len(tag) - 1, len(text)), 0, -1)
        if text.endswith(tag[:length])
    )
    return max(lengths, default=0)
