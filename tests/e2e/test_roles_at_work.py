"""The users of config/redis.acl in processes: a worker's, a submitter's, an onlooker's, an
administrator's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import RunStatus, Settings
from perdure.worker.doctor import Level
from tests.support.acl_roles import FAMILIES, FLOWS, NOTES, WAITS, as_role, refused
from tests.support.acl_server import LockedServer, locked
from tests.support.command_line import CommandLine
from tests.support.redis_servers import until

__all__ = ["as_role", "locked"]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_each_role_can_do_all_that_it_is_for(
    locked: LockedServer, as_role: Any, tmp_path: Path
) -> None:
    producer, reader, admin = as_role("producer"), as_role("reader"), as_role("admin")
    pool = {"valkey": "threads", "redis": "prefork"}[locked.binary]
    command_line = CommandLine(
        tmp_path,
        Settings(redis_url=locked.url("worker")),
        PERDURE_FLOW_MODULES=f"{FLOWS},{WAITS},{FAMILIES},{NOTES}",
    )
    refused(locked)
    with command_line.worker() as killed:
        lost = producer.submit("ledger", "g", {"rounds": 2, "seconds": 0.5})
        until(lambda: producer.get(lost.id).phase == "leased", "a claim")
        killed.kill()
    with command_line.worker("--pool", pool):
        assert producer.wait(lost.id, 60).answer == [0, 1]
        assert "lost" in [event.type for event in producer.events(lost.id)]
        done = producer.submit("ledger", "g", {"rounds": 3}, idempotency_key="k")
        assert producer.submit("ledger", "g", {"rounds": 3}, idempotency_key="k").id == done.id
        assert producer.wait(done.id, 60).answer == [0, 1, 2]
        waits = producer.submit("payment", "g", {"times": 2, "timeout": 0.5, "nap": 0.1})
        until(lambda: producer.get(waits.id).phase == "parked", "a wait")
        producer.signal(waits.id, "paid", 7)
        assert producer.wait(waits.id, 60).answer[1:] == [["paid", 1, 7], None]
        family = producer.submit(
            "fan", "g", {"children": [{}, {"wait": True}], "options": {"wait": "any"}}
        )
        assert producer.wait(family.id, 60).answer == [[[0, "completed", "item 0"]], [1]]
        assert next(iter(admin.children(family.id))).phase == "completed"
        tree = producer.submit(
            "fan", "g", {"children": [{"wait": True}] * 2, "options": {"wait": "settled"}}
        )
        until(
            lambda: [each.phase for each in reader.children(tree.id)] == ["parked"] * 2, "a family"
        )
        producer.request_stop(tree.id)
        assert [each.phase for each in reader.children(tree.id)] == ["stopped"] * 2
        producer.resume(tree.id)
        until(
            lambda: [each.phase for each in reader.children(tree.id)] == ["parked"] * 2,
            "its return",
        )
        for child in reader.children(tree.id):
            producer.signal(child.id, "go")
        assert producer.wait(tree.id, 60).answer[1] == []
        long = producer.submit("ledger", "g", {"rounds": 50, "seconds": 0.2})
        until(lambda: producer.get(long.id).state.step > 0, "a step")
        producer.request_stop(long.id)
        assert producer.wait(long.id, 60).status is RunStatus.STOPPED
        producer.resume(long.id)
        assert producer.request_stop(long.id, "now").stopped
        asks = producer.submit("asker", "g", not_before=0.1, budgets={"tokens": 5})
        assert producer.wait(asks.id, 60).status is RunStatus.INTERRUPTED
        assert [
            [each.run_id for each in person.inbox()] for person in (producer, reader, admin)
        ] == [[asks.id]] * 3
        producer.resume(asks.id, "yes", {"tokens": 5})
        assert producer.wait(asks.id, 60).status is RunStatus.COMPLETED
        fails = producer.submit("trouble", "g", {"kind": "fatal", "times": 1})
        assert producer.wait(fails.id, 60).status is RunStatus.ERRORED
        producer.retry(fails.id)
        assert producer.wait(fails.id, 60).status is RunStatus.COMPLETED
        for onlooker in (producer, reader, admin):
            assert {done.id, long.id} <= {run.id for run in onlooker.runs()}
            assert onlooker.get(done.id).answer == [0, 1, 2] and onlooker.wait(done.id)
            assert [event.type for event in onlooker.events(done.id)][-1] == "completed"
            assert onlooker.transcript(done.id)["events"] and onlooker.why(done.id).sentence
            assert True in [worker["alive"] for worker in onlooker.workers()]
            assert onlooker.flows() and onlooker.paused_flows() == {}
            findings = {finding.check: finding.level for finding in onlooker.doctor()}
            assert {check for check, level in findings.items() if level is Level.UNKNOWN} == {
                "fsync"
            }
            assert Level.REFUSED not in findings.values()
        assert admin.pause_flow("ledger")
        held = producer.submit("ledger", "g", {"rounds": 1})
        until(lambda: producer.get(held.id).phase == "waiting", "the pause")
        admin.unpause_flow("ledger")
        assert producer.wait(held.id, 60).status is RunStatus.COMPLETED
        with locked.login("worker") as stranger:
            stranger.lpush("perdure.controller", "no message")
        until(lambda: len(reader._store.fleet.dead_letters()) == 1, "a dead letter")
        kept = producer.submit("note_taker", "likes tea", submitted_by="ada")
        assert producer.wait(kept.id, 60).answer == []
        assert [note.text for note in admin.notes("user:ada")] == ["likes tea"]
        assert [each.namespace for each in admin.note_namespaces("user:")] == ["user:ada"]
        assert admin.put_note("user:ada", "x") and len(admin.notes("user:ada", "x tea")) == 2
        assert admin.forget_notes("user:ada") == 2
        admin.delete(long.id)
        assert not [each for each in admin.delete_many("completed") if each.why_not]
        with locked.login("admin") as client:
            client.delete("perdure:dead")
    assert refused(locked) == set()
