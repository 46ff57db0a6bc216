"""An answer counts, whatever the rule of the approval says when the run goes on."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import function_tool
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from perdure import (
    AsyncSteps,
    Client,
    Command,
    ControllerExecutorFlow,
    Finish,
    RoundContext,
    Run,
    RunStatus,
    Settings,
    StepFailed,
    Steps,
    command,
    register,
    workflow,
)
from perdure.flows.adapters import openai_agents, pydantic_ai
from perdure.flows.adapters.pydantic_ai import PerdureDurability
from tests.support.example_flows.openai_agents import Scripted
from tests.support.example_flows.pydantic_agents import returns
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving
from tests.support.workflow_effects import DONE, effect, nothing_done, play, play_one

__all__ = ["nothing_done"]

#: What the rules of this module say now. A test changes it while a run waits.
RULE = {"needed": True, "args": "ann"}


def is_needed(*args: Any) -> bool:
    return RULE["needed"]  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def rules_ask() -> None:
    """At the beginning of a test, the rules ask before each call."""
    RULE.update(needed=True, args="ann")


@register("changing_command")
class OneCommand(ControllerExecutorFlow):
    """A command that a rule guards."""

    reads_errors = True

    def decide(self, context: RoundContext) -> Any:
        if context.history:
            return Finish(str([turn.observation for turn in context.history]))
        return Command("send", {"to": "ann"})

    @command(approval=is_needed)
    def send(self, to: str) -> str:
        """Send."""
        return effect(f"send {to}")


@register("changing_calls")
class TwoCalls(OneCommand):
    """Two calls in one reply."""

    def decide(self, context: RoundContext) -> Any:
        if context.history:
            return Finish(str([turn.observation for turn in context.history]))
        return [Command("send", {"to": "ann"}), Command("look", {})]

    @command(idempotent=True)
    def look(self) -> str:
        """Look."""
        return "seen"


@register("changing_parallel_calls")
class ParallelCalls(TwoCalls):
    """Two calls in one reply, each in a run of its own."""

    parallel_calls = 2


@workflow("changing_step")
def one_step(steps: Steps) -> str:
    try:
        return str(steps.step(effect, f"send {RULE['args']}", name="send", approval=is_needed))
    except StepFailed as error:
        return error.reason


@workflow("changing_siblings")
async def siblings(steps: AsyncSteps) -> str:
    import asyncio

    done = await asyncio.gather(
        steps.step(effect, "send ann", name="send", approval=is_needed),
        steps.step(effect, "look", name="look", idempotent=True),
        return_exceptions=True,
    )
    return str([str(each) for each in done])


def sends(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if found := returns(messages):
        return ModelResponse(parts=[TextPart(str(found))])
    return ModelResponse(parts=[ToolCallPart("send", {"to": "ann"})])


tools: FunctionToolset[Any] = FunctionToolset(id="changing")


@tools.tool_plain
def send(to: str) -> str:
    return effect(f"send {to}")


pydantic_ai.register_agent(
    "changing_pydantic_agent",
    Agent(
        FunctionModel(sends),
        name="changing",
        toolsets=[tools.approval_required(is_needed)],
        capabilities=[PerdureDurability()],
    ),
)


async def openai_rule(context: Any, args: dict[str, Any], call_id: str) -> bool:
    return is_needed()


@function_tool(name_override="send", needs_approval=openai_rule)
async def openai_send(to: str) -> str:
    """Send."""
    return effect(f"send {to}")


openai_agents.register_agent(
    "changing_openai_agent",
    OpenAIAgent(
        name="changing",
        model=Scripted("changing", [("send", {"to": "ann"})], str),
        tools=[openai_send],
    ),
)

FLOWS = [
    "changing_command",
    "changing_calls",
    "changing_parallel_calls",
    "changing_step",
    "changing_siblings",
    "changing_pydantic_agent",
    "changing_openai_agent",
]
EDITABLE = [
    "changing_command",
    "changing_calls",
    "changing_parallel_calls",
    "changing_pydantic_agent",
]


def played_to_question(client: Client, driver: Driver, flow: str) -> Run:
    """Submit a run, and play until it, or a child run of it, waits for a person."""
    run = client.submit(flow, "go")
    until(lambda: not play_one(driver) and client.inbox().waiting, "the question")
    return run


def answer(client: Client, answer: Any) -> None:
    """Answer the one question that waits."""
    [question] = client.inbox().waiting
    client.resume(question.run_id, answer)


@pytest.mark.parametrize("flow", FLOWS)
def test_what_a_person_refused_is_not_carried_out_when_the_rule_has_changed(
    client: Client, driver: Driver, settings: Settings, flow: str
) -> None:
    run = played_to_question(client, driver, flow)
    RULE["needed"] = False
    answer(client, {"refuse": "never!"})
    with driving(settings) as other:
        done = play(other, run)
    assert done.status is RunStatus.COMPLETED and "never!" in str(done.answer), client.why(run.id)
    assert not DONE["send ann"]


@pytest.mark.parametrize("flow", EDITABLE)
def test_the_arguments_that_a_person_changed_count_when_the_rule_has_changed(
    client: Client, driver: Driver, settings: Settings, flow: str
) -> None:
    run = played_to_question(client, driver, flow)
    RULE["needed"] = False
    answer(client, {"edit": {"to": "bob"}})
    with driving(settings) as other:
        assert play(other, run).status is RunStatus.COMPLETED, client.why(run.id)
    assert (DONE["send ann"], DONE["send bob"]) == (0, 1)


@pytest.mark.parametrize("flow", FLOWS)
def test_what_a_person_approved_is_carried_out_once_when_the_rule_changes_to_and_fro(
    client: Client, driver: Driver, settings: Settings, flow: str
) -> None:
    run = played_to_question(client, driver, flow)
    RULE["needed"] = False
    answer(client, "approve")

    def has_ended() -> bool:
        with driving(settings) as other:  # Functions are run again from their beginning.
            play_one(other)
        RULE["needed"] = not RULE["needed"]
        return client.get(run.id).status.ended

    until(has_ended, "the end of the run")
    assert client.get(run.id).status is RunStatus.COMPLETED, client.why(run.id)
    assert DONE["send ann"] == 1 and not client.inbox().waiting


def test_an_approval_of_other_arguments_approves_nothing_whatever_the_rule_says(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = played_to_question(client, driver, "changing_step")
    RULE.update(needed=False, args="bob")
    answer(client, "approve")
    with driving(settings) as other:
        assert play(other, run).status is RunStatus.INTERRUPTED
        assert not DONE
        [question] = client.inbox().waiting
        assert "the last answer was about other arguments" in question.question
        assert question.args == {"name": "send bob"}
        client.resume(run.id, "approve")
        assert play(other, run).answer == "send bob is done"
