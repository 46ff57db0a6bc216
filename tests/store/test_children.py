"""Child runs, by the scripts alone: what a parent starts, what it is told of their ends, what becomes of them if it stops."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.worker.store import Claim, Store
from perdure.worker.store.replies import ChildrenStep
from tests.support.runs import (
    LEASE,
    RETENTION,
    START,
    assert_lawful,
    child_id,
    claim,
    clock,
    commit,
    commit_end,
    commit_next,
    commit_unfinished,
    due,
    due_in,
    events,
    everything,
    fail_round,
    group_of,
    hash_of,
    later,
    messages,
    new_run,
    park,
    park_on_children,
    pause_at,
    phase,
    resume,
    retry,
    start_children,
    stop,
    submit,
    sweep,
    sweep_after,
    sweep_and_bring,
)

#: Until both have ended, until one has succeeded, and until one has failed or all have succeeded.
SETTLED, FIRST, ALL = (3, 3, 2), (1, 2, 3), (2, 1, 3)
GROUP = "0.0"


def parked(store: Store, need: tuple[int, int, int] = SETTLED, **options: Any) -> Claim:
    """A parent that waits for two children, which are not started yet."""
    new_run(store)
    granted = claim(store)
    assert park_on_children(store, granted, need, **options) == ("ok", "parked")
    return granted


def family(store: Store, need: tuple[int, int, int] = SETTLED, **options: Any) -> list[str]:
    """A parent that waits for two children, which are queued; their ids."""
    parked(store, need, **options)
    assert start_children(store, 2) == ["ok", "2"]
    store.redis.delete(store.keys.follow_ups)
    return [child_id(store, 0), child_id(store, 1)]


def end_child(store: Store, run_id: str, **fields: str) -> None:
    assert commit_end(store, claim(store, run_id), **fields) == ("ok", "completed")


def fail_child(store: Store, run_id: str) -> None:
    assert fail_round(store, claim(store, run_id), fatal=1) == ("ok", "errored")


def end_of(store: Store, place: int) -> str | None:
    """What the parent has of the end of a child."""
    return group_of(store).get(f"end:{place}")


def follow_up(store: Store, run_id: str = "r") -> int | None:
    """The ms until a sweep passes on that the run's children need something; None if nobody has to."""
    at = store.redis.zscore(store.keys.follow_ups, run_id)
    return None if at is None else int(at) - clock(store)


def reconcile(store: Store, run_id: str = "r", **options: Any) -> list[ChildrenStep]:
    """Every step of one caller, up to the last one."""
    steps = [store.reconcile_children(run_id, **options)]
    while steps[-1].word in ("more", "moved"):
        last = steps[-1]
        steps.append(store.reconcile_children(run_id, last.walk, last.start, **options))
    return steps


def last_word(store: Store, run_id: str = "r") -> str:
    return reconcile(store, run_id)[-1].word


def phases(store: Store, *run_ids: str) -> list[str]:
    return [phase(store, run_id) for run_id in run_ids]


# The park


def test_a_park_writes_the_group_and_asks_for_the_start_of_its_children(store: Store) -> None:
    parked(store, limit=7, policy="abandon")
    assert group_of(store) == {
        "total": "2", "limit": "7", "policy": "abandon", "started": "0", "ok": "0", "bad": "0", "order": "0", "plan:0": "{}", "plan:1": "[]",
    }  # fmt: skip
    assert (hash_of(store)["groups"], follow_up(store)) == (GROUP, 1_000)
    assert_lawful(store)


