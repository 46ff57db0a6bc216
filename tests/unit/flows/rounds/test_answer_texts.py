"""The text of an answer for people: itself, the last words of a model, or JSON."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.flows.core.thread_messages import spoken_text, text_of

ASKED = {"type": "human", "content": "hello"}
CALL = {"type": "ai", "content": "", "tool_calls": [{"name": "look"}]}
BLOCKS = {"type": "ai", "content": [{"type": "thinking"}, {"type": "text", "text": "hi"}, " Ann"]}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("done", "done"),
        ({"messages": [ASKED, {"type": "ai", "content": "hi"}]}, "hi"),
        ({"messages": [ASKED, BLOCKS], "log": [1]}, "hi Ann"),
        ({"messages": [ASKED, {"type": "ai", "content": "hi"}, CALL]}, "hi"),
    ],
)
def test_an_answer_with_messages_is_the_last_text_of_the_model(answer: Any, text: str) -> None:
    assert spoken_text(answer) == text_of(answer) == text


@pytest.mark.parametrize(
    "answer",
    [None, 3, [], {}, {"messages": "none"}, {"messages": [ASKED]}, {"messages": [CALL, "ai", 3]}],
)
def test_an_answer_without_words_is_json(answer: Any) -> None:
    assert spoken_text(answer) is None
    assert text_of(answer).startswith(("n", "3", "[", "{"))
