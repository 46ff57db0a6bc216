"""Agents with tools of an MCP server, over stdio and HTTP, for tests that kill their process.

The server writes each call into the ledger. TILL_URL is its address for HTTP.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from agents import Agent
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from perdure import AsyncSteps, workflow
from perdure.flows.adapters import openai_agents
from perdure.flows.adapters.pydantic_ai import PerdureDurability, run_agent
from tests.support import payment_mcp_server
from tests.support.example_flows.openai_agents import Scripted
from tests.support.numbered_crash_points import LEDGER
from tests.support.workflow_effects import effect

URL = os.environ.get("TILL_URL", "http://127.0.0.1:9/mcp")
#: -I: it starts in a tenth of a second.
COMMAND = [sys.executable, "-I", payment_mcp_server.__file__, os.environ.get(LEDGER, os.devnull)]

# OpenAI Agents SDK


def _openai(transport: str) -> MCPServer:
    if transport == "http":
        return MCPServerStreamableHttp({"url": URL}, name="till")
    return MCPServerStdio(
        {"command": COMMAND[0], "args": COMMAND[1:]},
        name="till",
        client_session_timeout_seconds=30,
    )


def _register_openai(transport: str) -> None:
    script = [("price", {"item": "hen"})], [("pay", {"item": "hen"})], " and ".join
    agent = Agent(name="buyer", model=Scripted("buyer", *script), mcp_servers=[_openai(transport)])

    @workflow(f"openai_till_{transport}")
    async def buys(steps: AsyncSteps, goal: str) -> str:
        result = await openai_agents.run_agent(agent, goal, idempotent=["price"])
        return str(result.final_output)


# Pydantic AI


def buys(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    parts = [part for message in messages for part in message.parts]
    found = [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
    effect(f"buyer {len(found)}")
    reply: Any = TextPart(" and ".join(found))
    if len(found) < 2:
        reply = ToolCallPart(("price", "pay")[len(found)], {"item": "hen"})
    usage = RequestUsage(input_tokens=100, output_tokens=10)
    return ModelResponse(parts=[reply], usage=usage)


def _register_pydantic(transport: str) -> None:
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

    server: Any = URL if transport == "http" else StdioTransport(COMMAND[0], COMMAND[1:])
    agent = PydanticAgent(
        FunctionModel(buys),
        name="buyer",
        toolsets=[MCPToolset(server, id="till")],
        capabilities=[PerdureDurability(idempotent=["price"])],
    )

    @workflow(f"pydantic_till_{transport}")
    async def buys_too(steps: AsyncSteps, goal: str) -> str:
        result = await run_agent(agent, goal)
        return f"{result.output}"


for each in ("stdio", "http"):
    _register_openai(each)
    _register_pydantic(each)
