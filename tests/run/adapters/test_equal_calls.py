"""A model makes a call, and later an equal one: each call has its own approval, and is carried out
once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import function_tool
from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from pydantic_ai import Agent, ApprovalRequired, ModelRetry, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from perdure import AsyncSteps, Client, Run, RunStatus, Settings, workflow
from perdure.flows.adapters import openai_agents, pydantic_ai
from perdure.flows.adapters.approvals import AgentCall
from perdure.flows.adapters.pydantic_ai import PerdureDurability
from tests.support.example_flows.openai_agents import Scripted
from tests.support.workflow_effects import DONE, effect, nothing_done, play_anywhere

__all__ = ["nothing_done"]
#: Whether the rules that a test changes while a run waits need an approval.
RULE = {"asks": True}


def calling(*people: str) -> FunctionModel:
    """Return a model that sends to each person in turn, and then tells all that it has read."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = sum(isinstance(each, ModelResponse) for each in messages)
        if done < len(people):
            call = ToolCallPart("send", {"to": people[done]}, tool_call_id=f"c{done + 1}")
            return ModelResponse(parts=[call])
        parts = [each for message in messages for each in message.parts]
        told = [each.content for each in parts if isinstance(each, ToolReturnPart | UserPromptPart)]
        return ModelResponse(parts=[TextPart(str(told))])

    return FunctionModel(reply)


def pydantic_agent(name: str, send: Callable[..., str], *people: str, **options: Any) -> Agent:
    agent = Agent(calling(*people), name=name, capabilities=[PerdureDurability()])
    agent.tool(send, name="send", **options)
    return agent


def sends(context: RunContext, to: str) -> str:
    return effect(f"send {to}")


def fails_once(context: RunContext, to: str) -> str:
    told = effect(f"send {to}")
    if context.tool_call_id == "c1":
        raise ModelRetry("not now")
    return told


def asks_itself(context: RunContext, to: str) -> str:
    if RULE["asks"] and not context.tool_call_approved:
        raise ApprovalRequired
    return effect(f"send {to}")


def asks_the_second_time(context: RunContext, to: str) -> str:
    if context.tool_call_id == "c2" and not context.tool_call_approved:
        raise ApprovalRequired
    return effect(f"send {to}")


def tool_of(needs_approval: Any, effect_name: str = "send") -> Any:
    @function_tool(name_override="send", needs_approval=needs_approval)
    async def send(to: str) -> str:
        """Send."""
        return effect(f"{effect_name} {to}")

    return send


async def second(context: Any, args: dict[str, Any], call_id: str) -> bool:
    return call_id.split("_")[2] == "1"


async def changing(context: Any, args: dict[str, Any], call_id: str) -> bool:
    return RULE["asks"]


async def second_and_later_all(context: Any, args: dict[str, Any], call_id: str) -> bool:
    return not RULE["asks"] or call_id.split("_")[2] == "1"


class Post(MCPServer):
    """An MCP server with one tool, ``send``."""

    name = "post"

    async def connect(self) -> None:
        pass

    async def cleanup(self) -> None:
        pass

    async def list_tools(self, *args: Any) -> list[MCPTool]:
        takes = {"type": "object", "properties": {"to": {"type": "string"}}}
        return [MCPTool(name="send", inputSchema=takes)]

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, meta: Any = None
    ) -> CallToolResult:
        text = effect(f"send {(arguments or {})['to']}")
        return CallToolResult(content=[TextContent(type="text", text=text)])

    async def list_prompts(self) -> Any:
        raise NotImplementedError

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:
        raise NotImplementedError


def changing_policy(context: Any, agent: Any, tool: Any) -> bool:
    return RULE["asks"]


def mcp_agent(name: str, policy: Any, *calls: Any, tool: str = "send") -> OpenAIAgent:
    return OpenAIAgent(
        name=name,
        model=Scripted(name, *([(tool, {"to": "ann"})] for _ in calls), str),
        mcp_servers=[Post(require_approval=policy)],
        mcp_config={"include_server_in_tool_names": tool != "send"},
    )


SEND = [("send", {"to": "ann"})]


