"""Pydantic AI's agents with tools of real MCP servers, over stdio and HTTP, killed every round."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from perdure import Client, RunStatus
from perdure.flows.adapters.pydantic_ai import PerdureDurability, register_agent
from perdure.flows.core import event_loop
from tests.support.flow_registry import own_registry
from tests.support.mcp_servers import GIT, git_over_http
from tests.support.ports import free_port
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.workflow_effects import journal, let_time_pass, play, play_one

#: It needs newer versions of some packages than Perdure does: the extra dev-agents.
transports = pytest.importorskip("fastmcp.client.transports")

#: Requests that reached the model.
ASKED: Counter[str] = Counter()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with one commit."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "the first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


@pytest.fixture(params=["stdio", "http"])
def toolset(request: pytest.FixtureRequest) -> Iterator[Any]:
    from pydantic_ai.mcp import MCPToolset

    if request.param == "stdio":
        transport = transports.StdioTransport(GIT[0], GIT[1:])  # one server for all connections
        yield MCPToolset(transport, id="git")
        event_loop.run(transport.disconnect())
        return
    port = free_port()
    with git_over_http(port):
        yield MCPToolset(f"http://127.0.0.1:{port}/mcp", id="git")


@pytest.fixture
def flow(toolset: Any, repository: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An agent that reads the log and branches."""
    own_registry(monkeypatch)
    ASKED.clear()
    repo = {"repo_path": str(repository)}

    def asks(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        ASKED["git"] += 1
        parts = [part for message in messages for part in message.parts]
        found = [part for part in parts if isinstance(part, ToolReturnPart)]
        match len(found):
            case 0:
                call = ToolCallPart("git_log", repo)
            case 1:
                call = ToolCallPart("git_create_branch", {**repo, "branch_name": "made"})
            case _:
                return ModelResponse(parts=[TextPart(f"{found[0].content} {found[1].content}")])
        return ModelResponse(parts=[call])

    agent = Agent(
        FunctionModel(asks),
        name="git",
        toolsets=[toolset],
        capabilities=[PerdureDurability(idempotent=["git_log"])],
    )
    register_agent("pydantic_git", agent)
    return "pydantic_git"


def branches(repository: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "branch", "--format", "%(refname:short)"],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    )
    return listed.stdout.split()


def test_tools_of_an_mcp_server_are_steps(
    client: Client, driver: Driver, flow: str, repository: Path
) -> None:
    done = play(driver, client.submit(flow, "go"))
    assert "the first" in str(done.answer) and "made" in branches(repository)
    names = [name for name, _ in journal(client, done)]
    assert [each for each in names if not each.startswith("git.model")][-2:] == [
        "git_log",
        "git_create_branch",
    ]
    assert ASKED["git"] == 3


@pytest.mark.parametrize(
    "toolset", ["http", pytest.param("stdio", marks=pytest.mark.slow)], indirect=True
)
def test_a_death_in_any_round_costs_one_request_at_most(
    client: Client, driver: Driver, flow: str, repository: Path
) -> None:
    calm = play(driver, client.submit(flow, "go"))
    for deadly in range(calm.state.step):
        ASKED.clear()
        subprocess.run(["git", "branch", "-q", "-D", "made"], cwd=repository, check=True)
        run = client.submit(flow, "go")
        for _ in range(deadly):
            assert play_one(driver)
        assert play_one(driver, before_its_commit=True)
        until(lambda: _goes_on(driver), "the round again")
        found = play(driver, run)
        if found.status is RunStatus.INTERRUPTED:
            [question] = client.inbox().waiting
            assert question.command == "git_create_branch", "the other tool is idempotent"
            assert question.args["branch_name"] == "made"
            client.resume(run.id, {"result": "Created branch 'made'"})
            found = play(driver, run)
        assert "the first" in str(found.answer) and "made" in branches(repository), deadly
        assert ASKED["git"] <= 4, deadly


def _goes_on(driver: Driver) -> bool:
    let_time_pass(driver)
    return True
