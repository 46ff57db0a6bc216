"""Pauses before and behind nodes: the operations that resume them, and the operations that count as
an answer.
"""

from __future__ import annotations

import pytest

from perdure import Client, InvalidTransition, RunStatus, Settings
from tests.support.example_flows import ends_and_pauses  # noqa: F401 -- registers flows
from tests.support.runs_in_every_status import play


@pytest.mark.parametrize(
    ("flow", "node"), [("question", "Executor"), ("person_decides", "Controller")]
)
def test_a_plain_resume_of_a_pause_before_a_node_is_no_answer_to_what_the_node_asks(
    client: Client, settings: Settings, flow: str, node: str
) -> None:
    run = client.submit(flow, "which colour?", interrupt_before=[node])
    play(settings, run.id)
    assert client.get(run.id).state.interrupt_reason == f"interrupt_before: {node}"
    client.resume(run.id)
    play(settings, run.id)
    (asked,) = client.inbox()
    assert (asked.run_id, asked.kind) == (run.id, "question"), (
        "the node asks now, and nobody has answered it yet"
    )
    client.resume(
        run.id,
        {"command": "finish", "command_args": {"answer": "blue"}}
        if flow == "person_decides"
        else "blue",
    )
    while client.get(run.id).status is not RunStatus.COMPLETED:
        play(settings, run.id)
        if client.get(run.id).status is RunStatus.INTERRUPTED:
            client.resume(run.id)
    assert client.get(run.id).answer == "blue"


def test_an_answer_that_is_given_to_a_pause_before_a_node_is_the_nodes(
    client: Client, settings: Settings
) -> None:
    run = client.submit(
        "question", "which colour?", interrupt_before=["Executor"], budgets={"cycles": 1}
    )
    play(settings, run.id)
    client.resume(run.id, "green")
    play(settings, run.id)
    assert client.transcript(run.id)["history"][0]["observation"] == "green"


def test_an_answer_to_a_pause_behind_a_node_or_to_a_budget_is_refused_and_the_run_waits_on(
    client: Client, settings: Settings
) -> None:
    run = client.submit("relay", "g", interrupt_after=["Fetch"])
    play(settings, run.id)
    with pytest.raises(InvalidTransition, match="after node Fetch"):
        client.resume(run.id, "yes")
    client.request_stop(run.id)
    with pytest.raises(InvalidTransition, match="after node Fetch"):
        client.resume(run.id, "yes")
    client.resume(run.id)
    assert client.get(run.id).status is RunStatus.INTERRUPTED, (
        "the stop did not answer for the person"
    )
    client.resume(run.id)
    play(settings, run.id)
    assert client.get(run.id).answer == "reported"
    spent = client.submit("countdown", "g", {"rounds": 3}, budgets={"cycles": 1})
    play(settings, spent.id)
    with pytest.raises(InvalidTransition, match="budget"):
        client.resume(spent.id, "yes", {"cycles": 5})
