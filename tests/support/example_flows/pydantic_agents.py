"""Agents of Pydantic AI with scripted models, and workflows of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from perdure import AsyncSteps, workflow
from perdure.flows.adapters.pydantic_ai import PerdureDurability, register_agent
from tests.support.workflow_effects import effect

#: Requests that reached the model, and faults that come before its reply.
ASKED: Counter[str] = Counter()
FAULTS: list[Exception] = []


class Choice(BaseModel):
    """What to buy."""

    animal: str
    price: int


def returns(messages: list[ModelMessage]) -> list[Any]:
    parts = [part for message in messages for part in message.parts]
    return [part.content for part in parts if isinstance(part, ToolReturnPart)]


def trades(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask for two prices at once, then buy, then report the choice."""
    ASKED["trader"] += 1
    if FAULTS:
        raise FAULTS.pop(0)
    effect(f"request {len(messages) // 2 + 1}")
    usage = RequestUsage(input_tokens=100, output_tokens=10)
    match len(returns(messages)):
        case 0:
            calls = [ToolCallPart("price", {"animal": animal}) for animal in ("hen", "cow")]
        case 2:
            calls = [ToolCallPart("buy", {"animal": "hen"})]
        case _:
            calls = [ToolCallPart(info.output_tools[0].name, {"animal": "hen", "price": 8})]
    return ModelResponse(parts=list(calls), usage=usage, model_name="function:trades")


trader = Agent(
    FunctionModel(trades), name="trader", output_type=Choice, capabilities=[PerdureDurability()]
)


@trader.tool_plain(metadata={"idempotent": True})
def price(animal: str) -> int:
    effect(f"price of {animal}")
    return {"hen": 8, "cow": 120}[animal]


@trader.tool_plain
def buy(animal: str) -> str:
    effect(f"buy {animal}")
    return f"bought one {animal}"


@workflow("pydantic_trader")
async def trade(steps: AsyncSteps, goal: str) -> Choice:
    return (await trader.run(goal)).output


def buys_two(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if found := returns(messages):
        return ModelResponse(parts=[TextPart(", ".join(map(str, found)))])
    calls = [ToolCallPart("buy_one", {"animal": animal}) for animal in ("hen", "cow")]
    return ModelResponse(parts=list(calls))


farmer = Agent(FunctionModel(buys_two), name="farmer", capabilities=[PerdureDurability()])


@farmer.tool_plain
def buy_one(animal: str) -> str:
    effect(f"buy {animal}")
    return f"bought one {animal}"


register_agent("pydantic_farmer", farmer)
