"""Agents of the OpenAI Agents SDK, killed in each of their rounds: the same answer, and one request more at most."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    RunContextWrapper,
    input_guardrail,
)
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp

from perdure import AsyncSteps, Client, RunStatus, Settings, workflow
from perdure.flows.adapters.openai_agents import run_agent
from tests.run.adapters.test_openai_agents import (
    ASKED,
    Scripted,
    nothing_asked,
    pay,
    price,
)
from tests.run.workflows.test_workflows import (
    DONE,
    journal,
    let_time_pass,
    nothing_done,
    play,
    play_one,
)
from tests.support import payment_mcp_server
from tests.support.mcp_servers import GIT, free_port, git_over_http
from tests.support.round_driver import Driver, driving

__all__ = ["nothing_asked", "nothing_done"]


@pytest.fixture
def driver(settings: Settings) -> Iterator[Driver]:
    with driving(settings) as made:
        yield made


def calm_and_killed(client: Client, driver: Driver, flow: str) -> int:
    """Play a run in peace, then one for each of its rounds, which dies there; how many died.

    A person approves all, and says of each call in doubt that it has happened.
    """
    calm = _played(client, driver, flow, None)
    asked, done = ASKED.copy(), DONE.copy()
    for deadly in range(client.get(calm).state.step):
        ASKED.clear()
        DONE.clear()
        wild = _played(client, driver, flow, deadly)
        assert client.get(wild).answer == client.get(calm).answer, deadly
        assert ASKED.total() <= asked.total() + 1, deadly
        assert all(DONE[name] <= times + 1 for name, times in done.items()), deadly
        assert sum(DONE[name] - done[name] for name in done) <= 1, deadly
    return client.get(calm).state.step


def _played(client: Client, driver: Driver, flow: str, deadly: int | None) -> str:
    run = client.submit(flow, "go")
    rounds = 0
    while not client.get(run.id).status.ended:
        if play_one(driver, before_its_commit=rounds == deadly):
            rounds += 1
            continue
        let_time_pass(driver)
        for question in client.inbox().waiting:
            told = (
                "approve" if question.kind == "approval" else {"result": _result(question.command)}
            )
            client.resume(run.id, told, interrupt=question.id)
    found = client.get(run.id)
    assert found.status is RunStatus.COMPLETED, found.error
    return run.id


def _result(command: str | None) -> str:
    return {"pay": "paid 12", "price": "8"}.get(str(command), "Created branch 'made'")


# Handoff there and back

front = Agent(
    name="front",
    model=Scripted("front", [("transfer_to_back", {})], "the front has the last word"),
)
back = Agent(name="back", model=Scripted("back", [("transfer_to_front", {})]), handoffs=[front])
front.handoffs = [back]


@workflow("openai_there_and_back")
async def there_and_back(steps: AsyncSteps, goal: str) -> str:
    return str((await run_agent(front, goal)).final_output)


# Two calls at once, of which one needs approval

shopper = Agent(
    name="shopper",
    model=Scripted(
        "shopper", [("price", {"animal": "hen"}), ("pay", {"amount": 12})], None, ", ".join
    ),
    tools=[price, pay],
)


@workflow("openai_shopper")
async def shops(steps: AsyncSteps, goal: str) -> str:
    return str((await run_agent(shopper, goal)).final_output)


# A guardrail that asks a model, and trips

judge = Agent(name="judge", model=Scripted("judge", "bad"))


@input_guardrail
async def is_good(
    context: RunContextWrapper[None], agent: Agent[None], given: object
) -> GuardrailFunctionOutput:
    verdict = await run_agent(judge, "is it good?")
    return GuardrailFunctionOutput(verdict.final_output, verdict.final_output == "bad")


guarded = Agent(name="guarded", model=Scripted("guarded", "never said"), input_guardrails=[is_good])


@workflow("openai_guarded")
async def guards(steps: AsyncSteps, goal: str) -> str:
    try:
        return str((await run_agent(guarded, goal)).final_output)
    except InputGuardrailTripwireTriggered:
        return "the guardrail tripped"


@pytest.mark.parametrize(
    ("flow", "answer"),
    [
        ("openai_there_and_back", "the front has the last word"),
        ("openai_shopper", "8, paid 12"),
        ("openai_guarded", "the guardrail tripped"),
        ("openai_buyer", {"animal": "hen"}),
        ("openai_farmer", "bought one hen, bought one cow"),
    ],
)
def test_a_death_in_any_round_costs_one_request_at_most(
    client: Client, driver: Driver, flow: str, answer: Any
) -> None:
    run = client.submit(flow, "go")
    while play(driver, run).status is RunStatus.INTERRUPTED:
        client.resume(run.id, "approve")
    assert client.get(run.id).answer == answer
    ASKED.clear()
    DONE.clear()
    assert calm_and_killed(client, driver, flow) > 1


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
        found = client.get(_played(client, driver, "openai_git", deadly))
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
        done = client.get(_played(client, driver, "openai_till", deadly))
        assert "8" in str(done.answer) and "paid 12" in str(done.answer), (deadly, done.answer)
        made = Counter(calls.read_text().split())
        # The price is looked up again, which is idempotent. What was paid is asked of a person.
        assert made["pay"] == 1 and made.total() <= 2 + (deadly is not None), (deadly, made)
        assert ASKED["buyer"] <= 3 + (deadly is not None), deadly
        rounds, deadly = done.state.step, 0 if deadly is None else deadly + 1
    assert rounds > 5
