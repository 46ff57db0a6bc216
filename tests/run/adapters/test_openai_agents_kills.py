"""Agents of the OpenAI Agents SDK, killed in each of their rounds: the same answer, and one request
more at most.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Client, RunStatus
from tests.support.example_flows.openai_agents import ASKED, nothing_asked
from tests.support.killed_agents import calm_and_killed
from tests.support.round_driver import Driver
from tests.support.workflow_effects import DONE, nothing_done, play

__all__ = ["nothing_asked", "nothing_done"]


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
