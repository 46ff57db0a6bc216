"""Groups that outlive their step, ends that are held back, stops of a parent alone, and the lists
of child runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.worker.operations.run_counts import status_counts
from perdure.worker.operations.run_list import RunFilter, list_runs
from perdure.worker.store import ClaimRefused, Store
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
    park_on_children,
    parked,
    phases,
    reconcile,
    start_children,
)
from tests.support.runs import (
    assert_lawful,
    claim,
    commit_end,
    commit_next,
    hash_of,
    new_run,
    phase,
    resume,
    retry,
    stop,
    sweep,
    try_claim,
)

#: The need of a start: only that the group is written.
NOTHING = (0, 3, 3)


def started(store: Store, **options: Any) -> list[str]:
    """Make a parent whose two children are queued, and which goes on; return their ids."""
    new_run(store)
    assert park_on_children(store, claim(store), NOTHING, kept=1, **options) == ("ok", "queued")
    assert start_children(store, 2) == ["ok", "2"]
    store.redis.delete(store.keys.follow_ups)
    return [child_id(store, 0), child_id(store, 1)]


def joining(store: Store, need: tuple[int, int, int] = SETTLED) -> tuple[str, str]:
    """Park the parent's next step, which joins the group of its first one, and has to wait."""
    return park_on_children(store, claim(store, step=1), need, group=GROUP, kept=1)


def done(store: Store, kind: str = "next", step: int = 0, **options: Any) -> list[str]:
    """Commit the parent's round; return the commit's follow-ups."""
    more: dict[str, Any] = {"message": "m", "fields": {"current_node": "Executor"}}
    if kind == "end":
        more = {"fields": {"answer": "1", "output": "{}"}}
    granted = claim(store, step=step)
    reply = store.rounds.commit_and_fetch("r", **by(granted), kind=kind, **options, **more)
    assert reply.word == "ok"
    return list(reply.follow_ups)


# Groups that outlive their step


def test_a_parent_goes_on_when_its_children_are_written_down(store: Store) -> None:
    new_run(store)
    reply = park_on_children(store, claim(store), NOTHING, kept=1)
    assert reply == ("ok", "queued")
    assert (group_of(store)["kept"], follow_up(store)) == ("1", 1_000)


def test_a_started_group_outlives_its_step(store: Store) -> None:
    ids = started(store)
    assert done(store, take="") == []
    assert phases(store, *ids) == ["queued", "queued"]
    assert hash_of(store)["groups"] == GROUP
    end_child(store, ids[0])
    assert end_of(store, 0) == 'ok completed 1\n"42"'


def test_a_later_step_waits_for_it(store: Store) -> None:
    ids = started(store)
    done(store, take="")
    assert joining(store) == ("ok", "parked")
    end_child(store, ids[0])
    assert phase(store) == "parked"
    fail_child(store, ids[1])
    assert phase(store) == "queued"


def test_the_step_that_joins_it_drops_it_and_stops_who_still_runs(store: Store) -> None:
    first, second = started(store)
    done(store, take="")
    end_child(store, first)
    assert done(store, step=1, take="", joined=GROUP) == ["r"]
    reconcile(store)
    assert phases(store, second) == ["stopped"]
    assert group_of(store) == {} and "groups" not in hash_of(store)


def test_only_the_group_that_was_joined_is_dropped(store: Store) -> None:
    started(store)
    park_on_children(store, claim(store), NOTHING, name="1", kept=1)
    done(store, take="", joined="0.1")
    assert hash_of(store)["groups"] == GROUP


def test_a_name_of_a_group_is_no_pattern(store: Store) -> None:
    started(store)
    park_on_children(store, claim(store), NOTHING, name="a-b", kept=1)
    done(store, take="", joined="0.a-b")
    assert hash_of(store)["groups"] == GROUP


@pytest.mark.parametrize("take", [{}, {"take": ""}])
def test_the_end_of_a_run_drops_what_it_has_not_joined(store: Store, take: dict[str, str]) -> None:
    ids = started(store)
    done(store, take="")
    assert done(store, "end", step=1, **take) == ["r"]
    reconcile(store)
    assert phases(store, *ids) == ["stopped", "stopped"]
    assert "groups" not in hash_of(store)


def test_children_that_are_left_to_themselves_outlive_their_parent(store: Store) -> None:
    ids = started(store, policy="abandon")
    done(store, take="")
    assert done(store, "end", step=1) == []
    assert phases(store, *ids) == ["queued", "queued"]
    assert group_of(store) == {}


# Ends that are held back


def test_a_bad_end_is_held_back_and_the_parent_waits(store: Store) -> None:
    first, second = family(store, ALL, hold=1)
    fail_child(store, first)
    group = group_of(store)
    assert (group["held"], group["held:0"], group["bad"]) == ("1", "errored", "0")
    assert end_of(store, 0) is None
    end_child(store, second)
    assert phase(store) == "parked"
    assert_lawful(store)


