"""What a person says that a call in doubt has returned reaches the model as the call's result,
whatever keys it has.
"""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents.mcp import MCPServer
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from perdure import Client, OutcomeUnknown, RunStatus, Settings
from perdure.flows.adapters import openai_agents, pydantic_ai
from perdure.flows.adapters.pydantic_ai import PerdureDurability
from tests.support.example_flows.openai_agents import Scripted
from tests.support.workflow_effects import DONE, effect, nothing_done, play_anywhere

__all__ = ["nothing_done"]


def pays(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last = messages[-1].parts[0]
    if last.part_kind == "user-prompt":
        return ModelResponse(parts=[ToolCallPart("pay", {"to": "ann"})])
    kind = "result" if getattr(last, "outcome", "") == "success" else "retry"
    return ModelResponse(parts=[TextPart(f"{kind} {last.content}")])


payer = Agent(FunctionModel(pays), name="doubtful", capabilities=[PerdureDurability()])


@payer.tool_plain
def pay(to: str) -> dict[str, Any]:
    effect(f"pay {to}")
    raise OutcomeUnknown("cut off")


pydantic_ai.register_agent("doubtful_pydantic", payer)
refuser = Agent(FunctionModel(pays), name="refuser", capabilities=[PerdureDurability()])
invoicer = Agent(FunctionModel(pays), name="invoicer", capabilities=[PerdureDurability()])


@refuser.tool_plain(name="pay")
def refuse(to: str) -> str:
    raise ModelRetry("not to ann")


@invoicer.tool_plain(name="pay")
def invoice(to: str) -> dict[str, Any]:
    return {"kind": "model_retry", "message": to}


pydantic_ai.register_agent("refusing_pydantic", refuser)
pydantic_ai.register_agent("invoicing_pydantic", invoicer)


class Bank(MCPServer):
    """An MCP server whose calls are cut off, unless they pay to Bob."""

    name = "bank"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, *args: Any) -> list[MCPTool]:
        schema = {"type": "object", "properties": {"to": {"type": "string"}}}
        return [MCPTool(name="pay", inputSchema=schema)]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        effect(f"pay {arguments['to']}")
        if arguments["to"] == "ann":
            raise OutcomeUnknown("cut off")
        return CallToolResult(content=[TextContent(type="text", text="paid bob")])

    async def list_prompts(self) -> Any: ...

    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...


for person in ("ann", "bob"):
    openai_agents.register_agent(
        f"doubtful_openai_{person}",
        OpenAIAgent(
            name=person,
            model=Scripted(person, [("pay", {"to": person})], str),
            mcp_servers=[Bank()],
        ),
    )


@pytest.mark.parametrize(
    ("flow", "result", "told"),
    [
        ("doubtful_pydantic", {"kind": "invoice", "n": 1}, "result {'kind': 'invoice', 'n': "),
        ("doubtful_pydantic", {"kind": "model_retry"}, "result {'kind': 'model_retry'}"),
        ("doubtful_pydantic", "paid", "result paid"),
        ("doubtful_openai_ann", {"content": "paid"}, '{\\"content\\":\\"paid\\"}'),
        ("doubtful_openai_ann", {"content": [], "receipt": 5}, "receipt"),
        ("doubtful_openai_ann", {"receipt": "paid"}, "receipt"),
    ],
)
def test_the_result_of_a_person_is_a_result(
    client: Client, settings: Settings, flow: str, result: Any, told: str
) -> None:
    run = client.submit(flow, "go")
    assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
    client.resume(run.id, {"result": result})
    done = play_anywhere(settings, run)
    assert done.status is RunStatus.COMPLETED, client.why(run.id)
    assert told.replace("\\", "") in str(done.answer).replace("\\", ""), done.answer
    assert DONE["pay ann"] == 1


@pytest.mark.parametrize(
    ("flow", "told"),
    [
        ("refusing_pydantic", "retry not to ann"),
        ("invoicing_pydantic", "result {'kind': 'model_retry', 'message': 'ann'}"),
        ("doubtful_openai_bob", "paid bob"),
    ],
)
def test_what_the_tool_itself_has_told_reads_back(
    client: Client, settings: Settings, flow: str, told: str
) -> None:
    assert told in str(play_anywhere(settings, client.submit(flow, "go")).answer)
