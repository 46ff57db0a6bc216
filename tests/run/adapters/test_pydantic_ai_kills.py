"""An agent of Pydantic AI with all kinds of tools, killed in each effect and before each commit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from perdure import Client, RunStatus
from tests.support.example_flows import pydantic_dealer  # noqa: F401 -- registers the flow
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.workflow_effects import DEADLY, DONE, let_time_pass, nothing_done, play_one

__all__ = ["nothing_done"]

TOKENS = 110


def played(client: Client, driver: Driver, deadly: int | None = None) -> Any:
    """Play a run, whose worker dies before the commit of one of its rounds; a person approves."""
    run = client.submit("pydantic_dealer", "buy a hen")
    rounds = 0

    def rests() -> bool:
        nonlocal rounds
        while play_one(driver, before_its_commit=rounds == deadly):
            rounds += 1
        let_time_pass(driver)
        for question in client.inbox().waiting:
            assert question.kind == "approval"
            client.resume(run.id, "approve", interrupt=question.id)
        return client.get(run.id).status.ended

    until(rests, "the end of the run")
    found = client.get(run.id)
    assert found.status is RunStatus.COMPLETED, found.error
    return found


def requests() -> int:
    return sum(count for name, count in DONE.items() if name.startswith(("dealer", "adviser")))


def killed(client: Client, driver: Driver, every: bool) -> int:
    """Play a run in peace, then with a death in effects and before commits; return the number of
    deaths.

    Args:
        every: whether it dies in each effect and each round, or in some.
    """
    calm = played(client, driver)
    effects = Counter(DONE)
    assert calm.answer == {
        "animal": "hen",
        "paid": "pay 12 is done",
        "advice": "take the hen",
        "tokens": 8 * TOKENS,
        "asked": 8,
    }
    spent = calm.details["spent"]
    assert (spent["tokens"], spent["requests"]) == (8 * TOKENS, 8)
    assert set(effects.values()) == {1}
    rounds = range(calm.state.step + 1)
    deaths = [*effects, *rounds] if every else ["adviser 1", "weigh cow", "pay 12", rounds[-3]]
    for deadly in deaths:
        DONE.clear()
        if isinstance(deadly, str):
            DEADLY[deadly] = 1
        found = played(client, driver, deadly if isinstance(deadly, int) else None)
        assert found.answer == calm.answer and not +DEADLY, deadly
        again = +Counter({name: count - effects[name] for name, count in DONE.items()})
        # The effects of a round: two prices, or one.
        assert again.total() <= 2 and requests() <= 9, (deadly, again)
        assert found.details["spent"]["requests"] == 8, (deadly, found.details["spent"])
    return len(deaths)


def test_an_agent_with_all_kinds_of_tools_is_killed_here_and_there(
    client: Client, driver: Driver
) -> None:
    assert killed(client, driver, every=False) == 4


@pytest.mark.slow
def test_an_agent_with_all_kinds_of_tools_is_killed_everywhere(
    client: Client, driver: Driver
) -> None:
    assert killed(client, driver, every=True) > 25
