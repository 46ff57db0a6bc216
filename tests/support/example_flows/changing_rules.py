"""Flows that ask before each call, by a rule that a test changes while a run waits: a command,
calls, steps, three adapters.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

from agents import Agent as OpenAIAgent
from agents import function_tool
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from perdure import (
    Approval,
    AsyncSteps,
    Command,
    ControllerExecutorFlow,
    Finish,
    RoundContext,
    StepFailed,
    Steps,
    command,
    register,
    workflow,
)
from perdure.flows.adapters import openai_agents, pydantic_ai
from perdure.flows.adapters.langgraph import register_graph
from perdure.flows.adapters.pydantic_ai import PerdureDurability
from tests.support.example_flows.openai_agents import Scripted
from tests.support.example_flows.pydantic_agents import returns
from tests.support.workflow_effects import effect

#: The current answers of this module's rules. A test changes them while a run waits.
RULE = {"needed": True, "args": "ann"}


def is_needed(*args: Any) -> bool:
    return RULE["needed"]  # type: ignore[return-value]


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


@register("changing_deadline")
class UntilDeadline(ControllerExecutorFlow):
    """A command whose question has a deadline."""

    reads_errors = True
    decide = OneCommand.decide

    @command(approval=Approval(is_needed, deadline=3600, default="refuse"))
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


class State(TypedDict, total=False):
    text: str


def ask_and_send(state: State) -> State:
    said = interrupt({"may I send to": "ann"})
    if isinstance(said, dict) and "refuse" in said:
        return {"text": said["refuse"]}
    return {"text": effect("send ann")}


builder = StateGraph(State)
builder.add_node("send", ask_and_send)
builder.add_edge(START, "send")
builder.add_edge("send", END)
register_graph("changing_graph", builder, idempotent=True)

FLOWS = [
    "changing_command",
    "changing_calls",
    "changing_parallel_calls",
    "changing_step",
    "changing_siblings",
    "changing_pydantic_agent",
    "changing_openai_agent",
    "changing_graph",
]
EDITABLE = [
    "changing_command",
    "changing_calls",
    "changing_parallel_calls",
    "changing_pydantic_agent",
]
