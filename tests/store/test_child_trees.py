"""Child runs when their parent stops, ends, goes on or drops them, and its walks' findings."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from perdure import Client, Settings
from perdure.worker.messaging.follow_ups import FollowUps
from perdure.worker.store import Store
from tests.support.child_runs import (
    ALL,
    FIRST,
    GROUP,
    SETTLED,
    by,
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
    reconcile,
    start_children,
)
from tests.support.in_process_runtime import runtime_of
from tests.support.runs import (
    LEASE,
    RETENTION,
    assert_lawful,
    claim,
    clock,
    commit_end,
    commit_next,
    due,
    due_in,
    events,
    fail_round,
    hash_of,
    later,
    new_run,
    park,
    pause_at,
    phase,
    resume,
    retry,
    stop,
    sweep,
    sweep_after,
    sweep_and_bring,
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
    assert hash_of(store)["walk"] == "3", "of the stop, of the resume, and of this"
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
    reply = store.rounds.commit_and_fetch(
        "r", **by(claim(store)), kind="failed", error="x", delay=0, max_failures=1, fatal=1
    )
    assert (reply.detail, reply.follow_ups) == ("errored", ["r"])
    reconcile(store)
    assert phases(store, *ids) == ["errored", "stopped"]


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
    reply = store.rounds.commit_and_fetch(
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
    reply = store.rounds.commit_and_fetch(
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


# The findings of a walk


def test_a_walk_looks_at_so_many_children_at_a_time(store: Store) -> None:
    ids = family(store)
    stop(store)
    steps = reconcile(store, most=1)
    assert [step.word for step in steps] == ["more", "done"]
    assert phases(store, *ids) == ["stopped", "stopped"]


def test_a_walk_passes_over_many_children_that_have_ended(store: Store) -> None:
    parked(store, (10, 11, 11), total=10, limit=10)
    start_children(store, 10)
    for place in range(9):
        end_child(store, child_id(store, place))
    for ended, starts in (
        (0, [f"{GROUP} {place}" for place in range(1, 10)]),
        (4, [f"{GROUP} 5"]),
    ):
        store.redis.hincrby(store.keys.run("r"), "walk", 1)
        *steps, last = reconcile(store, most=1, ended=ended)
        assert ([step.start for step in steps], last.word) == (starts, "done")


def test_a_walk_over_more_children_than_a_caller_makes_steps_for_goes_on_where_it_stood(
    store: Store, settings: Settings
) -> None:
    parked(store, (100, 101, 101), total=100, limit=100)
    for first in range(0, 100, 10):
        start_children(store, 10, first=first)
    stop(store, mode="now")
    with closing(Client(settings=settings)) as client:
        follow_ups, calls = FollowUps(store, runtime_of(client).publisher), 0
        while follow_up(store) is not None:
            follow_ups.do(["r"], most=2)
            calls += 1
            assert calls < 10, "each call begins anew"
    assert phases(store, *(child_id(store, place) for place in range(100))) == ["stopped"] * 100
    assert calls == 4, "two steps each, of sixteen children"


def test_a_walk_that_began_before_another_one_was_asked_for_begins_anew(store: Store) -> None:
    first, _ = family(store)
    stop(store)
    step = store.family.reconcile("r", most=1)
    resume(store)
    assert store.family.reconcile("r", step.walk, step.start).word == "moved"
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
    assert store.fleet.sweep(**told).follow_ups == []
    later(store, 1_000)
    assert store.fleet.sweep(**told).follow_ups == ["r"]
    assert store.fleet.sweep(**told).follow_ups == []
    assert follow_up(store) == 1_000


def test_a_follow_up_of_a_run_that_is_gone_ends(store: Store) -> None:
    parked(store)
    store.redis.delete(store.keys.run("r"))
    assert store.family.reconcile("r").word == "missing"
    assert follow_up(store) is None


def test_a_follow_up_of_a_damaged_run_ends(store: Store) -> None:
    parked(store)
    store.redis.hset(store.keys.run("r"), "epoch", "x")
    step = store.family.reconcile("r")
    assert (step.word, step.start, follow_up(store)) == ("damaged", "epoch", None)


def test_a_set_of_follow_ups_of_a_wrong_type_keeps_no_run_from_its_end(store: Store) -> None:
    store.redis.set(store.keys.follow_ups, "x")
    parked(store)
    assert start_children(store, 2) == ["ok", "2"]
    ids = [child_id(store, 0), child_id(store, 1)]
    end_child(store, ids[0])
    assert stop(store)[7:] == ["r"]
    assert (store.keys.follow_ups, "damaged") in sweep(store)


def test_a_clock_that_was_set_back_does_not_delay_them(store: Store) -> None:
    parked(store)
    sweep(store)
    later(store, -10 * LEASE)
    assert store.fleet.sweep(lease=LEASE, max_losses=3, jitter=0.0).follow_ups == ["r"]


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
    assert store.runs.delete("r") == ["live", "stopping its children"]
    reconcile(store)
    group = store.keys.group("r", GROUP)
    assert store.runs.delete("r") == ["ok"]
    assert not store.redis.exists(group)


def test_the_deletion_of_a_child_is_an_end(store: Store) -> None:
    first, second = family(store)
    end_child(store, first)
    stop(store)
    reconcile(store)
    for run_id in (first, second):
        assert store.runs.delete(run_id) == ["ok"]
    assert [end_of(store, place) for place in (0, 1)] == ['ok completed 1\n"42"', "bad gone 2\n"]


def test_a_run_without_children_has_nothing_to_follow(store: Store) -> None:
    new_run(store)
    assert len(stop(store)) == 7
    assert resume(store) == ["queued"]


def test_a_run_whose_children_have_all_ended_has_nothing_to_follow(store: Store) -> None:
    first, second = family(store, (3, 3, 3))
    end_child(store, first)
    fail_child(store, second)
    assert len(stop(store)) == 7


def test_the_parent_that_goes_on_without_them_stops_its_children(store: Store) -> None:
    first, second = family(store, FIRST)
    end_child(store, first)
    reply = store.rounds.commit_and_fetch(
        "r",
        **by(claim(store)),
        kind="next",
        take="",
        message="m",
        fields={"current_node": "Executor"},
    )
    assert (reply.detail, reply.follow_ups) == ("continued", ["r"])
    assert last_word(store) == "done"
    assert (phase(store, second), phase(store)) == ("stopped", "queued")
    assert group_of(store) == {}


def test_a_group_of_failed_children_goes_at_once(store: Store) -> None:
    first, second = family(store)
    end_child(store, first)
    fail_child(store, second)
    commit_next(store, claim(store), options={"take": ""})
    assert (group_of(store), follow_up(store)) == ({}, None)


def test_a_live_child_of_a_live_parent_is_left_alone(store: Store) -> None:
    first, second = family(store)
    sweep_after(store, 30_000)
    reconcile(store)
    assert phases(store, first, second) == ["queued", "queued"]
    assert "stop_tree" not in hash_of(store, first)


def test_a_second_walk_leaves_a_stopped_tree_stopped(store: Store) -> None:
    first, _ = family(store)
    stop(store)
    reconcile(store)
    store.redis.hincrby(store.keys.run("r"), "walk", 1)
    reconcile(store)
    assert phase(store, first) == "stopped"


def test_a_child_that_was_asked_to_stop_may_still_complete(store: Store) -> None:
    first, _ = family(store)
    granted = claim(store, first)
    stop(store)
    reconcile(store)
    assert commit_end(store, granted) == ("ok", "completed")
    assert end_of(store, 0) == 'ok completed 1\n"42"'
    store.redis.hdel(store.keys.group("r", GROUP), "end:0")
    resume(store)
    reconcile(store)
    assert (phase(store, first), end_of(store, 0)) == ("completed", 'ok completed 2\n"42"')


def test_a_child_that_goes_on_says_with_whom(store: Store) -> None:
    first, _ = family(store)
    stop(store)
    reconcile(store)
    resume(store)
    reconcile(store)
    (told,) = events(store, first, "resumed")
    assert (told["by"], told["answer"]) == ("parent r", "null")
    fields = hash_of(store, first)
    assert (fields["resumed_by"], fields["resumed_at"]) == ("parent r", str(clock(store)))


def test_a_look_finds_an_error_that_was_not_told(store: Store) -> None:
    first, _ = family(store)
    fail_child(store, first)
    store.redis.hdel(store.keys.group("r", GROUP), "end:0")
    sweep_after(store, 30_000)
    reconcile(store)
    assert end_of(store, 0) == "bad errored 2\nboom"


def test_a_look_finds_the_ends_of_children_that_are_left_to_themselves(store: Store) -> None:
    first, _ = family(store, policy="abandon")
    end_child(store, first)
    store.redis.hdel(store.keys.group("r", GROUP), "end:0")
    sweep_after(store, 30_000)
    reconcile(store)
    assert end_of(store, 0) == 'ok completed 2\n"42"'


def test_a_damaged_child_has_not_ended(store: Store) -> None:
    first, _ = family(store)
    store.redis.hset(store.keys.run(first), "epoch", "x")
    sweep_after(store, 30_000)
    reconcile(store)
    assert end_of(store, 0) is None


def two_groups(store: Store) -> list[str]:
    """Make a parent of two groups of two children, all of which run."""
    ids = family(store, FIRST)
    store.redis.hset(store.keys.group("r", GROUP), "ok", "1")
    stop(store)
    resume(store)
    assert park_on_children(store, claim(store, epoch=1), SETTLED, name="1") == ("ok", "parked")
    store.redis.hset(store.keys.group("r", GROUP), "ok", "0")
    assert start_children(store, 2, group="0.1") == ["ok", "2"]
    reconcile(store)
    return [*ids, *(child_id(store, place, "0.1") for place in range(2))]


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_a_walk_comes_to_every_group(store: Store, most: int) -> None:
    ids = two_groups(store)
    stop(store, op="stop-2")
    reconcile(store, most=most)
    assert phases(store, *ids) == ["stopped"] * 4


@pytest.mark.parametrize("harmed", [GROUP, "0.1"])
def test_a_damaged_group_is_passed_over(store: Store, harmed: str) -> None:
    ids = two_groups(store)
    store.redis.hset(store.keys.group("r", harmed), "started", "x")
    stop(store, op="stop-2")
    reconcile(store)
    assert sorted(phases(store, *ids)) == ["queued", "queued", "stopped", "stopped"]
    resume(store, op="resume-2")
    assert last_word(store) == "done"
    store.redis.hset(store.keys.group("r", harmed), "started", "0")
    assert last_word(store) == "start"


def test_a_damaged_group_is_forgotten_with_its_step(store: Store) -> None:
    family(store, FIRST)
    end_child(store, child_id(store, 0))
    granted = claim(store)
    store.redis.hset(store.keys.group("r", GROUP), "started", "x")
    assert commit_next(store, granted, options={"take": ""}) == ("ok", "continued")
    assert "groups" not in hash_of(store)


def test_a_run_ends_whatever_its_groups_are(store: Store) -> None:
    family(store)
    store.redis.hset(store.keys.group("r", GROUP), "ok", "x")
    assert stop(store)[0] == "stopped"


def test_a_child_goes_on_whatever_became_of_its_parent(store: Store) -> None:
    first, _ = family(store)
    stop(store, run_id=first)
    store.redis.delete(store.keys.run("r"))
    assert resume(store, run_id=first) == ["queued"]
    assert hash_of(store, first)["own"] == "-"


def test_of_two_bad_ends_one_is_taken_back(store: Store) -> None:
    first, second = family(store)
    stop(store)
    reconcile(store)
    resume(store)
    reconcile(store)
    for run_id in (first, second):
        store.runs.request_stop(run_id, op=f"by hand {run_id}", mode="graceful")
    assert [end_of(store, place) for place in (0, 1)] == ["bad stopped 1\n", "bad stopped 2\n"]
    resume(store, op="again", run_id=first)
    assert group_of(store)["bad"] == "1"


def test_a_child_that_a_person_continued_belongs_to_its_parent_again_where_that_goes_on(
    store: Store,
) -> None:
    first, _ = family(store)
    stop(store)
    reconcile(store)
    resume(store, run_id=first)
    assert hash_of(store, first)["own"] == "0"
    resume(store, op="parent")
    stop(store, run_id=first)
    resume(store, op="again", run_id=first)
    assert "own" not in hash_of(store, first)


def test_the_other_groups_stay_where_one_is_forgotten(store: Store) -> None:
    family(store, FIRST)
    end_child(store, child_id(store, 0))
    store.redis.copy(store.keys.group("r", GROUP), store.keys.group("r", "0.1"))
    store.redis.hset(store.keys.run("r"), "groups", f"{GROUP}\n0.1\n0.2")
    commit_next(store, claim(store), options={"take": ""})
    assert hash_of(store)["groups"] == f"{GROUP}\n0.1"
