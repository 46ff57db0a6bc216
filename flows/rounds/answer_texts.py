"""The text of a structured answer for people. Chats, MCP clients and threads show the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.flows.core.errors import InvalidFlow, described
from perdure.flows.core.summaries import safe_text
from perdure.flows.core.thread_messages import ANSWER_TEXT, text_of
from perdure.flows.rounds.context import RoundContext

#: Returns the text of an answer: a key of the answer, or a function.
AnswerText = str | Callable[[Any], str]
#: Characters of a text, so that it fits into the commit beside the answer.
MOST_CHARACTERS = 60_000


def check_answer_text(text: Any, what: str) -> None:
    """Raise InvalidFlow if ``text`` is neither None, nor a key, nor a function.

    Args:
        what: the beginning of the error text, such as the name of the flow.
    """
    if not (text is None or isinstance(text, str) or callable(text)):
        raise InvalidFlow(
            f"{what}: text is {text!r:.200}; expected a key of the answer, or a function that "
            "returns its text"
        )


def output_of(answer: Any, text: AnswerText | None, context: RoundContext) -> dict[str, str]:
    """Return the run's output with the text of an answer.

    Returns:
        The text under ``ANSWER_TEXT``. An empty dict if ``text`` is None. An empty dict also if the
            answer has no such key, or if the function fails. Then the round's event reports the
            reason, and people see the answer as JSON.
    """
    if text is None:
        return {}
    try:
        if isinstance(text, str):
            if not isinstance(answer, Mapping) or text not in answer:
                raise LookupError(f"the answer has no key {text!r}")
            shown = text_of(answer[text])
        else:
            shown = text(answer)
            if not isinstance(shown, str):
                raise TypeError(f"expected a text, got {type(shown).__name__}")
    except Exception as error:
        context.tell(answer_as_json=safe_text(described(error), 2_000))
        return {}
    return {ANSWER_TEXT: safe_text(shown, MOST_CHARACTERS)}
