"""Texts of rounds as a reader of the live stream has them."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.worker.domain.stream import StreamItem
from tests.support.example_flows import live_text  # noqa: F401 -- registers flows


def texts_of(items: Iterable[StreamItem]) -> dict[int, str]:
    """Return the text of each step, as a reader has it who applies the items."""
    texts: dict[int, str] = {}
    for item in items:
        assert item.type != "trimmed"
        if item.type == "retracted":
            texts.pop(item.step, None)
        elif item.type == "text":
            texts[item.step] = texts.get(item.step, "") + item.text
    return texts


def answer_texts(answer: list[str]) -> dict[int, str]:
    return dict(enumerate(answer))
