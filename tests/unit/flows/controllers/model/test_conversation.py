"""The messages of the runs before a run are part of each request to the model."""

from __future__ import annotations

from perdure import Command, RoundContext, ThreadMessage, Turn
from perdure.flows.controllers.model import ModelController
from perdure.flows.controllers.model.chat import AssistantMessage, SystemMessage, UserMessage
from perdure.flows.controllers.model.tool_names import ToolNames
from perdure.flows.core.thread_messages import Earlier
from perdure.flows.rounds.messages_to_run import NOT_FINISHED


def test_a_model_reads_the_messages_before_between_its_instruction_and_the_goal() -> None:
    before = [ThreadMessage("user", "hello", "a"), ThreadMessage("assistant", "hi", "a")]
    context = RoundContext(goal="and March?", earlier=Earlier(lambda: before))
    messages = ModelController(system="Be brief.").messages(context, ToolNames(()), tools=True)
    assert messages == [
        SystemMessage("Be brief."),
        UserMessage("hello"),
        AssistantMessage("hi"),
        UserMessage("and March?"),
    ]


def test_what_was_not_answered_is_read_with_the_goal() -> None:
    before = [ThreadMessage("user", "hello", "a")]
    context = RoundContext(goal="are you there?", earlier=Earlier(lambda: before))
    messages = ModelController(system="Be brief.").messages(context, ToolNames(()), tools=True)
    assert messages[1:] == [UserMessage("hello\n\nare you there?")]


def test_a_text_that_did_not_end_the_run_stays_the_models_own_words() -> None:
    """A person sent a message while the model gave its answer in words."""
    said = "I have read it."
    turns = (
        Turn(Command("finish", {"answer": said}, {"thought": said}), {"error": NOT_FINISHED}),
        Turn(None, {"say": "and March?", "number": 1}),
    )
    context = RoundContext(goal="read", history=turns)
    messages = ModelController(system="Be brief.").messages(context, ToolNames(()), tools=True)
    assert messages[2:] == [
        AssistantMessage(said),
        UserMessage(f"{NOT_FINISHED}\n\nA person says: and March?"),
    ]
