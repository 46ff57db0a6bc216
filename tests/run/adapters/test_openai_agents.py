"""Agents of the OpenAI Agents SDK in workflows: requests and calls are steps, and none is made twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from agents import Agent, Model, ModelResponse, RunContextWrapper, Usage, function_tool
from agents.items import TResponseInputItem
from openai import InternalServerError
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic import BaseModel

from perdure import (
    AsyncSteps,
    Client,
    FatalError,
    InvalidInput,
    RetryableError,
    RunStatus,
    Settings,
    workflow,
)
from perdure.flows.adapters.openai_agents import register_agent, run_agent
from tests.run.workflows.test_workflows import (
    DEADLY,
    DONE,
    effect,
    journal,
    nothing_done,
    play,
    play_one,
)
from tests.support.round_driver import Driver, driving

__all__ = ["nothing_done"]

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
payer = Agent(
    name="payer",
    model=Scripted("payer", [("pay", {"amount": 12})], lambda told: f"done: {told[-1]}"),
    tools=[pay],
)
clerk = Agent(name="clerk", model=Scripted("clerk", [("transfer_to_payer", {})]), handoffs=[payer])


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


register_agent("openai_farmer_alone", farmer)


@workflow("openai_buyer")
async def buys(steps: AsyncSteps, goal: str) -> Choice:
    return (await run_agent(buyer, goal, idempotent=["price"])).final_output


@workflow("openai_payer")
async def pays(steps: AsyncSteps, goal: str) -> str:
    return (await run_agent(payer, goal)).final_output


@workflow("openai_clerk")
async def hands_over(steps: AsyncSteps, goal: str) -> str:
    return (await run_agent(clerk, goal)).final_output


@dataclass
class Basket:
    """What the agents of a run share."""

    animals: list[str]


@function_tool
async def put(context: RunContextWrapper[Basket], animal: str) -> str:
    """Put an animal into the basket."""
    context.context.animals.append(animal)
    return "it is in"


@function_tool
async def look(context: RunContextWrapper[Basket]) -> str:
    """Look into the basket."""
    return str(len(context.context.animals))


keeper = Agent(
    name="keeper",
    model=Scripted("keeper", [("look", {})], [("put", {"animal": "hen"})], "done"),
    tools=[look, put],
)


@workflow("openai_keeper")
async def keeps(steps: AsyncSteps, goal: str) -> str:
    return (await run_agent(keeper, goal, context=Basket([]))).final_output


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    ASKED.clear()
    FAULTS.clear()


@pytest.fixture
def driver(settings: Settings) -> Iterator[Driver]:
    with driving(settings) as made:
        yield made


STEPS = ["model", "price", "price.2", "model.2"]


def test_each_request_and_each_call_is_a_step(client: Client, driver: Driver) -> None:
    run = client.submit("openai_buyer", "buy the cheapest animal")
    done = play(driver, run)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, {"animal": "hen"})
    assert [name for name, _ in journal(client, run)] == STEPS
    assert done.details["spent"]["tokens"] == 220


@pytest.mark.parametrize(
    ("death", "requests"), [("buyer 0", 3), ("price of cow", 2), ("buyer 2", 3)]
)
def test_a_death_costs_one_request_at_most(
    client: Client, driver: Driver, death: str, requests: int
) -> None:
    DEADLY[death] = 1
    run = client.submit("openai_buyer", "buy the cheapest animal")
    assert play(driver, run).answer == {"animal": "hen"}
    assert ASKED["buyer"] == requests and not +DEADLY
    assert [name for name, _ in journal(client, run)] == STEPS


@pytest.mark.parametrize(
    ("answer", "said"),
    [("approve", "done: paid 12"), ({"refuse": "too much"}, "done: too much")],
)
def test_a_call_may_need_approval_behind_a_handoff(
    client: Client, driver: Driver, settings: Settings, answer: Any, said: str
) -> None:
    for flow in ("openai_payer", "openai_clerk"):
        run = client.submit(flow, "pay the bill")
        assert play(driver, run).status is RunStatus.INTERRUPTED
        [question] = client.inbox().waiting
        assert (question.kind, question.args) == ("approval", {"amount": 12})
        with driving(settings) as other:  # which has to run the agents again
            with pytest.raises(InvalidInput, match="cannot be changed"):
                client.resume(run.id, {"edit": {"amount": 3}})
            client.resume(run.id, answer)
            assert play(other, run).answer == said


@pytest.mark.parametrize("deadly", [["buy hen"], ["buy cow"], ["buy hen", "buy cow"]])
def test_of_two_calls_at_once_none_is_made_again_unasked(
    client: Client, driver: Driver, deadly: list[str]
) -> None:
    DEADLY.update(deadly)
    run = client.submit("openai_farmer", "buy both")
    asked = []
    while play(driver, run).status is RunStatus.INTERRUPTED:
        [question] = client.inbox().waiting
        asked.append(f"buy {question.args['animal']}")
        client.resume(run.id, {"result": "it is here"})
    assert sorted(asked) == sorted(deadly)
    assert DONE["buy hen"] == DONE["buy cow"] == 1
    answers = ["it is here" if f"buy {a}" in deadly else f"bought one {a}" for a in ("hen", "cow")]
    assert client.get(run.id).answer == ", ".join(answers)


def test_the_model_hears_what_a_person_says_of_a_call_in_doubt(
    client: Client, driver: Driver
) -> None:
    DEADLY["buy hen"] = 1
    run = client.submit("openai_farmer", "buy both")
    assert play(driver, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert question.listener == "model"
    client.resume(run.id, {"tell": "the shop is closed"})
    assert play(driver, run).answer == "the shop is closed, bought one cow"
    assert DONE["buy hen"] == 1


def test_a_busy_provider_is_waited_for(client: Client, driver: Driver) -> None:
    response = httpx.Response(503, request=httpx.Request("POST", "http://model.test"))
    FAULTS.append(InternalServerError("overloaded", response=response, body=None))
    run = client.submit("openai_buyer", "buy")
    while play_one(driver):
        pass
    assert client.get(run.id).phase == "waiting"
    assert "the model answers 503" in str(client.why(run.id))


def test_run_agent_needs_a_workflow() -> None:
    with pytest.raises(FatalError, match="expected to be called in"):
        asyncio.run(run_agent(payer, "pay"))


def test_an_agent_is_a_flow_by_itself(client: Client, driver: Driver) -> None:
    run = client.submit("openai_farmer_alone", "buy both")
    assert play(driver, run).answer == "bought one hen, bought one cow"


def test_a_tool_that_changes_the_shared_context_is_warned_of(
    client: Client, driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    run = client.submit("openai_keeper", "keep a hen")
    assert play(driver, run).answer == "done"
    [warning] = [each for each in caplog.messages if "`context`" in each]
    assert warning.startswith(f"run {run.id}: the tool put has changed the `context`")


#: What the tool ``look_up`` raises the first time.
RAISED: list[Exception] = []


@function_tool
async def look_up(account: str) -> str:
    """Look up an account."""
    if RAISED:
        raise RAISED.pop()
    return "empty"


register_agent(
    "openai_teller",
    Agent(
        name="teller",
        model=Scripted("teller", [("look_up", {"account": "1"})], lambda told: told[-1]),
        tools=[look_up],
    ),
    idempotent=["look_up"],
)


@pytest.mark.parametrize(
    ("raised", "status", "told"),
    [
        (FatalError("it was closed"), RunStatus.ERRORED, "it was closed"),
        (RetryableError("busy"), RunStatus.COMPLETED, "empty"),
        (ValueError("odd"), RunStatus.COMPLETED, "An error occurred while running the tool"),
    ],
    ids=["ends the run", "repeats the step", "goes to the model"],
)
def test_an_error_of_a_tool(
    client: Client, driver: Driver, raised: Exception, status: RunStatus, told: str
) -> None:
    RAISED[:] = [raised]
    run = play(driver, client.submit("openai_teller", "look"))
    assert not RAISED
    assert run.status is status, run.error
    assert told in str(run.answer or run.error)
