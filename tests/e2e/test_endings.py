"""How runs end: at a node that is gone, at their last cycle, after a pause behind their last node."""

from __future__ import annotations

import pytest

from flows import Node
from tests.support.endings import Relay
from tests.support.every_status import play
from worker import Client, RunStatus, Settings


def test_a_run_whose_next_node_is_gone_errors_at_once_and_names_the_nodes_there_are(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = client.submit("relay", "g", interrupt_before=["Report"])
    play(settings, run.id)
    assert client.get(run.id).status is RunStatus.INTERRUPTED
    monkeypatch.setattr(Relay, "topology", (Node("Fetch", "fetch"), Node("Reporting", "report")))
    client.resume(run.id)
    play(settings, run.id)
    ended = client.get(run.id)
    assert ended.status is RunStatus.ERRORED and ended.error is not None
    assert all(word in ended.error for word in (run.id, "'Report'", "'relay'", "Fetch, Reporting", f"holdfast retry {run.id}"))
    assert ended.details["losses"] == 0 and ended.details["attempt"] == 1
    monkeypatch.undo()
    client.retry(run.id)
    play(settings, run.id)
    assert client.get(run.id).answer == "reported", "the node is back, and the run goes on there"


def test_a_retry_after_bad_replies_begins_their_count_anew(client: Client, settings: Settings) -> None:
    run = client.submit("misunderstood", "g")
    for retried in range(2):
        play(settings, run.id)
        ended = client.get(run.id)
        assert ended.status is RunStatus.ERRORED and ended.error is not None and "3 bad replies" in ended.error
        assert ended.state.step == 2 * (retried + 1), "two became turns, and the third ended the run"
        client.retry(run.id)
    assert client.transcript(run.id)["run"]["values"]["_bad_replies"] == 0