def test_the_worker_that_parks_is_told_to_start_them(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    reply = store.commit_and_fetch(
        "r", epoch=0, step=0, token=granted.token, kind="park", wait="0", wait_for=":0.0 1 1 1",
        wait_over="null", look=1, group=GROUP, total=1, limit=1, policy="stop", additions=("{}", "[]"),
    )  # fmt: skip
    assert (reply.word, reply.detail, reply.prefetched, reply.follow_ups) == (
        "ok",
        "parked",
        None,
        ["r"],
    )


def test_a_group_that_is_there_stays(store: Store) -> None:
    first, _ = family(store)
    end_child(store, first)
    stop(store)
    resume(store)
    before = group_of(store)
    park_on_children(store, claim(store, epoch=1), SETTLED, total=9)
    assert group_of(store) == before and hash_of(store)["groups"] == GROUP


def test_a_parent_keeps_its_message_while_it_waits(store: Store) -> None:
    parked(store)
    assert hash_of(store)["message"] == "r/0/0" and messages(store) == []


def test_a_park_finds_the_ends_that_came_before(store: Store) -> None:
    first, second = family(store)
    stop(store)
    for run_id in (first, second):
        end_child(store, run_id)
    resume(store)
    assert park_on_children(store, claim(store, epoch=1), SETTLED) == ("ok", "queued")


def test_the_time_ends_a_wait_for_children(store: Store) -> None:
    new_run(store)
    park_on_children(store, claim(store), SETTLED, ms=5_000)
    assert due_in(store) == 5_000
    assert ("r", "woken") in sweep_after(store, 5_000)
    assert hash_of(store)["o:~0"] == "null"


# The start


def test_a_child_is_a_queued_run_that_names_its_parent(store: Store) -> None:
    first, second = family(store)
    fields = hash_of(store, second)
    assert {name: fields[name] for name in ("parent", "parent_nonce", "group", "place", "schema")} == {
        "parent": "r", "parent_nonce": "nonce-r", "group": GROUP, "place": "1", "schema": "4",
    }  # fmt: skip
    assert phases(store, first, second) == ["queued", "queued"]
    assert messages(store, "executor") == [hash_of(store, first)["message"], fields["message"]]
    (told,) = events(store, kind="started")
    assert (told["group"], told["from"], told["to"]) == (GROUP, "0", "2")
    for run_id in (first, second):
        assert_lawful(store, run_id)


def test_a_start_sent_again_starts_nothing(store: Store) -> None:
    family(store)
    before = everything(store)
    assert start_children(store, 2) == ["stale", "2"]
    assert everything(store) == before


def test_no_more_are_started_than_may_run_or_than_there_are(store: Store) -> None:
    parked(store, limit=1)
    assert start_children(store, 2) == ["ok", "1"]
    assert start_children(store, 1, first=1) == ["full"]
    end_child(store, child_id(store, 0))
    assert start_children(store, 3, first=1) == ["ok", "2"]
    assert start_children(store, 1, first=2) == ["full"]


@pytest.mark.parametrize(
    "ends", [stop, lambda store: store.redis.hset(store.keys.run("r"), "phase", "errored")]
)
def test_no_child_of_a_run_at_rest_is_started(store: Store, ends: Any) -> None:
    parked(store)
    ends(store)
    assert start_children(store)[0] == "ended"


def test_no_child_of_a_dropped_group_is_started(store: Store) -> None:
    first, _ = family(store, FIRST)
    end_child(store, first)
    commit_next(store, claim(store), options={"take": ""})
    assert start_children(store, first=2) == ["gone"]


def test_no_child_of_another_life_of_the_parent_is_started(store: Store) -> None:
    parked(store)
    reply = store.start_children("r", nonce="another", group=GROUP, first=0, children=[])
    assert reply[0] == "missing"
    store.redis.delete(store.keys.run("r"))
    assert start_children(store) == ["missing"]


def test_another_run_of_a_child_s_id_is_left_alone(store: Store) -> None:
    parked(store)
    submit(store, child_id(store, 1))
    before = everything(store)
    assert start_children(store, 2) == ["exists", child_id(store, 1)]
    assert everything(store) == before


@pytest.mark.parametrize("left_over", ["memory", "events", "artifacts"])
def test_what_another_run_left_over_is_not_a_child_s(store: Store, left_over: str) -> None:
    parked(store)
    store.redis.set(f"{store.keys.run(child_id(store, 0))}:{left_over}", "x")
    assert start_children(store, 1) == ["exists", child_id(store, 0)]


def test_a_key_of_a_wrong_type_in_a_child_s_place_is_damage(store: Store) -> None:
    parked(store)
    store.redis.set(store.keys.run(child_id(store, 0)), "x")
    assert start_children(store, 1) == ["damaged", store.keys.run(child_id(store, 0))]


def test_a_child_that_an_older_copy_of_the_data_did_not_count_is_not_made_again(
    store: Store,
) -> None:
    first, _ = family(store)
    end_child(store, first)
    store.redis.hset(store.keys.group("r", GROUP), "started", "0")
    assert start_children(store, 2) == ["ok", "2"]
    assert phase(store, first) == "completed"


def test_a_queue_that_is_not_ours_starts_nothing(store: Store) -> None:
    parked(store)
    assert start_children(store, 2, queue="elsewhere") == ["unknown_queue", "elsewhere"]
    assert group_of(store)["started"] == "0" and store.fields(child_id(store, 0)) is None


@pytest.mark.parametrize(
    ("own", "parent", "expected"),
    [(500, None, 500), (None, 900, 900), (500, 900, 500), (900, 500, 500), (None, None, None)],
)
def test_a_child_has_the_earlier_deadline(
    store: Store, own: int | None, parent: int | None, expected: int | None
) -> None:
    new_run(store, deadline=parent)
    park_on_children(store, claim(store), SETTLED)
    start_children(store, deadline=own)
    deadline = hash_of(store, child_id(store, 0)).get("deadline")
    assert deadline == (None if expected is None else str(START + expected))


def test_a_child_may_begin_with_a_question(store: Store) -> None:
    parked(store)
    start_children(store, **pause_at("Controller", "before"), i_id="0:0")
    assert phase(store, child_id(store, 0)) == "interrupted"


def test_with_an_outbox_the_caller_publishes_the_children_s_messages(store: Store) -> None:
    apart = Store(store.url, store.keys.prefix, now=START, outbox=True)
    parked(apart)
    told = {**hash_of(store), "current_node": "Controller", "phase": "queued", "message": "child"}
    fields = {
        name: told[name]
        for name in (
            "flow",
            "queue",
            "resend",
            "current_node",
            "retention",
            "task",
            "status",
            "stop_current_execution",
            "phase",
            "message",
        )
    }
    word, _, to_publish = apart.start_children(
        "r", nonce="nonce-r", group=GROUP, first=0, children=[(None, fields)]
    )
    assert (word, to_publish) == ("ok", [(told["queue"], "child")])
    apart.close()


# The ends


def test_an_end_is_told_in_the_write_that_ends_the_child(store: Store) -> None:
    first, second = family(store)
    end_child(store, second, answer='{"a": 1}')
    fail_child(store, first)
    assert (end_of(store, 1), end_of(store, 0)) == (
        'ok completed 1\n{"a": 1}',
        "bad errored 2\nboom",
    )
    assert {name: group_of(store)[name] for name in ("ok", "bad", "order")} == {
        "ok": "1",
        "bad": "1",
        "order": "2",
    }


def test_a_child_that_used_up_its_cycles_has_not_succeeded(store: Store) -> None:
    first, _ = family(store)
    assert commit_unfinished(store, claim(store, first)) == ("ok", "completed")
    assert str(end_of(store, 0)).startswith("bad unfinished 1\n")


def test_a_child_that_a_person_stopped_has_not_succeeded(store: Store) -> None:
    first, _ = family(store)
    stop(store, run_id=first)
    assert end_of(store, 0) == "bad stopped 1\nenough"


def test_each_way_of_ending_is_told(store: Store) -> None:
    """A deadline that passed, a damaged round, a stop at the claim, losses, a message of another round."""
    first, second = family(store, limit=5)
    store.redis.hset(store.keys.run(first), "deadline", clock(store) + 10)
    claim(store, second)
    for _ in range(2):
        sweep_after(store, LEASE, max_losses=0)
    assert str(end_of(store, 0)).startswith("bad errored 1\nthe deadline")
    assert str(end_of(store, 1)).startswith("bad errored 2\nworkers died")


def test_a_damaged_child_is_told(store: Store) -> None:
    first, second = family(store)
    assert commit(store, claim(store, first), "damaged", error="bad") == ("ok", "errored")
    fields = hash_of(store, second)
    told = {name: fields[name] for name in ("epoch", "step", "message")}
    assert store.quarantine(second, error="not of its round", **told) == ["ok"]
    assert [end_of(store, place) for place in (0, 1)] == [
        "bad errored 1\nbad",
        "bad errored 2\nnot of its round",
    ]


def test_the_first_end_of_a_place_stands(store: Store) -> None:
    first, _ = family(store)
    store.redis.hset(store.keys.group("r", GROUP), "end:0", "ok completed 1\n7")
    end_child(store, first)
    assert (end_of(store, 0), group_of(store)["ok"]) == ("ok completed 1\n7", "0")


@pytest.mark.parametrize(("size", "is_long"), [(65_536, False), (65_537, True)])
def test_a_long_answer_stays_with_the_child(store: Store, size: int, is_long: bool) -> None:
    first, _ = family(store)
    answer = json.dumps("x" * (size - 2))
    end_child(store, first, answer=answer)
    assert end_of(store, 0) == ("ok completed 1 long\n" if is_long else f"ok completed 1\n{answer}")


@pytest.mark.parametrize(
    ("need", "first", "over"),
    [
        (SETTLED, end_child, False), (SETTLED, fail_child, False), (FIRST, end_child, True),
        (FIRST, fail_child, False), (ALL, end_child, False), (ALL, fail_child, True),
    ],
)  # fmt: skip
def test_the_end_that_is_enough_queues_the_parent(
    store: Store, need: tuple[int, int, int], first: Any, over: bool
) -> None:
    one, two = family(store, need)
    first(store, one)
    assert phase(store) == ("queued" if over else "parked")
    if not over:
        (end_child if need != ALL else fail_child)(store, two)
    assert (phase(store), messages(store)) == ("queued", ["r/0/0"])
    assert [entry["by"] for entry in events(store, kind="woken")] == [f"children {GROUP}"]
    assert_lawful(store)


def test_a_parent_without_its_message_is_due_at_once(store: Store) -> None:
    first, _ = family(store, FIRST)
    store.redis.hset(store.keys.run("r"), "message", "")
    end_child(store, first)
    assert (phase(store), due_in(store), messages(store)) == ("parked", 0, [])
    assert sweep_and_bring(store, 0) == [("r", "woken")]


def test_with_an_outbox_a_sweep_publishes_the_parent_s_message(store: Store) -> None:
    first, _ = family(store, FIRST)
    apart = Store(store.url, store.keys.prefix, now=clock(store), outbox=True)
    commit_end(apart, claim(store, first))
    assert (phase(store), due_in(store)) == ("parked", 0)
    apart.close()


def test_only_a_parked_parent_is_queued(store: Store) -> None:
    first, _ = family(store, FIRST)
    stop(store)
    end_child(store, first)
    assert phase(store) == "stopped" and end_of(store, 0) is not None


@pytest.mark.parametrize(
    "harm",
    [
        lambda store: store.redis.delete(store.keys.run("r")),
        lambda store: store.redis.hset(store.keys.run("r"), "nonce", "another"),
        lambda store: store.redis.hset(store.keys.run("r"), "id", "another"),
        lambda store: store.redis.hset(store.keys.run("r"), "phase", "?"),
        lambda store: (store.redis.delete(store.keys.run("r")), store.redis.set(store.keys.run("r"), "x")),
        lambda store: store.redis.delete(store.keys.group("r", GROUP)),
        lambda store: store.redis.hset(store.keys.group("r", GROUP), "ok", "x"),
        lambda store: (store.redis.delete(store.keys.group("r", GROUP)), store.redis.set(store.keys.group("r", GROUP), "x")),
    ],
    ids=["missing", "another life", "a copy", "phase", "type", "group", "count", "type of the group"],
)  # fmt: skip
def test_a_child_ends_whatever_is_wrong_with_its_parent(store: Store, harm: Any) -> None:
    first, _ = family(store, FIRST)
    harm(store)
    end_child(store, first)
    assert phase(store, first) == "completed"


@pytest.mark.parametrize(
    "harm",
    [
        lambda store: store.redis.hset(store.keys.run("r"), "epoch", "x"),
        lambda store: (store.redis.delete(store.keys.events("r")), store.redis.set(store.keys.events("r"), "x")),
    ],
    ids=["field", "events"],
)  # fmt: skip
def test_a_damaged_parent_is_told_and_not_queued(store: Store, harm: Any) -> None:
    first, _ = family(store, FIRST)
    harm(store)
    end_child(store, first)
    assert (phase(store), end_of(store, 0)) == ("parked", 'ok completed 1\n"42"')


def test_a_parent_whose_queue_is_gone_is_due_at_once(store: Store) -> None:
    first, _ = family(store, FIRST)
    store.redis.hset(store.keys.run("r"), "queue", "elsewhere")
    end_child(store, first)
    assert (phase(store), due_in(store)) == ("parked", 0)


@pytest.mark.parametrize(("limit", "ends", "asked"), [(1, 1, True), (16, 1, False), (16, 2, True)])
def test_an_end_asks_for_more_where_an_eighth_of_the_limit_is_free(
    store: Store, limit: int, ends: int, asked: bool
) -> None:
    parked(store, (40, 40, 40), total=40, limit=limit)
    start_children(store, 16)
    store.redis.delete(store.keys.follow_ups)
    for place in range(ends):
        end_child(store, child_id(store, place))
    assert (follow_up(store) is not None) == asked


def test_an_end_asks_for_the_last_ones_too(store: Store) -> None:
    parked(store, (17, 17, 17), total=17, limit=16)
    start_children(store, 16)
    store.redis.delete(store.keys.follow_ups)
    end_child(store, child_id(store, 0))
    assert follow_up(store) == 1_000
    step = store.reconcile_children("r")
    assert (step.word, step.group, step.first, step.room, step.nonce) == (
        "start",
        GROUP,
        16,
        1,
        "nonce-r",
    )


# The tree


def test_a_stop_stops_the_children_and_their_parent_hears_of_no_end(store: Store) -> None:
    ids = family(store)
    assert stop(store, mode="now")[7:] == ["r"]
    assert phases(store, *ids) == ["queued", "queued"]
    assert last_word(store) == "done" and follow_up(store) is None
    assert phases(store, *ids) == ["stopped", "stopped"]
    fields = hash_of(store, ids[0])
    assert (fields["stop_mode"], fields["stop_by"]) == ("now", "parent r")
    assert end_of(store, 0) is None
    assert_lawful(store, ids[0])


def test_a_resume_continues_what_the_stop_of_the_tree_stopped(store: Store) -> None:
    first, second = family(store)
    stop(store, run_id=second)
    stop(store)
    reconcile(store)
    assert resume(store) == ["queued", "r"]
    assert last_word(store) == "done"
    assert phases(store, first, second) == ["waiting", "stopped"]
    assert (first, "woken") in sweep_and_bring(store, 0)
    assert hash_of(store, first)["epoch"] == "1"
    assert "stop_tree" not in hash_of(store, first)
    end_child(store, first)
    assert end_of(store, 0) == 'ok completed 2\n"42"'


def test_a_question_that_was_stopped_with_the_tree_is_asked_again(store: Store) -> None:
    parked(store)
    start_children(
        store, **pause_at("Controller", "before"), i_id="0:0", i_wait="700", i_default="1"
    )
    child = child_id(store, 0)
    stop(store)
    reconcile(store)
    assert phase(store, child) == "stopped"
    resume(store)
    reconcile(store)
    assert phase(store, child) == "interrupted"
    # Its deadline passes; the message of its next epoch was never made.
    assert (child, "answered") in sweep_after(store, 700)
    assert (child, "woken") in sweep_and_bring(store, 0)


def test_a_retry_continues_them_too(store: Store) -> None:
    first, _ = family(store)
    stop(store)
    resume(store)
    assert fail_round(store, claim(store, epoch=1), fatal=1) == ("ok", "errored")
    reconcile(store)
    assert phase(store, first) == "stopped"
    assert retry(store) == ["queued", "r"]
    reconcile(store)
    assert phase(store, first) == "waiting"


def test_a_child_in_a_round_may_finish_it(store: Store) -> None:
    first, _ = family(store)
    granted = claim(store, first)
    stop(store)
    reconcile(store)
    assert (phase(store, first), hash_of(store, first)["stop_current_execution"]) == (
        "leased",
        "stop_requested",
    )
    assert commit_next(store, granted) == ("ok", "stopped")
    assert (end_of(store, 0), follow_up(store)) == (None, None)


def test_a_child_that_stops_after_its_parent_goes_on_again_is_continued(store: Store) -> None:
    first, _ = family(store)
    granted = claim(store, first)
    stop(store)
    reconcile(store)
    resume(store)
    reconcile(store)
    commit_next(store, granted)
    assert (phase(store, first), follow_up(store)) == ("stopped", 1_000)
    reconcile(store)
    assert phase(store, first) == "waiting"


def test_a_stop_now_takes_the_lease_of_a_child_in_a_round(store: Store) -> None:
    first, _ = family(store)
    granted = claim(store, first)
    stop(store, mode="now")
    reconcile(store)
    assert phase(store, first) == "stopped"
    assert commit_next(store, granted) == ("fenced", "")


def test_the_end_of_a_parent_stops_its_children(store: Store) -> None:
    ids = family(store, ALL)
    fail_child(store, ids[0])
    reply = store.commit_and_fetch(
        "r", **by(claim(store)), kind="failed", error="x", delay=0, max_failures=1, fatal=1
    )
    assert (reply.detail, reply.follow_ups) == ("errored", ["r"])
    reconcile(store)
    assert phases(store, *ids) == ["errored", "stopped"]


def by(granted: Claim) -> dict[str, Any]:
    return {
        "epoch": int(granted.fields["epoch"]),
        "step": int(granted.fields["step"]),
        "token": granted.token,
    }


def test_children_that_are_left_to_themselves_go_on(store: Store) -> None:
    ids = family(store, policy="abandon")
    stop(store)
    reconcile(store)
    assert phases(store, *ids) == ["queued", "queued"]
    end_child(store, ids[0])
    assert end_of(store, 0) == 'ok completed 1\n"42"'


def test_the_round_that_is_done_drops_its_group_and_stops_who_still_runs(store: Store) -> None:
    first, second = family(store, FIRST)
    end_child(store, first)
    reply = store.commit_and_fetch(
        "r", **by(claim(store)), kind="end", take="", fields={"answer": "1", "output": "{}"}
    )
    assert reply.follow_ups == ["r"]
    assert reconcile(store)[-1].word == "done"
    assert phase(store, second) == "stopped"
    assert group_of(store) == {} and "groups" not in hash_of(store)


@pytest.mark.parametrize("policy", ["stop", "abandon"])
def test_a_group_that_nobody_needs_goes_at_once(store: Store, policy: str) -> None:
    first, second = family(store, SETTLED if policy == "stop" else FIRST, policy=policy)
    end_child(store, first)
    if policy == "stop":
        end_child(store, second)
    reply = store.commit_and_fetch(
        "r",
        **by(claim(store)),
        kind="next",
        take="",
        message="m",
        fields={"current_node": "Executor"},
    )
    assert (reply.detail, reply.follow_ups) == ("continued", [])
    assert group_of(store) == {} and "groups" not in hash_of(store)


def test_a_dropped_group_hears_of_no_end(store: Store) -> None:
    first, second = family(store, FIRST)
    end_child(store, first)
    commit_next(store, claim(store), options={"take": ""})
    end_child(store, second)
    assert end_of(store, 1) is None and group_of(store)["dropped"] == "1"


def test_only_one_of_two_groups_is_forgotten(store: Store) -> None:
    family(store, FIRST)
    end_child(store, child_id(store, 0))
    park_on_children(store, claim(store), SETTLED, name="1")
    start_children(store, 2, group="0.1")
    for place in range(2):
        end_child(store, child_id(store, place, "0.1"))
    commit_next(store, claim(store), options={"take": ""})
    assert hash_of(store)["groups"] == GROUP
    assert group_of(store, "0.1") == {}


def test_a_tree_is_stopped_generation_by_generation(store: Store) -> None:
    first, _ = family(store)
    park_on_children(store, claim(store, first), SETTLED)
    start_children(store, run_id=first)
    grandchild = child_id(store, 0, run_id=first)
    stop(store)
    steps = reconcile(store)
    assert steps[-1].follow_ups == [first]
    assert phases(store, first, grandchild) == ["stopped", "queued"]
    assert last_word(store, first) == "done"
    assert phase(store, grandchild) == "stopped"


def test_a_child_that_a_person_continued_is_not_stopped_again(store: Store) -> None:
    first, _ = family(store)
    stop(store)
    reconcile(store)
    resume(store, run_id=first)
    assert "stop_tree" not in hash_of(store, first)
    stop(store, op="again")
    store.redis.hincrby(store.keys.run("r"), "walk", 1)
    reconcile(store)
    assert phase(store, first) == "queued"


def test_a_child_that_was_asked_to_stop_is_not_continued_with_its_parent(store: Store) -> None:
    first, _ = family(store)
    granted = claim(store, first)
    stop(store, run_id=first)
    stop(store)
    reconcile(store)
    commit_next(store, granted)
    assert end_of(store, 0) == "bad stopped 1\nenough"


@pytest.mark.parametrize(
    ("ends", "continues"),
    [(fail_child, retry), (lambda store, run_id: stop(store, run_id=run_id), resume)],
)
def test_who_continues_a_child_takes_back_its_bad_end(
    store: Store, ends: Any, continues: Any
) -> None:
    first, _ = family(store)
    ends(store, first)
    assert group_of(store)["bad"] == "1"
    continues(store, run_id=first)
    assert (end_of(store, 0), group_of(store)["bad"]) == (None, "0")
    assert "own" not in hash_of(store, first)
    end_child(store, first)
    assert end_of(store, 0) == 'ok completed 2\n"42"'


def test_a_good_end_is_not_taken_back(store: Store) -> None:
    first, _ = family(store)
    store.redis.hset(
        store.keys.group("r", GROUP), mapping={"end:0": "ok completed 1\n7", "ok": "1"}
    )
    stop(store, run_id=first)
    resume(store, run_id=first)
    assert end_of(store, 0) == "ok completed 1\n7" and group_of(store)["ok"] == "1"


# What a walk finds


def test_a_walk_looks_at_so_many_children_at_a_time(store: Store) -> None:
    ids = family(store)
    stop(store)
    steps = reconcile(store, most=1)
    assert [step.word for step in steps] == ["more", "done"]
    assert phases(store, *ids) == ["stopped", "stopped"]


def test_a_walk_that_began_before_another_one_was_asked_for_begins_anew(store: Store) -> None:
    first, _ = family(store)
    stop(store)
    step = store.reconcile_children("r", most=1)
    resume(store)
    assert store.reconcile_children("r", step.walk, step.start).word == "moved"
    reconcile(store)
    assert phase(store, first) == "waiting"


def test_a_look_finds_ends_that_were_not_told(store: Store) -> None:
    first, second = family(store)
    for run_id in (first, second):
        store.redis.hset(store.keys.run(run_id), "parent_nonce", "harmed")
    end_child(store, first)
    stop(store, run_id=second)
    for run_id in (first, second):
        store.redis.hset(store.keys.run(run_id), "parent_nonce", "nonce-r")
    assert sweep_after(store, 30_000) == [("r", "in_line")]
    assert follow_up(store) == 1_000
    reconcile(store)
    assert (end_of(store, 0), end_of(store, 1)) == ('ok completed 1\n"42"', "bad stopped 2\nenough")
    assert phase(store) == "queued"


def test_a_child_that_is_there_no_more_has_ended(store: Store) -> None:
    first, second = family(store)
    store.redis.delete(store.keys.run(first), store.keys.events(first))
    submit_another = store.redis.hset(store.keys.run(second), "nonce", "another")
    assert submit_another == 0
    sweep_after(store, 30_000)
    reconcile(store)
    assert [end_of(store, place) for place in (0, 1)] == ["bad gone 1\n", "bad gone 2\n"]


def test_a_damaged_child_is_passed_over(store: Store) -> None:
    first, second = family(store)
    store.redis.hset(store.keys.run(first), "epoch", "x")
    stop(store)
    assert last_word(store) == "done"
    assert phases(store, first, second) == ["queued", "stopped"]


def test_each_look_is_twice_as_late_up_to_an_hour(store: Store) -> None:
    family(store)
    looks = [due_in(store)]
    while looks[-1] < 3_600_000:
        assert ("r", "in_line") in sweep_after(store, looks[-1])
        looks.append(due_in(store))
    assert looks[:3] == [30_000, 60_000, 120_000] and looks[-1] == 3_600_000
    sweep_after(store, looks[-1])
    assert due_in(store) == 3_600_000


def test_a_look_does_not_move_the_time_that_ends_the_wait(store: Store) -> None:
    new_run(store)
    park_on_children(store, claim(store), SETTLED, ms=40_000)
    sweep_after(store, 30_000)
    assert due_in(store) == 10_000


def test_a_run_that_waits_for_signals_alone_looks_at_nothing(store: Store) -> None:
    new_run(store)
    park(store, claim(store), "1", {"paid": 1}, None)
    assert due(store) is None and "look" not in hash_of(store)


# Sweeps, expiry, deletion


def test_a_sweep_passes_on_what_its_maker_has_not_done(store: Store) -> None:
    parked(store)
    told = {"lease": LEASE, "max_losses": 3, "jitter": 0.0}
    assert store.sweep(**told).follow_ups == []
    later(store, 1_000)
    assert store.sweep(**told).follow_ups == ["r"]
    assert store.sweep(**told).follow_ups == []
    assert follow_up(store) == 1_000


def test_a_follow_up_of_a_run_that_is_gone_ends(store: Store) -> None:
    parked(store)
    store.redis.delete(store.keys.run("r"))
    assert store.reconcile_children("r").word == "missing"
    assert follow_up(store) is None


def test_a_follow_up_of_a_damaged_run_ends(store: Store) -> None:
    parked(store)
    store.redis.hset(store.keys.run("r"), "epoch", "x")
    step = store.reconcile_children("r")
    assert (step.word, step.start, follow_up(store)) == ("damaged", "epoch", None)


def test_a_set_of_follow_ups_of_a_wrong_type_keeps_no_run_from_its_end(store: Store) -> None:
    store.redis.set(store.keys.follow_ups, "x")
    parked(store)
    assert [entry["key"] for entry in events(store, kind="follow_up_not_kept")] == [
        store.keys.follow_ups
    ]
    assert (store.keys.follow_ups, "damaged") in sweep(store)


def test_a_clock_that_was_set_back_does_not_delay_them(store: Store) -> None:
    parked(store)
    sweep(store)
    later(store, -10 * LEASE)
    assert store.sweep(lease=LEASE, max_losses=3, jitter=0.0).follow_ups == ["r"]


def test_a_group_expires_with_its_run(store: Store) -> None:
    family(store)
    key = store.keys.group("r", GROUP)
    stop(store)
    assert store.redis.pexpiretime(key) == -1
    resume(store)
    fail_round(store, claim(store, epoch=1), fatal=1)
    assert store.redis.pexpiretime(key) == clock(store) + RETENTION
    retry(store)
    assert store.redis.pexpiretime(key) == -1


def test_a_run_is_deleted_with_its_groups_once_its_children_are_stopped(store: Store) -> None:
    family(store)
    stop(store)
    assert store.delete("r") == ["live", "stopping its children"]
    reconcile(store)
    group = store.keys.group("r", GROUP)
    assert store.delete("r") == ["ok"]
    assert not store.redis.exists(group)


def test_the_deletion_of_a_child_is_an_end(store: Store) -> None:
    first, second = family(store)
    end_child(store, first)
    stop(store)
    reconcile(store)
    for run_id in (first, second):
        assert store.delete(run_id) == ["ok"]
    assert [end_of(store, place) for place in (0, 1)] == ['ok completed 1\n"42"', "bad gone 2\n"]
