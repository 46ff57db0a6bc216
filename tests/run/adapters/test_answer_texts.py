"""People's view of an answer of data: its text, in threads, chats, and for clients of OpenAI and
MCP.
"""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import Model as OpenAIModel
from agents import ModelResponse as OpenAIResponse
from agents import Usage
from langgraph.graph import START, StateGraph
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from typing_extensions import TypedDict

from perdure import Client, InvalidFlow, Run, RunStatus, Steps, workflow
from perdure.flows.adapters import openai_agents, pydantic_ai
from perdure.flows.adapters.langgraph import register_graph
from perdure.worker.web.exposed_flows import answer_text
from perdure.worker.web.mcp_server.results import run_result
from perdure.worker.web.ui_streams.ai_sdk import AiSdkWriter
from perdure.worker.web.ui_streams.response import UiResponse
from tests.support.round_driver import Driver
from tests.support.workflow_effects import play


class Price(BaseModel):
    """An answer of data."""

    words: str
    euros: int


def in_words(answer: Any) -> str:
    return f"{answer['words']}: {answer['euros']} euros"


agent = Agent(
    TestModel(custom_output_args={"words": "a hen", "euros": 8}),
    name="priced",
    output_type=Price,
    capabilities=[pydantic_ai.PerdureDurability()],
)
pydantic_ai.register_agent("text_pydantic", agent, text=in_words)


class Priced(OpenAIModel):
    async def get_response(self, *args: Any, **named: Any) -> OpenAIResponse:
        text = '{"words": "a hen", "euros": 8}'
        part = ResponseOutputText(type="output_text", text=text, annotations=[], logprobs=[])
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[part]
        )
        return OpenAIResponse(output=[message], usage=Usage(requests=1), response_id=None)

    def stream_response(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError


openai_agents.register_agent(
    "text_openai", OpenAIAgent(name="priced", model=Priced(), output_type=Price), text=in_words
)


class State(TypedDict, total=False):
    goal: str
    words: str
    euros: int


graph = StateGraph(State)
graph.add_node("price", lambda state: {"words": "a hen", "euros": 8})
graph.add_edge(START, "price")
register_graph("text_graph", graph, text=in_words)
register_graph("text_graph_key", graph, text="words")


@workflow("text_workflow", text=in_words)
def priced(steps: Steps, goal: str) -> dict[str, Any]:
    """A workflow with an answer of data."""
    return {"words": "a hen", "euros": 8}


@workflow("text_missing", text="sentence")
def without_the_key(steps: Steps, goal: str) -> dict[str, Any]:
    """An answer without the key."""
    return {"words": "a hen"}


def shown(run: Run) -> list[str]:
    """Return the answer for clients of OpenAI, of MCP, and of the AI SDK."""
    [content] = run_result(run, None).content
    events = list(UiResponse(run.id, AiSdkWriter()).end(run, None))
    texts = [each["delta"] for each in events if each.get("type") == "text-delta"]
    return [answer_text(run), content.text, *texts]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("flow", "text"),
    [
        ("text_pydantic", "a hen: 8 euros"),
        ("text_openai", "a hen: 8 euros"),
        ("text_graph", "a hen: 8 euros"),
        ("text_graph_key", "a hen"),
        ("text_workflow", "a hen: 8 euros"),
    ],
)
def test_people_see_the_text_of_an_answer(
    client: Client, driver: Driver, flow: str, text: str
) -> None:
    done = play(driver, client.get(client.send("ada", "a price", flow=flow).run_id))
    assert done.status is RunStatus.COMPLETED and done.answer["euros"] == 8, done.error
    assert shown(done) == [text] * 3
    assert [each.text for each in client.conversation("ada")] == ["a price", text]


def test_an_answer_without_its_text_is_json_and_an_event_tells(
    client: Client, driver: Driver
) -> None:
    done = play(driver, client.submit("text_missing", "go"))
    assert answer_text(done) == '{"words": "a hen"}' and done.output == {}
    told = [each.data.get("answer_as_json") for each in client.events(done.id)]
    assert any("no key 'sentence'" in str(each) for each in told)


def test_a_text_that_is_neither_a_key_nor_a_function_is_refused() -> None:
    wrong: Any = 7
    for register in (
        lambda: pydantic_ai.register_agent("text_wrong", agent, text=wrong),
        lambda: register_graph("text_wrong", graph, text=wrong),
    ):
        with pytest.raises(InvalidFlow, match="expected a key of the answer, or a function"):
            register()
