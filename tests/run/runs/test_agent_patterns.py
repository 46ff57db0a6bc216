"""Patterns of agents that work together, killed in each round: the same answer, and one request
more at most.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionToolResult,
    Model,
    ModelProvider,
    RunConfig,
    RunContextWrapper,
    RunResult,
    ToolsToFinalOutputResult,
    function_tool,
)
from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.capabilities import ResolveModelId
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from perdure import AsyncSteps, Client, Run, RunStatus, workflow
from perdure.flows.adapters.openai_agents import PerdureRunner
from perdure.flows.adapters.pydantic_ai import PerdureDurability
from tests.support.example_flows.openai_agents import ASKED, Scripted, nothing_asked, pay, price
from tests.support.killed_agents import calm_and_killed
from tests.support.round_driver import Driver
from tests.support.workflow_effects import (
    DONE,
    journal,
    let_time_pass,
    nothing_done,
    play,
    play_one,
)

__all__ = ["nothing_asked", "nothing_done"]


class NamedModels(ModelProvider):
    """Models by name, as a provider has them."""

    def __init__(self, *models: Scripted) -> None:
        self._models = {model.name: model for model in models}

    def get_model(self, model_name: str | None) -> Model:
        return self._models[str(model_name)]


MODELS = RunConfig(
    model_provider=NamedModels(
        Scripted(
            "boss",
            [("ask_farmer", {"input": "a hen?"}), ("ask_baker", {"input": "bread?"})],
            None,
            " and ".join,
        ),
        Scripted("farmer", [("price", {"animal": "hen"})], lambda told: f"a hen is {told[0]}"),
        Scripted("baker", "bread is 3"),
        Scripted(
            "owner", [("ask_payer", {"input": "pay"})], lambda told: f"the payer is {told[0]}"
        ),
        Scripted("payer", [("pay", {"amount": 12})], lambda told: f"done: {told[0]}"),
        Scripted("keeper", [("look_at", {"name": "hen"})]),
        Scripted("desk", [("transfer_to_stable", {})]),
        Scripted("poet", "a poem"),
        Scripted("critic", "the best of three"),
    )
)


async def ask(agent: Agent[Any], text: Any) -> RunResult:
    """Run an agent as the SDK's runner does."""
    return await PerdureRunner.run(agent, input=text, run_config=MODELS)


# Agents as tools


farmer = Agent(name="farmer", model="farmer", tools=[price])
baker = Agent(name="baker", model="baker")
boss = Agent(
    name="boss",
    model="boss",
    tools=[farmer.as_tool("ask_farmer", "Animals."), baker.as_tool("ask_baker", "Bread.")],
)


@workflow("pattern_boss")
async def has_helpers(steps: AsyncSteps, goal: str) -> str:
    return str((await ask(boss, goal)).final_output)


# A tool of such an agent needs approval

payer = Agent(name="payer", model="payer", tools=[pay])
owner = Agent(name="owner", model="owner", tools=[payer.as_tool("ask_payer", "Pays.")])


@workflow("pattern_owner")
async def has_a_payer(steps: AsyncSteps, goal: str) -> str:
    return str((await ask(owner, goal)).final_output)


# The result of a tool has its type, also when another process reads it


class Kind(Enum):
    """Of an animal."""

    BIRD = "bird"


class Animal(BaseModel):
    """The result of a tool."""

    kind: Kind
    legs: int


@function_tool(timeout=60)
async def look_at(name: str) -> Animal:
    """Look at an animal."""
    return Animal(kind=Kind.BIRD, legs=2)


def counts_legs(
    context: RunContextWrapper[Any], results: list[FunctionToolResult]
) -> ToolsToFinalOutputResult:
    found = results[0].output
    return ToolsToFinalOutputResult(True, f"{found.kind.value}: {found.legs} legs")


keeper = Agent(name="keeper", model="keeper", tools=[look_at], tool_use_behavior=counts_legs)


@workflow("pattern_keeper")
async def has_a_typed_tool(steps: AsyncSteps, goal: str) -> str:
    result = await PerdureRunner.run(keeper, goal, run_config=MODELS, idempotent=["look_at"])
    await steps.step(len, goal, idempotent=True)
    return str(result.final_output)


# Several runs of an agent at once, and a judge

poet = Agent(name="poet", model="poet")
critic = Agent(name="critic", model="critic")


@workflow("pattern_poets")
async def has_poets(steps: AsyncSteps, goal: str) -> str:
    poems = await asyncio.gather(*(ask(poet, goal) for _ in range(3)))
    lines = "\n".join(str(poem.final_output) for poem in poems)
    return str((await ask(critic, lines)).final_output)