def openai_agent(name: str, needs_approval: Any, *calls: Any) -> OpenAIAgent:
    return OpenAIAgent(
        name=name, model=Scripted(name, *calls, str), tools=[tool_of(needs_approval)]
    )


for flow, agent in {
    "equal_retry": pydantic_agent("r", fails_once, "ann", "ann", requires_approval=True, retries=3),
    "equal_static": pydantic_agent("s", sends, "ann", "ann", requires_approval=True),
    "equal_edited": pydantic_agent("e", sends, "ann", "bob", requires_approval=True),
    "equal_itself": pydantic_agent("i", asks_itself, "ann", "ann"),
    "equal_second": pydantic_agent("n", asks_the_second_time, "ann", "ann"),
}.items():
    pydantic_ai.register_agent(flow, agent)
for flow, openai in {
    "equal_openai_static": openai_agent("a", True, SEND, SEND),
    "equal_openai_second": openai_agent("b", second, SEND, SEND),
    "equal_openai_changing": openai_agent("c", changing, SEND, SEND),
    "equal_openai_stricter": openai_agent("d", second_and_later_all, SEND, SEND),
    "equal_openai_mcp": mcp_agent("m", "always", 1, 2),
    "equal_openai_mcp_changing": mcp_agent("v", changing_policy, 1, 2),
    "equal_openai_mcp_prefixed": mcp_agent("p", changing_policy, 1, 2, tool="mcp_post__send"),
    "equal_openai_handoff": OpenAIAgent(
        name="first",
        model=Scripted("first", SEND, [("transfer_to_other", {})]),
        tools=[tool_of(False)],
        handoffs=[openai_agent("other", True, SEND)],
    ),
}.items():
    openai_agents.register_agent(flow, openai)


free = pydantic_agent("free", sends, "ann")
guarded = pydantic_agent("guarded", sends, "ann", requires_approval=True)
free_openai = OpenAIAgent(name="f", model=Scripted("f", SEND, str), tools=[tool_of(False, "free")])
guarded_openai = openai_agent("g", True, SEND)
free_mcp, guarded_mcp = mcp_agent("fm", "never", 1), mcp_agent("gm", "always", 1)


@workflow("equal_two_agents")
async def two_agents(steps: AsyncSteps, goal: str) -> list[str]:
    run = pydantic_ai.run_agent
    found = await asyncio.gather(run(guarded, goal), run(free, goal))
    return [str(each.output) for each in found]


@workflow("equal_openai_two_agents")
async def two_openai_agents(steps: AsyncSteps, goal: str) -> list[str]:
    run = openai_agents.run_agent
    found = await asyncio.gather(run(guarded_openai, goal), run(free_openai, goal))
    return [str(each.final_output) for each in found]


@workflow("equal_openai_mcp_two_agents")
async def two_mcp_agents(steps: AsyncSteps, goal: str) -> list[str]:
    run = openai_agents.run_agent
    found = await asyncio.gather(run(guarded_mcp, goal), run(free_mcp, goal))
    return [str(each.final_output) for each in found]


@pytest.fixture(autouse=True)
def rule_asks() -> None:
    RULE["asks"] = True


def play_answered(client: Client, settings: Settings, run: Run, *answers: Any) -> Run:
    """Play the run, and give the answers. Each answer is read by another process."""
    for answer in answers:
        assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED, client.why(run.id)
        client.resume(run.id, answer)
    done = play_anywhere(settings, run)
    assert done.status is RunStatus.COMPLETED, client.why(run.id)
    return done


