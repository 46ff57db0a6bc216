"""Separation of reasoning that a model's server has left in the text of a reply, between tags.

A server without a reasoning parser for its model (llama.cpp, Ollama, vLLM, SGLang) sends the
reasoning as text: ``<think>...</think>`` before the answer. Some chat templates open the thought in
the prompt, so that the reply has only the end tag. The reasoning is no part of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

#: The tags of most open models, and the default of the model library.
THINK = ("<think>", "</think>")
#: Tags that count only as the beginning of a reply, because they are also ordinary words.
AT_START = (
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
)
#: The beginning of an answer in the Harmony format of gpt-oss, and its possible ends.
_FINAL = re.compile(r"\s*(<\|start\|>assistant)?<\|channel\|>final[^<]*<\|message\|>")
_FINAL_END = re.compile(r"(<\|(return|end)\|>)+\s*\Z")
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
    a code fence.

    Args:
        tags: The start tag and the end tag of the model's thoughts.
    """

    def __init__(self, tags: tuple[str, str] = THINK) -> None:
        self._main = tags
        self._inside: tuple[str, str] | None = None
        self._said = ""
        self._held = ""

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
        """Add text outside of thoughts to ``segments``, and return the rest of the piece."""
        pairs: Sequence[tuple[str, str]] = (self._main,)
        if not self._said.strip():
            pairs = (self._main, *AT_START)
        starts = [(rest.find(pair[0]), pair) for pair in pairs]
        starts = [
            (place, pair)
            for place, pair in starts
            if place >= 0 and (pair == self._main or not rest[:place].strip())
        ]
        if not starts:
            keep = _tail(rest, [pair[0] for pair in pairs])
            segments.append(self._text(rest[: len(rest) - keep]))
            self._held = rest[len(rest) - keep :]
            return ""
        place, tags = min(starts)
        after = place + len(tags[0])
        before = self._said + rest[:place]
        if is_quoted(before):
            segments.append(self._text(rest[:after]))
            return rest[after:]
        is_line_start = not before.rpartition("\n")[2].strip()
        if not is_line_start and tags[1] not in rest[after:] and len(rest) <= MOST_HELD:
            segments.append(self._text(rest[:place]))
            self._held = rest[place:]
            return ""
        if not is_line_start and tags[1] not in rest[after:]:
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
    if not any(mark in text for mark in ("<", "[", "◁", *tags)):
        return text, ""
    splitter = ThoughtSplitter(tags)
    segments = splitter.feed(text) + splitter.flush()
    words = "".join(each.content for each in segments if each.kind == "text")
    thoughts = [each.content for each in segments if each.kind == "thought"]
    # The template opened the thought in the prompt, so the reply has only its end.
    place = words.rfind(tags[1])
    while place >= 0:
        if not is_quoted(words[:place]) and tags[0] not in words[:place]:
            thoughts.insert(0, words[:place].replace(tags[1], "\n"))
            words = words[place + len(tags[1]) :]
            break
        place = words.rfind(tags[1], 0, place)
    if final := _FINAL.match(words):
        words = _FINAL_END.sub("", words[final.end() :])
    return words, "\n\n".join(each.strip() for each in thoughts if each.strip())


def _tail(text: str, tags: Iterable[str]) -> int:
    """Return the length of the longest end of a text that could begin a tag."""
    lengths = (
        length
        for tag in tags
        for length in range(min(len(tag) - 1, len(text)), 0, -1)
        if text.endswith(tag[:length])
    )
    return max(lengths, default=0)
