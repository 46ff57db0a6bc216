"""An agent of Pydantic AI that asks another agent, and whose payments a person approves."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from perdure import AsyncSteps, workflow
from perdure.flows.adapters.pydantic_ai import PerdureDurability, run_agent
from tests.support.workflow_effects import effect

USAGE = RequestUsage(input_tokens=100, output_tokens=10)


class Deal(BaseModel):
    """The bought animal and its price."""

    animal: str
    paid: str
    advice: str


def heard(messages: list[ModelMessage]) -> list[Any]:
    """Return the results of tools, and their requests for other arguments."""
    parts = [part for message in messages for part in message.parts]
    return [part.content for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)]


def says(*calls: tuple[str, dict[str, Any]], text: str = "") -> ModelResponse:
    parts: list[Any] = [ToolCallPart(name, arguments) for name, arguments in calls]
    return ModelResponse(parts=[*parts, *([TextPart(text)] if text else [])], usage=USAGE)


def advises(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    seen = len(heard(messages))
    effect(f"adviser {seen}")
    return says(("look", {})) if seen == 0 else says(text="take the hen")


adviser = Agent(FunctionModel(advises), name="adviser", capabilities=[PerdureDurability()])


@adviser.tool_plain(metadata={"idempotent": True})
def look() -> str:
    return effect("look")


def deals(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    told = heard(messages)
    effect(f"dealer {len(told)}")
    match len(told):
        case 0:
            return says(*(("price", {"animal": animal}) for animal in ("hen", "cow")))
        case 2:
            return says(("weigh", {"animal": "cow"}))
        case 3:
            return says(("weigh", {"animal": "hen"}))
        case 4:
            return says(("advice", {"question": "which?"}))
        case 5:
            return says(("pay", {"amount": 12}))
    deal = {"animal": "hen", "paid": told[5], "advice": told[4]}
    return says((info.output_tools[0].name, deal))


dealer = Agent(
    FunctionModel(deals), name="dealer", output_type=Deal, capabilities=[PerdureDurability()]
)


@dealer.tool_plain(metadata={"idempotent": True})
def price(animal: str) -> str:
    return effect(f"price of {animal}")


@dealer.tool_plain(metadata={"idempotent": True})
def weigh(animal: str) -> str:
    effect(f"weigh {animal}")
    if animal == "cow":
        raise ModelRetry("too heavy")
    return "2 kg"


@dealer.tool(metadata={"step": False})
async def advice(context: RunContext[None], question: str) -> str:
    return (await adviser.run(question, usage=context.usage)).output


@dealer.tool_plain(requires_approval=True, metadata={"idempotent": True})
def pay(amount: int) -> str:
    return effect(f"pay {amount}")


@workflow("pydantic_dealer")
async def deal(steps: AsyncSteps, goal: str) -> dict[str, Any]:
    result = await run_agent(dealer, goal)
    usage = result.usage
    return {**result.output.model_dump(), "tokens": usage.total_tokens, "asked": usage.requests}
