"""Text of models of other libraries' agents and graphs is shown as it comes, and changes no stored
data.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import OpenAIChatCompletionsModel, function_tool
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from perdure import Client, Run, RunStatus, Settings
from perdure.flows.adapters import openai_agents, pydantic_ai
from perdure.flows.adapters.langgraph import register_graph
from tests.support.chat_server import ChatServer, Cuts, Ends, Play, Says, chat_server
from tests.support.round_driver import driving
from tests.support.workflow_effects import journal, play

SCRIPT = [
    Says("I look it up first.", [("price", {"animal": "hen"})], thinking="What does it cost?"),
    Says("It costs eight, all in all."),
]
numbers = count(1)


@pytest.fixture
def models() -> Iterator[ChatServer]:
    with chat_server(SCRIPT) as running:
        yield running


def with_pydantic_ai(server: ChatServer, stream: bool, model: str = "scripted") -> str:
    provider = OpenAIProvider(base_url=server.url, api_key="x")
    agent = Agent(
        OpenAIChatModel(model, provider=provider),
        name="trader",
        capabilities=[pydantic_ai.PerdureDurability(idempotent=["price"], stream=stream)],
    )

    @agent.tool_plain
    def price(animal: str) -> int:
        """Look up a price."""
        return 8

    name = f"streaming_pydantic_{next(numbers)}"
    pydantic_ai.register_agent(name, agent)
    return name


def with_openai_agents(server: ChatServer, stream: bool, model: str = "scripted") -> str:
    @function_tool
    async def price(animal: str) -> str:
        """Look up a price."""
        return "8"

    own = AsyncOpenAI(base_url=server.url, api_key="x", max_retries=0)
    agent = OpenAIAgent(name="trader", model=OpenAIChatCompletionsModel(model, own), tools=[price])
    name = f"streaming_openai_{next(numbers)}"
    openai_agents.register_agent(name, agent, idempotent=["price"], stream=stream)
    return name


ADAPTERS = pytest.mark.parametrize("adapter", [with_pydantic_ai, with_openai_agents])


def played(settings: Settings, client: Client, flow: str) -> Run:
    run = client.submit(flow, "What is a hen?")
    with driving(settings) as driver:
        return play(driver, run)


def shown(client: Client, run: Run) -> dict[int, dict[tuple[str, str], str]]:
    """Return the text of each step, by kind and part, without retracted text."""
    texts: dict[int, dict[tuple[str, str], str]] = {}
    for item in client.stream(run.id, follow=False):
        if item.type == "retracted":
            texts.pop(item.step, None)
        elif item.type == "text":
            of_step = texts.setdefault(item.step, {})
            of_step[item.kind, item.part] = of_step.get((item.kind, item.part), "") + item.text
    return texts


@ADAPTERS
def test_the_replies_of_an_agent_are_shown_and_its_journal_is_the_same_without(
    adapter: Any, models: ChatServer, settings: Settings, client: Client
) -> None:
    run = played(settings, client, adapter(models, True))
    assert (run.status, run.answer) == (RunStatus.COMPLETED, "It costs eight, all in all.")
    [first, *_, last] = shown(client, run).values()
    assert (
        first["text", ""] == "I look it up first."
        and first["arguments", "price"] == '{"animal": "hen"}'
    )
    assert last["text", ""] == "It costs eight, all in all."
    assert run.details["spent"]["tokens"] == 220 and run.details["spent"]["requests"] == 2
    assert all(asked.body["stream_options"]["include_usage"] for asked in models.play.asked)

    silent = played(settings, client, adapter(models, False))
    assert silent.answer == run.answer and shown(client, silent) == {}
    names = [name for name, _ in journal(client, run)]
    assert names == [name for name, _ in journal(client, silent)]
    assert run.details["spent"]["tokens"] == silent.details["spent"]["tokens"]


@pytest.mark.parametrize("stream", [True, False])
def test_both_kinds_of_agents_are_charged_the_same_money(
    stream: bool, models: ChatServer, settings: Settings, client: Client
) -> None:
    spent = []
    for adapter in (with_pydantic_ai, with_openai_agents):
        run = played(settings, client, adapter(models, stream, "gpt-4.1"))
        spent.append(run.details["spent"])
        unpriced = played(settings, client, adapter(models, stream)).details["spent"]
        assert "money" not in unpriced and unpriced["tokens"] == spent[0]["tokens"]
    assert spent[0] == spent[1] and spent[0]["money"] > 0


@pytest.mark.parametrize("cut", [Cuts(3), Ends(3)])
@ADAPTERS
def test_a_reply_that_is_cut_is_taken_back_and_asked_for_again(
    adapter: Any, cut: Cuts | Ends, settings: Settings, client: Client
) -> None:
    with chat_server() as server:
        server.play = Play(SCRIPT, {1: [cut]})
        run = played(settings, client, adapter(server, True))
    assert run.answer == "It costs eight, all in all." and sum(server.play.fired.values()) == 1
    *_, last = shown(client, run).values()
    assert last["text", ""] == run.answer
    if isinstance(cut, Ends):  # Data before a reset may be lost with it.
        kinds = [item.type for item in client.stream(run.id, follow=False)]
        assert "retracted" in kinds


@pytest.mark.parametrize("stream", [True, False])
def test_a_graph_shows_what_its_models_say_and_its_nodes_write(
    stream: bool, settings: Settings, client: Client
) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("It costs eight.")]))

    def answers(state: MessagesState) -> dict[str, Any]:
        writer = get_stream_writer()
        writer({"looks": "at prices"})
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answers", answers)
    graph.add_edge(START, "answers")
    graph.add_edge("answers", END)
    name = f"streaming_graph_{next(numbers)}"
    register_graph(name, graph, stream=stream)
    run = played(settings, client, name)
    assert run.status is RunStatus.COMPLETED and "It costs eight." in str(run.answer)
    expected = {("custom", ""): '{"looks":"at prices"}'}
    if stream:
        expected["text", "answers"] = "It costs eight."
    assert list(shown(client, run).values()) == [expected]