def test_the_parent_goes_on_when_a_person_has_mended_the_child(store: Store) -> None:
    first, second = family(store, ALL, hold=1)
    end_child(store, second)
    fail_child(store, first)
    assert retry(store, run_id=first)[0] == "queued"
    group = group_of(store)
    assert (group["held"], "held:0" in group) == ("0", False)
    end_child(store, first)
    assert phase(store) == "queued"
    assert end_of(store, 0) == 'ok completed 2\n"42"'


def test_an_end_is_held_back_once(store: Store) -> None:
    first, _ = family(store, hold=1)
    fail_child(store, first)
    stop(store, run_id="r")
    resume(store)
    reconcile(store)  # a walk finds the child at rest, whose end its parent does not know
    assert group_of(store)["held"] == "1"


def test_a_child_that_is_held_back_makes_room_for_another(store: Store) -> None:
    parked(store, total=3, limit=1, hold=1)
    start_children(store)
    store.redis.delete(store.keys.follow_ups)
    fail_child(store, child_id(store, 0))
    assert follow_up(store) == 1_000
    assert start_children(store, first=1) == ["ok", "2"]


def test_a_stop_of_a_child_by_a_person_is_held_back_too(store: Store) -> None:
    first, _ = family(store, hold=1)
    stop(store, run_id=first)
    assert group_of(store)["held:0"] == "stopped"
    assert resume(store, run_id=first)[0] == "queued"
    assert group_of(store)["held"] == "0"


def test_what_is_gone_is_told_since_nobody_can_mend_it(store: Store) -> None:
    first, _ = family(store, hold=1)
    fail_child(store, first)
    assert store.runs.delete(first) == ["ok"]
    group = group_of(store)
    assert (group["held"], "held:0" in group, group["bad"]) == ("0", False, "1")
    assert end_of(store, 0) == "bad gone 1\n"


# Stops of a parent alone


def stop_alone(store: Store, op: str = "alone", **options: Any) -> list[str]:
    return store.runs.request_stop("r", op=op, mode="graceful", only=True, **options)


def test_children_go_on_when_their_parent_is_stopped_alone(store: Store) -> None:
    first, second = family(store)
    assert len(stop_alone(store)) == 7
    assert (phase(store), follow_up(store)) == ("stopped", None)
    end_child(store, first)
    assert end_of(store, 0) == 'ok completed 1\n"42"'
    assert phases(store, second) == ["queued"]


def test_an_older_follow_up_stops_no_child_of_a_parent_that_is_stopped_alone(store: Store) -> None:
    ids = family(store)
    stop(store)
    resume(store)
    stop_alone(store)
    assert [step.word for step in reconcile(store)] == ["done"]
    assert phases(store, *ids) == ["queued", "queued"]


def test_losers_of_a_race_are_stopped_even_then(store: Store) -> None:
    first, second = family(store, FIRST)
    end_child(store, first)
    done(store, take="")
    stop_alone(store)
    reconcile(store)
    assert phases(store, second) == ["stopped"]


def test_no_further_child_is_started_while_the_parent_is_stopped_alone(store: Store) -> None:
    parked(store, limit=1)
    start_children(store)
    stop_alone(store)
    end_child(store, child_id(store, 0))
    assert start_children(store, first=1) == ["ended", "stopped"]


def test_another_stop_stops_its_children_too(store: Store) -> None:
    ids = family(store)
    stop_alone(store)
    reply = stop(store)
    assert (reply[0], reply[7:]) == ("finished", ["r"])
    reconcile(store)
    assert phases(store, *ids) == ["stopped", "stopped"]


@pytest.mark.parametrize("alone_first", [True, False])
def test_a_stop_of_all_counts_before_and_after_one_of_the_parent_alone(
    store: Store, alone_first: bool
) -> None:
    ids = family(store)
    resume_from_park(store)
    granted = claim(store, epoch=1)
    for act in (stop_alone, stop) if alone_first else (stop, stop_alone):
        assert act(store)[0] == "asked"
    assert commit_next(store, granted) == ("ok", "stopped")
    reconcile(store)
    assert phases(store, *ids) == ["stopped", "stopped"]


def resume_from_park(store: Store) -> None:
    stop_alone(store, op="first")
    assert resume(store)[0] == "queued"


def test_a_round_in_flight_may_finish_before_its_parent_stops_alone(store: Store) -> None:
    ids = family(store)
    resume_from_park(store)
    granted = claim(store, epoch=1)
    assert stop_alone(store)[0] == "asked"
    assert park_on_children(store, granted, ALL) == ("ok", "stopped")
    reconcile(store)
    assert phases(store, *ids) == ["queued", "queued"]


def test_the_end_of_a_parent_that_was_to_stop_alone_stops_its_children(store: Store) -> None:
    first, second = family(store, FIRST)
    end_child(store, first)
    granted = claim(store)
    stop_alone(store)
    assert commit_end(store, granted, options={"take": ""}) == ("ok", "completed")
    reconcile(store)
    assert phases(store, second) == ["stopped"]


