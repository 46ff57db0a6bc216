"""Answers of people over MCP: each counts, or the client learns that it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Client, RunStatus
from perdure.worker.settings import Settings
from tests.support.example_flows import exposed_flows  # noqa: F401 -- registers flows
from tests.support.redis_servers import until
from tests.support.round_driver import driving, playing
from tests.support.threaded_server import serving
from tests.support.workflow_effects import let_deadline_pass

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.exposed_flows",))


def call(settings: Settings, name: str, arguments: dict[str, Any], user: Any = None) -> Any:
    """Call a tool with the official client; ``user`` fills in its forms."""
    from mcp import Client as McpClient
    from mcp.client.streamable_http import streamable_http_client

    async def connect_and_call() -> Any:
        options = {} if user is None else {"elicitation_callback": user}
        async with McpClient(streamable_http_client(f"{url}/mcp"), **options) as connected:
            return await connected.call_tool(name, arguments)

    with serving(settings) as url, playing(settings):
        return asyncio.run(connect_and_call())


def accepting(content: Any, before: Any = lambda: None) -> Any:
    """Return a person who accepts each form with this content. ``before`` is called first."""
    from mcp_types import ElicitResult

    async def fill(context: Any, params: Any) -> Any:
        before()
        return ElicitResult(action="accept", content=content)

    return fill


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "has not decided"), ({"other": "x"}, "has not decided"), ({"answer": 5}, "a string")],
)
def test_a_form_without_an_answer_leaves_the_question_open(
    client: Client, settings: Settings, content: Any, words: str
) -> None:
    result = call(settings, "asks", {"goal": "question"}, accepting(content))
    assert result.is_error and words in result.content[0].text
    assert client.get(result.structured_content["run"]).status is RunStatus.INTERRUPTED


@pytest.mark.parametrize(("given", "counts"), [("right", False), ("left", True)])
def test_a_form_for_a_question_that_was_answered_says_whether_the_answer_counts(
    client: Client, settings: Settings, given: str, counts: bool
) -> None:
    def answer_first() -> None:
        [waiting] = client.inbox()
        client.resume(waiting.run_id, given, by="bob")

    user = accepting({"answer": "left"}, answer_first)
    result = call(settings, "asks", {"goal": "question"}, user)
    told = "no longer open: it was answered by bob" in result.content[0].text
    assert (told, result.is_error) == (not counts, not counts)


def test_a_form_after_the_deadline_of_a_question_whose_default_is_null_does_not_count(
    client: Client, settings: Settings
) -> None:
    def be_late() -> None:
        [waiting] = client.inbox()
        let_deadline_pass(client, waiting.run_id)
        with driving(settings) as driver:
            until(lambda: (driver.sweeper.sweep(), not [*client.inbox()])[1], "the default answer")

    result = call(settings, "asks_in_time", {"goal": "g"}, accepting({"answer": "left"}, be_late))
    assert result.is_error and "no longer open: its deadline passed" in result.content[0].text


def test_the_tool_answer_without_an_answer_leaves_the_question_open(
    client: Client, settings: Settings
) -> None:
    asked = call(settings, "asks", {"goal": "question"})
    question = {"run": asked.structured_content["run"], "question": "0:0"}
    for missing in ({}, {"add": {"tokens": 5}}):
        result = call(settings, "answer", {**question, **missing})
        assert result.is_error and result.structured_content["code"] == "invalid-input"
        assert client.get(question["run"]).status is RunStatus.INTERRUPTED
    result = call(settings, "answer", {**question, "answer": None})
    assert not result.is_error, "null is an answer"
