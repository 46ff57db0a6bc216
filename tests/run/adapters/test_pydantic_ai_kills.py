"""An agent of Pydantic AI with all kinds of tools, killed in each effect and before each commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
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

from perdure import AsyncSteps, Client, RunStatus, Settings, workflow
from perdure.flows.adapters.pydantic_ai import PerdureDurability, run_agent
from tests.run.workflows.test_workflows import (
    DEADLY,
    DONE,
    effect,
    let_time_pass,
    nothing_done,
    play_one,
)
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving

__all__ = ["nothing_done"]

TOKENS = 110
USAGE = RequestUsage(input_tokens=100, output_tokens=10)


class Deal(BaseModel):
    """What was bought."""

    animal: str
    paid: str
    advice: str


def heard(messages: list[ModelMessage]) -> list[Any]:
    """What tools have said, and that they want other arguments."""
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


@pytest.fixture
def driver(settings: Settings) -> Iterator[Driver]:
    with driving(settings) as made:
        yield made


def played(client: Client, driver: Driver, deadly: int | None = None) -> Any:
    """Play a run, whose worker dies before the commit of one of its rounds; a person approves."""
    run = client.submit("pydantic_dealer", "buy a hen")
    rounds = 0

    def rests() -> bool:
        nonlocal rounds
        while play_one(driver, before_its_commit=rounds == deadly):
            rounds += 1
        let_time_pass(driver)
        for question in client.inbox().waiting:
            assert question.kind == "approval"
            client.resume(run.id, "approve", interrupt=question.id)
        return client.get(run.id).status.ended

    until(rests, "the end of the run")
    found = client.get(run.id)
    assert found.status is RunStatus.COMPLETED, found.error
    return found


def requests() -> int:
    return sum(count for name, count in DONE.items() if name.startswith(("dealer", "adviser")))


def killed(client: Client, driver: Driver, every: bool) -> int:
    """Play a run in peace, then with a death in effects and before commits; how many deaths.

    Args:
        every: whether it dies in each effect and each round, or in some of them.
    """
    calm = played(client, driver)
    effects = Counter(DONE)
    assert calm.answer == {
        "animal": "hen",
        "paid": "pay 12 is done",
        "advice": "take the hen",
        "tokens": 8 * TOKENS,
        "asked": 8,
    }
    spent = calm.details["spent"]
    assert (spent["tokens"], spent["requests"]) == (8 * TOKENS, 8)
    assert set(effects.values()) == {1}
    rounds = range(calm.state.step + 1)
    deaths = [*effects, *rounds] if every else ["adviser 1", "weigh cow", "pay 12", rounds[-3]]
    for deadly in deaths:
        DONE.clear()
        if isinstance(deadly, str):
            DEADLY[deadly] = 1
        found = played(client, driver, deadly if isinstance(deadly, int) else None)
        assert found.answer == calm.answer and not +DEADLY, deadly
        again = +Counter({name: count - effects[name] for name, count in DONE.items()})
        # The effects of a round: two prices, or one.
        assert again.total() <= 2 and requests() <= 9, (deadly, again)
        assert found.details["spent"]["requests"] == 8, (deadly, found.details["spent"])
    return len(deaths)


def test_an_agent_with_all_kinds_of_tools_is_killed_here_and_there(
    client: Client, driver: Driver
) -> None:
    assert killed(client, driver, every=False) == 4


@pytest.mark.slow
def test_an_agent_with_all_kinds_of_tools_is_killed_everywhere(
    client: Client, driver: Driver
) -> None:
    assert killed(client, driver, every=True) > 25
