"""Agents of the OpenAI Agents SDK in workflows: requests and calls are steps, and none is made
twice.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from agents import (
    Agent,
    HostedMCPTool,
    Model,
    ModelResponse,
    RunContextWrapper,
    Usage,
    function_tool,
)
from openai import InternalServerError
from openai.types.responses import (
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseToolSearchCall,
)
from openai.types.responses.response_output_item import McpApprovalRequest

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
from tests.support.example_flows.openai_agents import (
    ASKED,
    FAULTS,
    Scripted,
    farmer,
    nothing_asked,
    pay,
)
from tests.support.round_driver import Driver, driving
from tests.support.workflow_effects import (
    DEADLY,
    DONE,
    journal,
    nothing_done,
    play,
    play_anywhere,
    play_one,
)

__all__ = ["nothing_asked", "nothing_done"]
payer = Agent(
    name="payer",
    model=Scripted("payer", [("pay", {"amount": 12})], lambda told: f"done: {told[-1]}"),
    tools=[pay],
)
clerk = Agent(name="clerk", model=Scripted("clerk", [("transfer_to_payer", {})]), handoffs=[payer])


register_agent("openai_farmer_alone", farmer)


@workflow("openai_payer")
async def pays(steps: AsyncSteps, goal: str) -> str:
    return (await run_agent(payer, goal)).final_output


@workflow("openai_clerk")
async def hands_over(steps: AsyncSteps, goal: str) -> str:
    return (await run_agent(clerk, goal)).final_output


@dataclass
class Basket:
    """The shared object of a run's agents."""

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


#: The errors that the tool ``look_up`` raises the first time.
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


class Searches(Model):
    """Searches for tools, which OpenAI carries out, then answers."""

    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        ASKED["searcher"] += 1
        found: Any = ResponseToolSearchCall(
            id="ts_1",
            type="tool_search_call",
            arguments={"query": "hen"},
            execution="server",
            status="completed",
        )
        if ASKED["searcher"] > 1:
            text = ResponseOutputText(type="output_text", text="done", annotations=[], logprobs=[])
            found = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[found], usage=Usage(requests=1), response_id=None)

    def stream_response(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError


register_agent("openai_searcher", Agent(name="searcher", model=Searches()))


def test_a_call_without_a_name_is_told_by_its_type(client: Client, driver: Driver) -> None:
    run = client.submit("openai_searcher", "go")
    done = play(driver, run)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, "done")
    told = [str(event.to_dict()) for event in client.events(run.id)]
    assert any('tool_search {"query":"hen"}' in each for each in told)
    thoughts = [turn["command"]["thought"] for turn in client.transcript(run.id)["history"]]
    assert thoughts == ['tool_search {"query":"hen"}', "done"]


class Hosted(Scripted):
    """Calls a tool of an MCP server that the provider reaches, and tells the person's decision."""

    async def get_response(self, system_instructions: Any, input: Any, **named: Any) -> Any:  # noqa: A002
        items = [] if isinstance(input, str) else input
        decided = [each for each in items if each.get("type") == "mcp_approval_response"]
        if decided:
            self.replies = (f"{decided[-1]['approve']} {decided[-1].get('reason', '')}",)
            return await super().get_response(system_instructions, [])
        call = McpApprovalRequest(
            id="mcpr_1", type="mcp_approval_request", server_label="shop", name="buy",
            arguments='{"animal": "hen"}',
        )  # fmt: skip
        return ModelResponse([call], Usage(requests=1), None)


shop = HostedMCPTool({"type": "mcp", "server_label": "shop", "server_url": "https://example.org"})
register_agent("openai_hosted", Agent(name="hosted", model=Hosted("hosted"), tools=[shop]))


@pytest.mark.parametrize(
    ("answer", "told"), [("approve", "True "), ({"refuse": "too dear"}, "False too dear")]
)
def test_a_person_is_asked_about_a_call_that_a_hosted_mcp_server_wants_approved(
    client: Client, settings: Settings, answer: Any, told: str
) -> None:
    run = client.submit("openai_hosted", "buy")
    assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert question.data["approval"]["command"] == "buy"
    client.resume(run.id, answer)
    assert play_anywhere(settings, run).answer == told
