"""The master dies or stands still under load: workers go on by themselves, and data that all
replicas acknowledged is there.

How often, and without which protection how much is lost: ``python -m tests.soak.failover``,
docs/operations/sentinel.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, Settings, StoreUnavailable
from perdure.worker.domain.record import Record
from perdure.worker.operations.session import Session
from tests.support.failovers import Load, Told, cut_off_and_killed, frozen
from tests.support.leftover_keys import keys_under
from tests.support.sentinels import watched

FAULTS = {"cut off, then killed": cut_off_and_killed, "frozen": frozen}


def failed_over(room: Path, faults: Sequence[str], **options: Any) -> Told:
    """Cause one failover after the other, then quiet.

    Every surviving run's log is exact, no worker ended, and a new run is played.
    """
    with watched() as service:
        settings = Settings(
            redis_url=service.url,
            prefix="failover",
            flow_modules=("tests.support.example_flows.rings",),
            **options,
        )
        with Load(service, settings, room / "confirmed").running() as load:
            for fault in faults:
                load.fail_over(FAULTS[fault])
            load.settle()
            assert load.inexact() == []
            assert load.client._store.lists.counts()["due"] == 0
            assert [worker.process.poll() for worker in load.fleet] == [None] * len(load.fleet)
            told = load.told
    submits = f"{len(told.acknowledged)} submits acknowledged, {len(told.lost)} lost, {len(told.doubtful)} not replicated, {told.failed} failed"
    commits = f"{told.confirmed} commits, {told.undone} taken back"
    recovery = [round(seconds, 1) for seconds in told.recovery]
    print(
        f"{told.elections} failovers for {len(told.recovery)} faults: {submits}; {commits}; recovery {recovery} s"
    )
    return told


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_what_all_replicas_have_outlives_the_master_and_whatever_else_it_confirmed_is_played_again(
    tmp_path: Path,
) -> None:
    """Of both: with one, it hangs on which of them is made the master."""
    told = failed_over(tmp_path, list(FAULTS), wait_replicas=2)
    assert told.lost == []
    assert told.undone > 0, (
        "the master must have confirmed what its replicas never had, or nothing was at stake"
    )
    assert told.doubtful, "submits must have come while no replica listened"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_without_waiting_a_master_whose_replicas_were_cut_off_takes_acknowledged_submits_with_it(
    tmp_path: Path,
) -> None:
    """The control: if this loses nothing, the test above proves nothing."""
    told = failed_over(tmp_path, ["cut off, then killed"])
    assert told.lost and told.undone > 0


class Forgetful(Session):
    """Its server fails over between the submit and the check of its result, to a replica without
    the run.
    """

    def record(self, run_id: str) -> Record:
        redis = self.store.redis
        redis.delete(*keys_under(redis, self.settings.prefix))
        return super().record(run_id)


def test_a_submit_that_the_server_forgot_at_once_is_not_acknowledged(settings: Settings) -> None:
    """If it has to check, the run is an earlier submission's.

    A submission that makes the run learns so from the same answer.
    """
    client = Client(settings=settings)
    client._session = Forgetful(settings=settings)
    client.submit("countdown", "g", {"rounds": 2}, idempotency_key="one")
    with pytest.raises(StoreUnavailable, match=r"no longer has it.*Submit it again"):
        client.submit("countdown", "g", {"rounds": 2}, idempotency_key="one")
    client.close()
