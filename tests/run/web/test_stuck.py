"""Stuck runs: found among few runs looked at, each with its verdict; and the queues in which the
rest waits.
"""

from __future__ import annotations

import json

from perdure import Client, VerdictCode
from perdure.worker.store import Store
from perdure.worker.store.keys import Keys
from perdure.worker.store.tables import DeadLetters
from tests.support.redis_servers import CrashableServer
from tests.support.runs import handed_on


def codes(client: Client, **options: object) -> dict[str, VerdictCode]:
    return {verdict.details["run"]: verdict.code for verdict in client.stuck(**options)}  # type: ignore[arg-type]


def test_runs_that_no_worker_takes_stand_still_and_those_that_wait_for_a_person_do_not(
    client: Client,
) -> None:
    waiting = client.submit("countdown", "x", interrupt_before=["Controller"], inputs={"rounds": 1})
    alone = client.submit("countdown", "x", inputs={"rounds": 1}, submitted_by="ann")
    later = client.submit("countdown", "x", inputs={"rounds": 1}, not_before=3600)
    assert codes(client) == {alone.id: VerdictCode.NO_WORKER} and waiting.id and later.id
    assert (
        codes(client, submitted_by="ann") == {alone.id: VerdictCode.NO_WORKER}
        and codes(client, submitted_by="bob") == {}
    )


def test_the_runs_of_others_hide_none_of_a_submitter(client: Client) -> None:
    for _ in range(3):
        client.submit("countdown", "x", inputs={"rounds": 1}, submitted_by="ann")
    own = [
        client.submit("countdown", "x", inputs={"rounds": 1}, submitted_by="bob").id
        for _ in range(2)
    ]
    client.submit("countdown", "x", inputs={"rounds": 1}, submitted_by="ann")
    assert list(codes(client, limit=2, submitted_by="bob")) == own


def test_what_is_damaged_and_in_nobody_s_care_is_found_by_its_age(
    client: Client, prefix: str
) -> None:
    run = client.submit("countdown", "x", inputs={"rounds": 1})
    store = Store(client.settings.redis_url or "", prefix)
    store.redis.zrem(store.keys.due, run.id)
    assert codes(client) == {run.id: VerdictCode.QUARANTINED}
    store.close()


def test_no_more_runs_are_looked_at_than_asked_for(client: Client) -> None:
    for _ in range(5):
        client.submit("countdown", "x", inputs={"rounds": 1})
    assert len(codes(client, limit=2)) == 2


def test_the_queues_tell_their_length_and_how_long_the_next_run_has_waited(client: Client) -> None:
    assert [(seen.role, seen.length, seen.oldest) for seen in client.queues()] == [
        ("controller", 0, None),
        ("executor", 0, None),
    ]
    client.submit("countdown", "x", inputs={"rounds": 1})
    client.submit("countdown", "x", inputs={"rounds": 1})
    controller, _ = client.queues()
    assert (controller.length, controller.pushed, controller.taken) == (2, 2, 0)
    assert controller.oldest is not None and 0 <= controller.oldest < 60


def test_the_queues_count_the_rounds_that_wait_in_queues_of_flow_sets(client: Client) -> None:
    handed_on(client, 3, "countdown")
    client.submit("countdown", "x", inputs={"rounds": 1})
    controller, executor = client.queues()
    assert (controller.length, controller.handed_on) == (4, 3)
    assert controller.oldest is not None and 0 <= controller.oldest < 60
    assert (executor.length, executor.handed_on, executor.oldest) == (0, 0, None)


def test_a_stranger_s_message_at_the_head_of_a_queue_hides_nothing_but_the_waiting_time(
    client: Client, prefix: str
) -> None:
    store = Store(client.settings.redis_url or "", prefix)
    store.redis.rpush(Keys(prefix).queue("controller"), json.dumps({"body": "?"}))
    (controller, _) = client.queues()
    assert (controller.length, controller.oldest) == (1, None)
    store.close()


def test_refused_messages_are_listed_newest_first(
    client: Client, server: CrashableServer, prefix: str
) -> None:
    letters = DeadLetters(server.url, prefix)
    for why in ("first", "second"):
        letters.put_aside("q", "text", why)
    assert [letter["why"] for letter in client.dead_letters()] == ["second", "first"]
    letters.close()
