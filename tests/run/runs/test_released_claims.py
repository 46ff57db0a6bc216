"""A claim that is released before its round begins leaves no trace of an attempt."""

from __future__ import annotations

import pytest

from perdure import Client, RunStatus
from perdure.worker.store import Claim
from tests.support.example_flows import long_commands as heeding
from tests.support.in_process_runtime import runtime_of

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.long_commands",))


def test_a_stop_leaves_nothing_in_doubt_of_a_round_that_was_not_begun(client: Client) -> None:
    """The worker reads the stop request after its claim and before the round: it did nothing."""
    assert heeding.Heeds
    run = client.submit("heeds", "plain")
    store, rounds = client._store, runtime_of(client).rounds
    rounds.run(run.id, 0, 0)
    claim = store.rounds.claim(
        run.id,
        epoch=0,
        step=1,
        claim="fetched",
        owner="waits",
        lease=4000,
        known=("heeds",),
        schema="1",
    )
    assert isinstance(claim, Claim)
    client.request_stop(run.id)
    rounds.release(claim)
    stopped = client.get(run.id)
    assert stopped.status is RunStatus.STOPPED and stopped.details.get("in_doubt") is None
