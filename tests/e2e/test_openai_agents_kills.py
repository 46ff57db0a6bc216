"""Agents of the OpenAI Agents SDK, killed in each of their rounds: the same answer, and one request
more at most.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import Agent
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp

from perdure import AsyncSteps, Client, workflow
from perdure.flows.adapters.openai_agents import run_agent
from tests.support import payment_mcp_server
from tests.support.example_flows.openai_agents import ASKED, Scripted, nothing_asked
from tests.support.killed_agents import played
from tests.support.mcp_servers import GIT, git_over_http
from tests.support.ports import free_port
from tests.support.round_driver import Driver
from tests.support.workflow_effects import journal, nothing_done, play

__all__ = ["nothing_asked", "nothing_done"]


# MCP servers


@pytest.fixture(params=["stdio", "http"])
def mcp_server(request: pytest.FixtureRequest) -> Iterator[MCPServer]:
    if request.param == "stdio":
        yield MCPServerStdio({"command": GIT[0], "args": GIT[1:]}, name="git")
        return
    port = free_port()
    with git_over_http(port):
        yield MCPServerStreamableHttp({"url": f"http://127.0.0.1:{port}/mcp"}, name="git")


#: The agent that the workflow runs, of the test that is being run.
AGENTS: list[Agent[None]] = []


@workflow("openai_git")
async def uses_git(steps: AsyncSteps, goal: str) -> str:
    return str((await run_agent(AGENTS[0], goal, idempotent=["git_log"])).final_output)


def test_tools_of_an_mcp_server_are_steps(
    client: Client, driver: Driver, mcp_server: MCPServer, tmp_path: Path
) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "the first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    repo = {"repo_path": str(tmp_path)}
    AGENTS[:] = [
        Agent(
            name="coder",
            model=Scripted(
                "coder",
                [("git_log", repo)],
                [("git_create_branch", {**repo, "branch_name": "made"})],
                lambda told: "the first" * ("the first" in told[0]) + " " + told[1],
            ),
            mcp_servers=[mcp_server],
        )
    ]
    done = play(driver, client.submit("openai_git", "go"))
    assert "the first" in str(done.answer) and "made" in str(done.answer), done.error
    names = [name for name, _ in journal(client, done)]
    assert {"git.tools", "git_log", "git_create_branch"} <= set(names)
    if isinstance(mcp_server, MCPServerStdio):
        return  # which takes a second to begin; the till below dies in each round
    for deadly in range(done.state.step):
        subprocess.run(["git", "branch", "-q", "-D", "made"], cwd=tmp_path, check=True)
        ASKED.clear()
        found = client.get(played(client, driver, "openai_git", deadly))
        assert "the first" in str(found.answer) and "made" in str(found.answer), deadly
        assert ASKED["coder"] <= 4, deadly


@workflow("openai_till")
async def uses_till(steps: AsyncSteps, goal: str) -> str:
    return str((await run_agent(AGENTS[0], goal, idempotent=["price"])).final_output)


@pytest.mark.slow
def test_a_death_in_any_round_repeats_no_call_of_an_mcp_server_over_stdio(
    client: Client, driver: Driver, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    till = MCPServerStdio(
        {"command": sys.executable, "args": ["-I", payment_mcp_server.__file__, str(calls)]},
        name="till",
        client_session_timeout_seconds=30,
    )
    script = [("price", {"item": "hen"})], [("pay", {"item": "hen"})], ", ".join
    AGENTS[:] = [Agent(name="buyer", model=Scripted("buyer", *script), mcp_servers=[till])]
    rounds, deadly = 1, None
    while deadly is None or deadly < rounds:
        ASKED.clear()
        calls.write_text("")
        done = client.get(played(client, driver, "openai_till", deadly))
        assert "8" in str(done.answer) and "paid 12" in str(done.answer), (deadly, done.answer)
        made = Counter(calls.read_text().split())
        # The price is looked up again, which is idempotent. A person is asked about the payment.
        assert made["pay"] == 1 and made.total() <= 2 + (deadly is not None), (deadly, made)
        assert ASKED["buyer"] <= 3 + (deadly is not None), deadly
        rounds, deadly = done.state.step, 0 if deadly is None else deadly + 1
    assert rounds > 5
