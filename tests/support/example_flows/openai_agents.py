"""Agents of the OpenAI Agents SDK with scripted models, and workflows of them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    Model,
    ModelResponse,
    RunContextWrapper,
    Usage,
    function_tool,
    input_guardrail,
)
from agents.items import TResponseInputItem
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic import BaseModel

from perdure import AsyncSteps, workflow
from perdure.flows.adapters.openai_agents import run_agent
from tests.support.workflow_effects import effect

ASKED: Counter[str] = Counter()
FAULTS: list[Exception] = []


class Scripted(Model):
    """Says what follows from the answers that it has got."""

    def __init__(self, name: str, *replies: Any) -> None:
        self.name, self.replies = name, replies

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002
        *args: Any,
        **named: Any,
    ) -> ModelResponse:
        ASKED[self.name] += 1
        if FAULTS:
            raise FAULTS.pop(0)
        items = [] if isinstance(input, str) else input
        own = f"call_{self.name}_"
        outputs = [each for each in items if each.get("type") == "function_call_output"]
        answers = [each for each in outputs if str(each["call_id"]).startswith(own)]
        seen = len(answers)
        effect(f"{self.name} {seen}")
        reply = self.replies[seen]
        if callable(reply):
            reply = reply([str(each["output"]) for each in answers])
        calls = reply if isinstance(reply, list) else []
        output: list[Any] = [
            ResponseFunctionToolCall(
                id=f"fc_{self.name}_{seen}_{place}",
                call_id=f"call_{self.name}_{seen}_{place}",
                type="function_call",
                name=name,
                arguments=json.dumps(arguments),
            )
            for place, (name, arguments) in enumerate(calls)
        ]
        if isinstance(reply, str):
            text = ResponseOutputText(type="output_text", text=reply, annotations=[], logprobs=[])
            output.append(
                ResponseOutputMessage(
                    id=f"msg_{self.name}_{seen}",
                    type="message",
                    role="assistant",
                    status="completed",
                    content=[text],
                )
            )
        usage = Usage(requests=1, input_tokens=100, output_tokens=10, total_tokens=110)
        return ModelResponse(output=output, usage=usage, response_id=None)

    def stream_response(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError


@function_tool
async def price(animal: str) -> str:
    """Look up a price."""
    effect(f"price of {animal}")
    return {"hen": "8", "cow": "120"}[animal]


@function_tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay an amount."""
    effect(f"pay {amount}")
    return f"paid {amount}"


class Choice(BaseModel):
    """What to buy."""

    animal: str


buyer = Agent(
    name="buyer",
    model=Scripted(
        "buyer",
        [("price", {"animal": "hen"}), ("price", {"animal": "cow"})],
        None,
        '{"animal": "hen"}',
    ),
    tools=[price],
    output_type=Choice,
)


@function_tool
async def buy(animal: str) -> str:
    """Buy an animal."""
    effect(f"buy {animal}")
    return f"bought one {animal}"


farmer = Agent(
    name="farmer",
    model=Scripted(
        "farmer", [("buy", {"animal": "hen"}), ("buy", {"animal": "cow"})], None, ", ".join
    ),
    tools=[buy],
)


@workflow("openai_farmer")
async def farms(steps: AsyncSteps, goal: str) -> str:
    return (await run_agent(farmer, goal)).final_output


@workflow("openai_buyer")
async def buys(steps: AsyncSteps, goal: str) -> Choice:
    return (await run_agent(buyer, goal, idempotent=["price"])).final_output


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    ASKED.clear()
    FAULTS.clear()


# Handoff there and back

front = Agent(
    name="front",
    model=Scripted("front", [("transfer_to_back", {})], "the front has the last word"),
)
back = Agent(name="back", model=Scripted("back", [("transfer_to_front", {})]), handoffs=[front])
front.handoffs = [back]


@workflow("openai_there_and_back")
async def there_and_back(steps: AsyncSteps, goal: str) -> str:
    return str((await run_agent(front, goal)).final_output)


# Two calls at once, of which one needs approval

shopper = Agent(
    name="shopper",
    model=Scripted(
        "shopper", [("price", {"animal": "hen"}), ("pay", {"amount": 12})], None, ", ".join
    ),
    tools=[price, pay],
)


@workflow("openai_shopper")
async def shops(steps: AsyncSteps, goal: str) -> str:
    return str((await run_agent(shopper, goal)).final_output)


# A guardrail that asks a model, and trips

judge = Agent(name="judge", model=Scripted("judge", "bad"))


@input_guardrail
async def is_good(
    context: RunContextWrapper[None], agent: Agent[None], given: object
) -> GuardrailFunctionOutput:
    verdict = await run_agent(judge, "is it good?")
    return GuardrailFunctionOutput(verdict.final_output, verdict.final_output == "bad")


guarded = Agent(name="guarded", model=Scripted("guarded", "never said"), input_guardrails=[is_good])


@workflow("openai_guarded")
async def guards(steps: AsyncSteps, goal: str) -> str:
    try:
        return str((await run_agent(guarded, goal)).final_output)
    except InputGuardrailTripwireTriggered:
        return "the guardrail tripped"
