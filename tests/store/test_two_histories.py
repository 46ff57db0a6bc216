"""After a failover, or a loss of power with ``everysec``, the server has forgotten claims whose
workers still play: they are fenced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from perdure.worker.store import Store
from tests.support.redis_servers import until
from tests.support.runs import START, claim, commit_end, commit_next, hash_of, new_run, phase
from tests.support.sentinels import watched


@dataclass(frozen=True)
class Histories:
    """Of one run that was queued: the master goes on in one way, the replica that took its place in
    another.
    """

    lost: Store
    surviving: Store


@pytest.fixture
def histories(prefix: str) -> Iterator[Histories]:
    with watched(servers=2, sentinels=0) as pair:
        master, replica = (
            Store(f"redis://127.0.0.1:{port}", prefix, now=START) for port in pair.servers
        )
        new_run(master)
        until(lambda: replica.reads.fields("r") is not None, "the run on the replica")
        with pair.client(pair.servers[1]) as client:
            client.replicaof("NO", "ONE")
        yield Histories(master, replica)
        master.close()
        replica.close()


def test_a_claim_of_the_history_that_was_lost_commits_nothing_though_its_token_is_anothers_too(
    histories: Histories,
) -> None:
    forgotten, granted = claim(histories.lost), claim(histories.surviving)
    assert forgotten.token == granted.token, "both count on from the same number"
    assert commit_end(histories.surviving, forgotten) == ("fenced", "")
    assert phase(histories.surviving) == "leased"
    assert commit_end(histories.surviving, granted) == ("ok", "completed")


def test_a_commit_confirmed_by_the_lost_history_is_refused_when_it_is_sent_again(
    histories: Histories,
) -> None:
    forgotten = claim(histories.lost)
    assert commit_next(histories.lost, forgotten) == ("ok", "continued")
    granted = claim(histories.surviving)
    assert commit_next(histories.surviving, forgotten) == ("fenced", "")
    assert commit_next(histories.surviving, granted) == ("ok", "continued")


def test_a_heartbeat_of_the_history_that_was_lost_extends_nobody_elses_lease(
    histories: Histories,
) -> None:
    forgotten, granted = claim(histories.lost), claim(histories.surviving)
    before = hash_of(histories.surviving)["lease_until"]
    histories.surviving.now = START + 1000
    assert histories.surviving.rounds.extend(
        [("r", forgotten.token, "")], claims=[forgotten.id]
    ) == ["lost"]
    assert hash_of(histories.surviving)["lease_until"] == before
    assert histories.surviving.rounds.extend([("r", granted.token, "")], claims=[granted.id]) == [
        "ok"
    ]
