"""A refusal is reported in the words of the model or its provider, and the flow decides how the run
goes on.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import BadReply, FatalError, Interrupt, RoundContext
from perdure.flows.commands.calls import call
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.chat import Reply, UserMessage
from perdure.flows.controllers.model.parse_reply import decisions_of
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.rounds.providers import Endpoint
from tests.support.chat_refusals import REFUSED, WORDS, streamed
from tests.support.chat_server import ChatServer, Fails, Says, Sends, chat_server

HELLO = Says("", [("finish", {"answer": "Hello!"})])
HELD_BACK = streamed(
    {"delta": {"role": "assistant", "content": ""}},
    {"delta": {}, "finish_reason": "content_filter"},
)


def decide(server: ChatServer, **settings: Any) -> tuple[Any, RoundContext]:
    context = RoundContext("g", endpoint=Endpoint("m", server.url))
    return call(ModelController(**settings).decide, context, context), context


@pytest.mark.parametrize(
    ("answer", "words"),
    [(REFUSED, WORDS), (HELD_BACK, "its provider blocked the reply (content_filter)")],
)
def test_a_refusal_ends_the_run_with_its_words_or_is_a_question_to_a_person(
    answer: Sends, words: str
) -> None:
    with chat_server(faults={0: [answer, answer]}) as server:
        with pytest.raises(FatalError) as refused:
            decide(server)
        assert f"the model refuses: {words}" in str(refused.value)
        asked, context = decide(server, refusal="ask")
    assert (
        isinstance(asked, Interrupt) and words in asked.reason and asked.data == {"refusal": words}
    )
    assert context.spent["tokens"] == 110, "it is charged as any other reply"


BLOCKED = {"code": "content_filter", "message": WORDS}


@pytest.mark.parametrize(
    "answer",
    [
        Fails(400, {"error": BLOCKED}),
        Fails(400, {"error": {"message": WORDS, "type": "content_policy_violation"}}),
        Fails(
            400,
            {"error": {"message": WORDS, "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
        ),
        Fails(403, {"error": {"code": 403, "message": WORDS, "metadata": {"flagged_input": "g"}}}),
        Fails(400, {"code": "data_inspection_failed", "message": WORDS}),
        Sends(f"data: {json.dumps({'error': BLOCKED})}\n\n".encode()),
    ],
)
def test_a_filter_that_blocks_the_request_is_a_refusal_and_costs_nothing(answer: Fails) -> None:
    with chat_server(faults={0: [answer, answer]}) as server:
        with pytest.raises(FatalError, match="the model refuses: "):
            decide(server)
        asked, context = decide(server, refusal="ask")
    assert isinstance(asked, Interrupt) and asked.data == {"refusal": WORDS}
    assert context.spent["tokens"] == 0 and not context.spent["money"]


def test_after_a_filter_the_next_model_is_asked_if_the_flow_says_so() -> None:
    with chat_server([HELLO], {0: [Fails(400, {"error": BLOCKED})]}) as server:
        models = ["m", "m2"]
        decided, _ = decide(server, models=models, fallback={"refused": True})
        assert decided.args == {"answer": "Hello!"}


def test_what_a_person_answers_to_a_refusal_is_told_to_the_model() -> None:
    context = RoundContext(
        "g", answered=True, answer="It is my own account.", asked={"refusal": WORDS}
    )
    [*_, last] = ModelController().messages(context, ToolNames(()), tools=True)
    assert (
        isinstance(last, UserMessage)
        and WORDS in last.text
        and last.text.endswith("A person says: It is my own account.")
    )


@pytest.mark.parametrize(
    ("reason", "details", "texts", "words"),
    [
        ("content_filter", {"refusal": WORDS, "finish_reason": "refusal"}, [], WORDS),
        ("content_filter", {"finish_reason": "refusal"}, [WORDS], WORDS),
        ("content_filter", {"block_reason": "PROHIBITED_CONTENT"}, [], "PROHIBITED_CONTENT"),
        (
            "error",
            {"finish_reason": "ERROR_TOXIC"},
            [],
            "its provider blocked the reply (ERROR_TOXIC)",
        ),
        (
            None,
            {"finish_reason": "content_filter"},
            [],
            "its provider blocked the reply (content_filter)",
        ),
        ("stop", {"finish_reason": "stop"}, ["I refuse"], ""),
    ],
)
def test_a_refusal_is_known_in_each_providers_form(
    reason: Any, details: dict[str, str], texts: list[str], words: str
) -> None:
    from pydantic_ai.messages import ModelResponse, TextPart

    from perdure.flows.controllers.model.stream_end import refusal_in

    parts = [TextPart(text) for text in texts]
    response = ModelResponse(parts, finish_reason=reason, provider_details=details)
    assert refusal_in(response) == words


def test_a_call_that_the_provider_cannot_read_is_a_bad_reply_that_says_so() -> None:
    from pydantic_ai.messages import ModelResponse

    from perdure.flows.controllers.model.stream_end import fault_in

    details = {"finish_reason": "MALFORMED_FUNCTION_CALL"}
    fault = fault_in(ModelResponse([], finish_reason="error", provider_details=details))
    with pytest.raises(
        BadReply, match=r"its provider refused what the model wrote \(MALFORMED_FUNCTION_CALL\)"
    ):
        decisions_of(Reply("", ended="error", fault=fault), ToolNames(["finish"]))