@pytest.mark.parametrize(
    ("flow", "answer", "requests"),
    [
        ("pattern_boss", "a hen is 8 and bread is 3", 5),
        ("pattern_owner", "the payer is done: paid 12", 4),
        ("pattern_keeper", "bird: 2 legs", 1),
        ("pattern_poets", "the best of three", 4),
    ],
)
def test_a_death_in_any_round_costs_one_request_at_most(
    client: Client, driver: Driver, flow: str, answer: str, requests: int
) -> None:
    run = client.submit(flow, "go")
    while play(driver, run).status is RunStatus.INTERRUPTED:
        client.resume(run.id, "approve")
    assert client.get(run.id).answer == answer
    assert ASKED.total() == requests
    ASKED.clear()
    DONE.clear()
    assert calm_and_killed(client, driver, flow) > 2


def test_the_requests_of_an_agent_that_is_a_tool_are_steps(client: Client, driver: Driver) -> None:
    done = play(driver, client.submit("pattern_boss", "go"))
    names = [name.partition(".")[0] for name, _ in journal(client, done)]
    assert sorted(names) == [*["model"] * 5, "price"]
    assert done.details["spent"]["requests"] == 5


# A conversation with a person, in which another agent takes over

stable = Agent(
    name="stable",
    model=Scripted("stable", [("price", {"animal": "hen"})], lambda told: f"it costs {told[0]}"),
    tools=[price],
)
desk = Agent(name="desk", model="desk", handoffs=[stable])


@workflow("pattern_desk")
async def has_a_desk(steps: AsyncSteps, goal: str) -> list[str]:
    said, agent, items = [], desk, []
    for _ in range(2):
        message = await steps.wait_for("message")
        result = await ask(agent, [*items, {"role": "user", "content": message["payload"]}])
        said.append(f"{result.last_agent.name}: {result.final_output}")
        agent, items = result.last_agent, result.to_input_list()
    return said


def played(client: Client, driver: Driver, run: Run, deadly: int | None) -> Run:
    """Play a run to its end, with a process that dies in one of its rounds."""
    rounds = 0
    while not client.get(run.id).status.ended:
        if play_one(driver, before_its_commit=rounds == deadly):
            rounds += 1
            continue
        let_time_pass(driver)
        for question in client.inbox().waiting:  # The price may be looked up again.
            client.resume(run.id, "retry", interrupt=question.id)
    done = client.get(run.id)
    assert done.status is RunStatus.COMPLETED, done.error
    assert deadly is None or rounds > deadly, "the death has happened"
    return done


@pytest.mark.parametrize("deadly", [None, *range(7)])
def test_a_conversation_goes_on_with_the_agent_that_answered(
    client: Client, driver: Driver, deadly: int | None
) -> None:
    run = client.submit("pattern_desk", "go")
    for _ in range(2):
        client.signal(run.id, "message", "what is a hen?")
    done = played(client, driver, run, deadly)
    assert done.answer == ["stable: it costs 8"] * 2
    assert ASKED.total() <= 4 + (deadly is not None)


# An agent of Pydantic AI with several models, and with functions that are not coroutines


def says(words: str) -> FunctionModel:
    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        ASKED[words] += 1
        return ModelResponse(parts=[TextPart(f"{words}: {info.instructions}")])

    return FunctionModel(reply, model_name=words)


thinker = PydanticAgent(
    says("default"),
    name="thinker",
    capabilities=[
        ResolveModelId(lambda context, model_id: says(model_id.removeprefix("shop:"))),
        PerdureDurability(models={"fast": says("fast")}),
    ],
)


@thinker.instructions
def language() -> str:
    return "speak plainly"


@thinker.output_validator
def without_space(output: str) -> str:
    return output.strip()


@workflow("pattern_thinker")
async def thinks(steps: AsyncSteps, goal: str) -> list[str]:
    answers = [(await thinker.run(goal)).output]
    for model in ("fast", "shop:v1.5"):
        answers.append((await thinker.run(goal, model=model)).output)
    return answers


@pytest.mark.parametrize("deadly", [None, 0, 1, 2])
def test_a_run_of_an_agent_names_its_model(
    client: Client, driver: Driver, deadly: int | None
) -> None:
    done = played(client, driver, client.submit("pattern_thinker", "go"), deadly)
    assert done.answer == [f"{each}: speak plainly" for each in ("default", "fast", "v1.5")]
    assert 3 <= ASKED.total() <= 3 + (deadly is not None)


# The result of a step that is an object, over which the function goes


@workflow("pattern_shops")
async def buys_in_order(steps: AsyncSteps, goal: str) -> list[str]:
    prices = await steps.step(lambda: {"b": {"d": 1, "c": 2}, "a": {}}, name="ask", idempotent=True)
    bought = []
    for shop, goods in prices.items():
        text = f"{shop}: {', '.join(goods)}"
        bought.append(await steps.step(str, text, name="buy", idempotent=True))
    return bought


@pytest.mark.parametrize("deadly", [None, 0, 1, 2])
def test_the_keys_of_a_result_have_the_same_order_in_each_process(
    client: Client, driver: Driver, deadly: int | None
) -> None:
    done = played(client, driver, client.submit("pattern_shops", "go"), deadly)
    assert done.answer == ["a: ", "b: c, d"]
