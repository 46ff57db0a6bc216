"""Child runs, by the scripts alone: how a parent starts them, and how their ends reach it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from perdure.worker.domain.children import PlannedChild, born, child_of
from perdure.worker.store import Store
from tests.support.child_runs import (
    ALL,
    FIRST,
    GROUP,
    SETTLED,
    child_id,
    end_child,
    end_of,
    fail_child,
    family,
    follow_up,
    group_of,
    last_word,
    park_on_children,
    parked,
    phases,
    start_children,
    start_reply,
)
from tests.support.runs import (
    LEASE,
    START,
    assert_lawful,
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
    hash_of,
    later,
    messages,
    new_run,
    park,
    pause_at,
    phase,
    record,
    resume,
    stop,
    submit,
    sweep_after,
    sweep_and_bring,
)

# The park


def test_a_park_writes_the_group_and_asks_for_the_start_of_its_children(store: Store) -> None:
    parked(store, limit=7, policy="abandon")
    assert group_of(store) == {
        "total": "2", "limit": "7", "policy": "abandon", "started": "0", "ok": "0", "bad": "0", "order": "0", "plan:0": "{}", "plan:1": "[]",
    }  # fmt: skip
    assert (hash_of(store)["groups"], follow_up(store)) == (GROUP, 1_000)
    assert "walk" not in hash_of(store), "there is no child to look at"
    assert_lawful(store)


def test_the_worker_that_parks_is_told_to_start_them(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    reply = store.rounds.commit_and_fetch(
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
    written = {
        "epoch",
        "step",
        "token",
        "attempt",
        "failures",
        "losses",
        "number",
        "grace",
        "created_at",
        "updated_at",
        "queued_at",
        "phase",
        "id",
        "nonce",
    }
    expected = {
        *born(PlannedChild(record(store, "executor")), "r", "nonce-r", GROUP, 1),
        "message",
        *written,
    }
    assert set(fields) == expected


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
    assert start_children(store) == ["ended", phase(store)]


def test_no_child_of_a_dropped_group_is_started(store: Store) -> None:
    first, _ = family(store, FIRST)
    end_child(store, first)
    commit_next(store, claim(store), options={"take": ""})
    assert start_children(store, first=2) == ["gone"]
    assert start_children(store, group="0.7") == ["gone"]


def test_no_child_of_another_life_of_the_parent_is_started(store: Store) -> None:
    parked(store)
    reply = store.family.start("r", nonce="another", group=GROUP, first=0, children=[])
    assert reply.word == "missing"
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
    assert group_of(store)["started"] == "0" and store.reads.fields(child_id(store, 0)) is None


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


def test_the_start_of_the_last_children_ends_the_follow_up(store: Store) -> None:
    parked(store, (3, 4, 4), total=3)
    assert not start_reply(store, 2).has_ended_follow_up and follow_up(store) is not None
    assert start_reply(store, first=2).has_ended_follow_up and follow_up(store) is None


def test_a_start_that_leaves_no_room_ends_the_follow_up(store: Store) -> None:
    parked(store, limit=1)
    assert start_reply(store, 2).has_ended_follow_up and follow_up(store) is None
    end_child(store, child_id(store, 0))
    assert follow_up(store) is not None


def test_a_start_does_not_end_the_follow_up_of_a_newer_walk(store: Store) -> None:
    first, _ = family(store)
    stop(store)
    resume(store)
    store.redis.hset(store.keys.group("r", GROUP), "started", "1")
    assert not start_reply(store, first=1).has_ended_follow_up and follow_up(store) is not None
    assert last_word(store) == "done" and phase(store, first) == "queued"


def test_a_start_does_not_end_the_follow_up_of_another_group(store: Store) -> None:
    parked(store, FIRST, kept=1)
    start_children(store, 1)
    end_child(store, child_id(store, 0))
    park_on_children(store, claim(store), SETTLED, name="1")
    assert (
        not start_reply(store, 2, group="0.1").has_ended_follow_up and follow_up(store) is not None
    )
    assert start_reply(store, first=1).has_ended_follow_up and follow_up(store) is None


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
    reply = apart.family.start(
        "r", nonce="nonce-r", group=GROUP, first=0, children=[(None, fields)]
    )
    assert (reply.word, reply.to_publish) == ("ok", [(told["queue"], "child")])
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
    """A deadline that passed, a damaged round, a stop at the claim, losses, a message of another
    round.
    """
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
    assert store.rounds.quarantine(second, error="not of its round", **told) == ["ok"]
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


def test_an_end_that_comes_after_the_time_of_the_wait_says_that_the_time_is_over(
    store: Store,
) -> None:
    first, _ = family(store, ms=500)
    later(store, 500)
    end_child(store, first)
    assert (phase(store), hash_of(store)["o:~0"]) == ("queued", "null")


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
    assert due(store) is None


def test_a_parent_that_waits_for_a_signal_by_now_is_not_queued(store: Store) -> None:
    first, second = family(store, FIRST)
    end_child(store, first)
    assert park(store, claim(store), "1", {"paid": 1}, None) == ("ok", "parked")
    store.redis.set(store.keys.mailbox("r"), "of a wrong type")
    end_child(store, second)
    assert (phase(store), phase(store, second)) == ("parked", "completed")
    assert str(end_of(store, 1)).startswith("ok completed 2")


def test_a_parent_in_a_round_is_not_queued(store: Store) -> None:
    first, _ = family(store, FIRST, ms=500)
    sweep_after(store, 500)
    claim(store)
    end_child(store, first)
    assert (phase(store), messages(store)) == ("leased", [])


@pytest.mark.parametrize(
    "harm",
    [
        lambda store: store.redis.delete(store.keys.run("r")),
        lambda store: store.redis.hset(store.keys.run("r"), "nonce", "another"),
        lambda store: store.redis.hset(store.keys.run("r"), "id", "another"),
        lambda store: (store.redis.delete(store.keys.run("r")), store.redis.set(store.keys.run("r"), "x")),
        lambda store: store.redis.delete(store.keys.group("r", GROUP)),
        lambda store: store.redis.hset(store.keys.group("r", GROUP), "ok", "x"),
        lambda store: (store.redis.delete(store.keys.group("r", GROUP)), store.redis.set(store.keys.group("r", GROUP), "x")),
    ],
    ids=["missing", "another life", "a copy", "type", "group", "count", "type of the group"],
)  # fmt: skip
def test_a_child_ends_whatever_is_wrong_with_its_parent(store: Store, harm: Any) -> None:
    first, _ = family(store, FIRST)
    harm(store)
    end_child(store, first)
    assert phase(store, first) == "completed"
    if store.redis.type(store.keys.group("r", GROUP)) == "hash":
        assert end_of(store, 0) is None and group_of(store)["order"] == "0"


@pytest.mark.parametrize("field", ["group", "place"])
def test_a_child_that_does_not_know_its_place_ends(store: Store, field: str) -> None:
    first, _ = family(store, FIRST)
    granted = claim(store, first)
    store.redis.hdel(store.keys.run(first), field)
    assert commit_end(store, granted) == ("ok", "completed")
    assert phase(store) == "parked"


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


def test_a_parked_parent_that_does_not_say_what_for_fails_no_child(store: Store) -> None:
    first, _ = family(store, FIRST)
    store.redis.hdel(store.keys.run("r"), "wait_for")
    end_child(store, first)
    assert (phase(store), end_of(store, 0)) == ("parked", 'ok completed 1\n"42"')


def test_a_parent_whose_queue_is_gone_is_due_at_once(store: Store) -> None:
    first, _ = family(store, FIRST)
    store.redis.hset(store.keys.run("r"), "queue", "elsewhere")
    end_child(store, first)
    assert (phase(store), due_in(store)) == ("parked", 0)


@pytest.mark.parametrize(
    ("limit", "ends", "asked"),
    [(1, 1, True), (16, 1, False), (16, 2, True), (72, 8, False), (72, 9, True)],
)
def test_an_end_asks_for_more_where_an_eighth_of_the_limit_is_free(
    store: Store, limit: int, ends: int, asked: bool
) -> None:
    parked(store, (100, 100, 100), total=100, limit=limit)
    start_children(store, limit)
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
    step = store.family.reconcile("r")
    assert (step.word, step.group, step.first, step.room, step.nonce) == (
        "start",
        GROUP,
        16,
        1,
        "nonce-r",
    )


def test_the_last_end_asks_for_nothing(store: Store) -> None:
    first, _ = family(store)
    end_child(store, first)
    assert follow_up(store) is None


def test_children_are_started_together(store: Store) -> None:
    parked(store, (40, 41, 41), total=40, limit=16)
    start_children(store, 16)
    store.redis.delete(store.keys.follow_ups)
    end_child(store, child_id(store, 0))
    assert store.family.reconcile("r").word == "done"
    assert start_children(store, 1, first=16) == ["full"]
    end_child(store, child_id(store, 1))
    assert (follow_up(store), store.family.reconcile("r").room) == (1_000, 2)


def test_only_the_end_that_makes_enough_room_asks_for_more_children(store: Store) -> None:
    parked(store, (40, 41, 41), total=40, limit=16)
    start_children(store, 16)
    asked = []
    for place in range(6):
        store.redis.delete(store.keys.follow_ups)
        end_child(store, child_id(store, place))
        asked.append(follow_up(store) is not None)
    assert asked == [False, True, False, False, False, False]


@pytest.mark.parametrize("seed", range(12))
def test_a_group_never_waits_for_a_start_that_nobody_makes(store: Store, seed: int) -> None:
    """Children end in any order; callers die, are late, and start fewer than they may."""
    random = Random(seed)
    total, limit = random.randint(1, 40), random.choice([1, 2, 7, 8, 9, 16, 17, 40])
    parked(store, (total + 1, total + 1, total), total=total, limit=limit)
    live: list[int] = []
    asked = True
    while asked or live:
        if asked and (not live or random.random() < 0.5):
            step = store.family.reconcile("r")
            asked = step.word == "start"
            if asked and random.random() < 0.8:
                count = random.randint(1, step.room)
                word, _ = start_children(store, count, first=step.first)
                assert word == "ok"
                live += range(step.first, step.first + count)
        else:
            place = live.pop(random.randrange(len(live)))
            end = random.choice([end_child, fail_child])
            end(store, child_id(store, place))
            asked = follow_up(store) is not None
    told = group_of(store)
    assert (told["started"], int(told["ok"]) + int(told["bad"])) == (str(total), total)
    assert phase(store) == "queued"


def test_a_failure_makes_room_as_well(store: Store) -> None:
    parked(store, limit=1)
    start_children(store)
    fail_child(store, child_id(store, 0))
    assert start_children(store, 2, first=1) == ["ok", "2"]


def test_the_end_of_a_child_of_a_run_at_rest_asks_for_nothing(store: Store) -> None:
    parked(store, limit=1)
    start_children(store)
    stop(store)
    store.redis.delete(store.keys.follow_ups)
    end_child(store, child_id(store, 0))
    assert follow_up(store) is None


def test_the_plan_of_later_children_is_in_later_texts(store: Store) -> None:
    new_run(store)
    plan = [f"plan {number}" for number in range(4)]
    group = {"group": GROUP, "total": 90, "limit": 90, "policy": "stop", "look": 1}
    commit(
        store,
        claim(store),
        "park",
        wait="0",
        wait_for=":0.0 90 91 91",
        wait_over="null",
        additions=plan,
        **group,
    )
    for started, text in ((0, "plan 1"), (31, "plan 1"), (32, "plan 2"), (64, "plan 3")):
        store.redis.hset(store.keys.group("r", GROUP), "started", started)
        assert store.family.reconcile("r").plan == ("plan 0", text)
    store.redis.hdel(store.keys.group("r", GROUP), "plan:0", "plan:3")
    assert store.family.reconcile("r").plan == ("", "")


def test_a_parent_without_a_nonce_has_children_too(store: Store) -> None:
    parked(store)
    store.redis.hdel(store.keys.run("r"), "nonce")
    step = store.family.reconcile("r")
    assert (step.word, step.nonce, step.group) == ("start", "", GROUP)
    fields = born(PlannedChild(record(store, "executor")), "r", "", GROUP, 0)
    reply = store.family.start(
        "r", nonce="", group=GROUP, first=0, children=[(None, {**fields, "message": "m"})]
    )
    assert reply[:2] == ("ok", "1")
    assert phase(store, child_of("r", "", GROUP, 0)[0]) == "queued"


def test_names_that_look_like_a_pattern_are_different_groups(store: Store) -> None:
    new_run(store)
    park_on_children(store, claim(store), SETTLED, name="a-b")
    stop(store)
    resume(store)
    park_on_children(store, claim(store, epoch=1), SETTLED, name="a.b")
    assert hash_of(store)["groups"] == "0.a-b\n0.a.b"


def test_a_child_that_was_stopped_without_a_reason_is_told(store: Store) -> None:
    first, _ = family(store)
    store.runs.request_stop(first, op="o", mode="graceful")
    assert end_of(store, 0) == "bad stopped 1\n"


def test_a_child_that_failed_after_its_cycles_were_used_up_has_errored(store: Store) -> None:
    first, _ = family(store)
    granted = claim(store, first)
    store.redis.hset(store.keys.run(first), "unfinished", "3")
    fail_round(store, granted, fatal=1)
    assert end_of(store, 0) == "bad errored 1\nboom"


def test_a_child_that_ended_without_an_answer_is_told(store: Store) -> None:
    first, _ = family(store)
    commit(store, claim(store, first), "end")
    assert end_of(store, 0) == "ok completed 1\nnull"
