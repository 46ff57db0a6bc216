"""Agents whose worker dies in each round, beside an undisturbed one."""

from __future__ import annotations

from perdure import Client, RunStatus
from tests.support.example_flows.openai_agents import ASKED
from tests.support.round_driver import Driver
from tests.support.workflow_effects import DONE, let_time_pass, play_one


def calm_and_killed(client: Client, driver: Driver, flow: str) -> int:
    """Play a run in peace, then one for each of its rounds, which dies there; how many died.

    A person approves all, and says of each call in doubt that it has happened.
    """
    calm = played(client, driver, flow, None)
    asked, done = ASKED.copy(), DONE.copy()
    for deadly in range(client.get(calm).state.step):
        ASKED.clear()
        DONE.clear()
        wild = played(client, driver, flow, deadly)
        assert client.get(wild).answer == client.get(calm).answer, deadly
        assert ASKED.total() <= asked.total() + 1, deadly
        assert all(DONE[name] <= times + 1 for name, times in done.items()), deadly
        assert sum(DONE[name] - done[name] for name in done) <= 1, deadly
    return client.get(calm).state.step


def played(client: Client, driver: Driver, flow: str, deadly: int | None) -> str:
    """Play a run, and let the worker of the round with this number die; the id of the run."""
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
