"""Calls of OpenAI agents with arguments that are no JSON object: the tool's own rule decides
whether a person is asked.
"""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, ModelResponse, function_tool, tool_namespace
from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from openai.types.responses import ResponseFunctionToolCall

from perdure import Client, RunStatus, Settings
from perdure.flows.adapters.openai_agents import register_agent
from tests.support.example_flows.openai_agents import Scripted
from tests.support.workflow_effects import DONE, effect, nothing_done, play_anywhere

__all__ = ["nothing_done"]
BLANK, CUT = "", '{"x": '


class Unread(Scripted):
    """A model that calls ``now`` with arguments that are no JSON object."""

    def __init__(self, name: str, arguments: str) -> None:
        super().__init__(name, [("now", {})], str)
        self.arguments = arguments

    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        response = await super().get_response(*args, **named)
        for each in response.output:
            if isinstance(each, ResponseFunctionToolCall) and each.name == "now":
                each.arguments = self.arguments
        return response


class Clock(MCPServer):
    """An MCP server with one tool, ``now``, without arguments."""

    name = "clock"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, *args: Any) -> list[MCPTool]:
        return [MCPTool(name="now", inputSchema={"type": "object", "properties": {}})]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=effect("now"))])

    async def list_prompts(self) -> Any: ...

    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...


def tool(needs_approval: Any) -> Any:
    @function_tool(name_override="now", needs_approval=needs_approval)
    async def now() -> str:
        """Tell the time."""
        return effect("now")

    return now


async def never(context: Any, args: dict[str, Any], call_id: str) -> bool:
    return False


for name, arguments in {"blank": BLANK, "cut": CUT}.items():
    for rule, value in {"free": False, "guarded": True, "ruled": never}.items():
        flow = f"unread_{name}_{rule}"
        model = Unread(flow, arguments)
        register_agent(f"{flow}_function", Agent(name=flow, model=model, tools=[tool(value)]))
        if value is not never:
            clock = Clock(require_approval="always" if value else "never")
            register_agent(f"{flow}_mcp", Agent(name=flow, model=model, mcp_servers=[clock]))


@pytest.mark.parametrize("kind", ["function", "mcp"])
@pytest.mark.parametrize(("name", "calls"), [("blank", 1), ("cut", 0)])
def test_nobody_is_asked_about_a_tool_without_a_rule(
    client: Client, settings: Settings, name: str, calls: int, kind: str
) -> None:
    done = play_anywhere(settings, client.submit(f"unread_{name}_free_{kind}", "go"))
    assert done.status is RunStatus.COMPLETED, client.why(done.id)
    assert DONE["now"] == calls


@pytest.mark.parametrize("rule", ["guarded_function", "guarded_mcp", "ruled_function"])
def test_a_person_is_asked_where_a_rule_cannot_read_the_arguments(
    client: Client, settings: Settings, rule: str
) -> None:
    run = client.submit(f"unread_blank_{rule}", "go")
    assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
    client.resume(run.id, "approve")
    assert play_anywhere(settings, run).status is RunStatus.COMPLETED
    assert DONE["now"] == 1


class Namespaced(Scripted):
    """A model that calls the tool ``now`` of the namespace ``live``."""

    def __init__(self, name: str, namespace: str | None) -> None:
        super().__init__(name, [("now", {})], str)
        self.namespace = namespace

    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        response = await super().get_response(*args, **named)
        for each in response.output:
            if isinstance(each, ResponseFunctionToolCall) and self.namespace:
                each.namespace = self.namespace
        return response


def disabled(tool: Any) -> Any:
    tool.is_enabled = False
    return tool


SPACES = [
    *tool_namespace(name="live", description="the clock", tools=[tool(True)]),
    *tool_namespace(name="play", description="a toy clock", tools=[tool(False)]),
]
for name, (namespace, tools) in {
    "namespaces": ("live", SPACES),
    "variants": (None, [tool(True), disabled(tool(False))]),
}.items():
    model = Namespaced(f"same_name_{name}", namespace)
    register_agent(f"same_name_{name}", Agent(name=f"same_name_{name}", model=model, tools=tools))


@pytest.mark.parametrize("name", ["namespaces", "variants"])
def test_the_rule_of_another_tool_of_this_name_does_not_decide(
    client: Client, settings: Settings, name: str
) -> None:
    run = play_anywhere(settings, client.submit(f"same_name_{name}", "go"))
    assert (run.status, DONE["now"]) == (RunStatus.INTERRUPTED, 0), run.error


class Moving(Clock):
    """An MCP server that lists its tool only in its first list, or only after it."""

    def __init__(self, name: str, is_first: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.name, self.is_first = name, is_first

    async def list_tools(self, *args: Any) -> list[MCPTool]:
        effect(self.name)
        return await super().list_tools() if (DONE[self.name] == 1) == self.is_first else []


@function_tool
async def wait() -> str:
    """Wait."""
    return "done"


moving = Unread("unread_moved", BLANK)
moving.replies = ([("wait", {})], [("now", {})], str)
register_agent(
    "unread_moved",
    Agent(
        name="unread_moved",
        model=moving,
        tools=[wait],
        mcp_servers=[
            Moving("guarded", True, require_approval="always"),
            Moving("free", False, require_approval="never"),
        ],
    ),
)


def test_the_rule_of_a_tool_that_its_server_no_longer_lists_does_not_decide(
    client: Client, settings: Settings
) -> None:
    run = play_anywhere(settings, client.submit("unread_moved", "go"))
    assert (run.status, DONE["now"]) == (RunStatus.COMPLETED, 1), client.why(run.id)