def test_a_resume_forgets_that_the_stop_was_of_the_parent_alone(store: Store) -> None:
    family(store)
    stop_alone(store)
    resume(store)
    assert "stop_only" not in hash_of(store)


# A child that a person continued


def test_a_child_that_a_person_continued_is_its_parent_s_again_when_that_goes_on(
    store: Store,
) -> None:
    first, _ = family(store)
    stop(store)
    reconcile(store)
    resume(store, run_id=first)
    assert hash_of(store, first)["own"] == "0"
    resume(store)
    reconcile(store)
    assert "own" not in hash_of(store, first)
    stop(store, op="stop-2")
    reconcile(store)
    assert phases(store, first) == ["stopped"]


# Lists


def listed(store: Store, **options: Any) -> list[str]:
    return [run.id for run in list_runs(store, RunFilter(**options), 50, None, None, None).runs]


def test_lists_and_counts_leave_child_runs_out(store: Store) -> None:
    ids = family(store)
    assert listed(store) == ["r"]
    assert sorted(listed(store, children=True)) == sorted(["r", *ids])
    counts = status_counts(store)
    assert (counts["running"], counts["queued"]) == (1, 0)


@pytest.mark.parametrize("end", ["completed", "errored", "stopped"])
def test_a_child_moves_between_the_lists_of_children(store: Store, end: str) -> None:
    first, _ = family(store)
    ending: dict[str, Callable[[], object]] = {
        "completed": lambda: end_child(store, first),
        "errored": lambda: fail_child(store, first),
        "stopped": lambda: stop(store, mode="now", run_id=first),
    }
    ending[end]()
    assert listed(store, children=True).count(first) == 1
    assert store.redis.zscore(store.keys.index(f"{end}:children"), first) is not None
    assert store.redis.zscore(store.keys.index("live:children"), first) is None
    assert store.redis.zscore(store.keys.index(end), first) is None
    assert_lawful(store, first)


def test_a_deleted_child_leaves_its_list(store: Store) -> None:
    first, _ = family(store)
    end_child(store, first)
    assert store.runs.delete(first) == ["ok"]
    assert store.redis.zscore(store.keys.index("completed:children"), first) is None


def test_a_sweep_forgets_children_whose_keys_have_expired(store: Store) -> None:
    first, _ = family(store)
    end_child(store, first)
    store.redis.delete(*store.redis.keys(f"{store.keys.run(first)}*"))
    sweep(store)
    assert store.redis.zscore(store.keys.index("completed:children"), first) is None


def test_a_list_of_children_of_a_wrong_type_costs_no_child_its_life(store: Store) -> None:
    for name in ("live:children", "completed:children"):
        store.redis.set(store.keys.index(name), "x")
    first, _ = family(store)
    end_child(store, first)
    sweep(store)
    assert end_of(store, 0) == 'ok completed 1\n"42"'


def test_child_runs_are_counted_again_with_all_others(store: Store) -> None:
    first, _ = family(store)
    claim(store, first)
    flow = hash_of(store, first)["flow"]
    counts = store.redis.hgetall(store.keys.queues)
    store.redis.hset(store.keys.queues, f"children:queued:{flow}", "7")
    store.redis.hdel(store.keys.queues, "counted")
    sweep(store)
    again = store.redis.hgetall(store.keys.queues)
    for name in (f"runs:queued:{flow}", f"runs:running:{flow}", f"children:queued:{flow}"):
        assert again[name] == counts[name], name
    assert counts[f"children:queued:{flow}"] == "1"


def test_an_unpaused_flow_finds_its_children_too(store: Store) -> None:
    first, _ = family(store)
    flow = hash_of(store, first)["flow"]
    store.pauses.add(flow)
    assert try_claim(store, first) == ClaimRefused("paused", flow)
    assert store.pauses.remove(flow) == 1


# Counts


def test_starts_and_ends_of_children_are_counted_for_metrics(store: Store) -> None:
    parked(store, (3, 4, 4), total=3)
    assert start_children(store, 3) == ["ok", "3"]
    first, second, third = (child_id(store, place) for place in range(3))
    flow = hash_of(store, first)["flow"]
    end_child(store, first)
    fail_child(store, second)
    stop(store, run_id=third)
    assert children_counted(store, flow) == {
        "queued": "0", "started": "3", "completed": "1", "errored": "1", "stopped": "1",
    }  # fmt: skip
    resume(store, run_id=third)
    store.runs.delete(third)
    assert children_counted(store, flow)["stopped"] == "1", "these counts only grow"


def children_counted(store: Store, flow: str) -> dict[str, str]:
    """Return the counts of child runs by their word."""
    counts = store.redis.hgetall(store.keys.queues).items()
    ends = f":{flow}"
    return {
        name.removeprefix("children:").removesuffix(ends): count
        for name, count in counts
        if name.startswith("children:") and name.endswith(ends)
    }