@pytest.mark.parametrize(
    ("flow", "answers", "effects"),
    [
        ("equal_static", ["approve", "approve"], {"send ann": 2}),
        ("equal_static", [{"refuse": "no"}, "approve"], {"send ann": 1}),
        ("equal_retry", ["approve", "approve"], {"send ann": 2}),
        ("equal_edited", [{"edit": {"to": "bob"}}, "approve"], {"send bob": 2}),
        ("equal_itself", ["approve", "approve"], {"send ann": 2}),
        ("equal_itself", ["approve", {"refuse": "no"}], {"send ann": 1}),
        ("equal_second", ["approve"], {"send ann": 2}),
        ("equal_second", [{"refuse": "no"}], {"send ann": 1}),
        ("equal_openai_static", ["approve", "approve"], {"send ann": 2}),
        ("equal_openai_second", ["approve"], {"send ann": 2}),
        ("equal_openai_second", [{"refuse": "no"}], {"send ann": 1}),
        ("equal_openai_handoff", ["approve"], {"send ann": 2}),
        ("equal_openai_mcp", ["approve", "approve"], {"send ann": 2}),
        ("equal_openai_mcp", [{"refuse": "no"}, "approve"], {"send ann": 1}),
        ("equal_two_agents", ["approve"], {"send ann": 2}),
        ("equal_two_agents", [{"refuse": "no"}], {"send ann": 1}),
        ("equal_openai_two_agents", ["approve"], {"free ann": 1, "send ann": 1}),
        ("equal_openai_two_agents", [{"refuse": "no"}], {"free ann": 1}),
        ("equal_openai_mcp_two_agents", ["approve"], {"send ann": 2}),
        ("equal_openai_mcp_two_agents", [{"refuse": "no"}], {"send ann": 1}),
    ],
)
def test_each_of_two_equal_calls_has_its_own_approval(
    client: Client, settings: Settings, flow: str, answers: list[Any], effects: dict[str, int]
) -> None:
    play_answered(client, settings, client.submit(flow, "go"), *answers)
    assert {name: n for name, n in DONE.items() if " ann" in name or " bob" in name} == effects


def test_each_of_two_agents_gets_the_result_of_its_own_call(
    client: Client, settings: Settings
) -> None:
    run = client.submit("equal_openai_two_agents", "go")
    done = play_answered(client, settings, run, {"refuse": "never!"})
    assert done.answer == ["['never!']", "['free ann is done']"]


@pytest.mark.parametrize(
    "flow",
    [
        "equal_itself",
        "equal_openai_changing",
        "equal_openai_mcp_changing",
        "equal_openai_mcp_prefixed",
    ],
)
def test_a_refused_call_stays_refused_if_an_equal_call_is_carried_out_under_another_rule(
    client: Client, settings: Settings, flow: str
) -> None:
    run = client.submit(flow, "go")
    assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
    RULE["asks"] = False
    client.resume(run.id, {"refuse": "never!"})
    done = play_anywhere(settings, run)
    assert done.status is RunStatus.COMPLETED, client.why(run.id)
    assert "never!" in str(done.answer) and DONE["send ann"] == 1


def test_a_call_that_was_carried_out_unasked_is_not_taken_for_the_equal_one_that_is_asked_about(
    client: Client, settings: Settings
) -> None:
    run = client.submit("equal_openai_stricter", "go")
    assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
    RULE["asks"] = False  # Now each call needs approval.
    client.resume(run.id, "approve")
    done = play_anywhere(settings, run)
    assert done.status is RunStatus.COMPLETED, client.why(run.id)
    assert DONE["send ann"] == 2


@pytest.mark.parametrize("flow", ["equal_openai_changing", "equal_openai_mcp_changing"])
def test_questions_and_steps_of_an_older_release_are_found_without_the_id_of_their_call(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch, flow: str
) -> None:
    run = client.submit(flow, "go")
    with monkeypatch.context() as older:
        older.setattr(openai_agents, "agent_call_id", lambda *args: "")
        older.setattr(AgentCall, "compared", lambda self, steps, name, args: args)
        assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
        client.resume(run.id, "approve")
        assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert "call" not in question.data["approval"]
    client.resume(run.id, {"refuse": "never!"})
    RULE["asks"] = False
    done = play_anywhere(settings, run)
    assert "never!" in str(done.answer) and DONE["send ann"] == 1


def test_the_model_hears_that_a_person_has_changed_its_arguments(
    client: Client, settings: Settings
) -> None:
    run = client.submit("equal_edited", "go")
    done = play_answered(client, settings, run, {"edit": {"to": "bob"}}, "approve")
    assert done.answer.count("A person has changed the arguments") == 1
    assert 'of send. It was carried out with {"to":"bob"}' in done.answer
