"""Budgets of a tree, by the scripts alone: who pays, who waits, who asks, and who goes on."""

from __future__ import annotations

import pytest

from perdure.worker.store import Store
from tests.support.child_runs import child_id as id_of_child
from tests.support.child_runs import (
    end_child,
    follow_up,
    hold_up,
    park_on_children,
    parked,
    paying_family,
    phases,
    reconcile,
    start_children,
)
from tests.support.runs import (
    claim,
    clock,
    commit,
    commit_end,
    commit_next,
    due_in,
    events,
    everything,
    fail_round,
    hash_of,
    messages,
    new_run,
    pause_here,
    phase,
    resume,
    stay,
    stop,
    sweep_after,
    sweep_and_bring,
)

FIVE = "tokens 5000000"


def tree(store: Store, name: str = "tokens", run_id: str = "r") -> str | None:
    """Return the spending below a run, in millionths."""
    return hash_of(store, run_id).get(f"t:{name}")


def raise_limit(
    store: Store, op: str = "add-1", run_id: str = "r", add: str = FIVE, **options: str
) -> list[str]:
    return store.runs.raise_limit(run_id, op=op, add=add, **options)


# The charge


def test_a_commit_charges_the_runs_above_in_its_own_write(store: Store) -> None:
    first, second = paying_family(store)
    granted = claim(store, first)
    charge = {"charge": f"{FIVE}\nmoney 1234567"}
    assert commit_next(store, granted, options=charge) == ("ok", "continued")
    assert commit_end(store, claim(store, second), options={"charge": FIVE}) == ("ok", "completed")
    assert (tree(store), tree(store, "money")) == ("10000000", "1234567")


@pytest.mark.parametrize("kind", ["failed", "give_back", "pause_here", "park"])
def test_a_round_that_is_not_done_charges_what_it_spent(store: Store, kind: str) -> None:
    first, _ = paying_family(store)
    granted = claim(store, first)
    {
        "failed": lambda: fail_round(store, granted, charge=FIVE),
        "give_back": lambda: commit(store, granted, "give_back", charge=FIVE),
        "pause_here": lambda: commit(store, granted, "pause_here", message="m", fields=hold_fields(), charge=FIVE),
        "park": lambda: commit(store, granted, "park", wait="0", wait_for="paid 1", wait_over="null", charge=FIVE),
    }[kind]()  # fmt: skip
    assert tree(store) == "5000000"


def hold_fields() -> dict[str, str]:
    return {
        "i_kind": "node",
        "i_status": "interrupted_before",
        "i_node": "Controller",
        "i_reason": "?",
    }


def test_a_commit_sent_again_charges_nothing(store: Store) -> None:
    first, _ = paying_family(store)
    granted = claim(store, first)
    commit_next(store, granted, options={"charge": FIVE})
    before = everything(store)
    assert commit_next(store, granted, options={"charge": FIVE}) == ("ok", "continued")
    assert everything(store) == before


def test_a_commit_that_is_refused_charges_nothing(store: Store) -> None:
    first, _ = paying_family(store)
    late = claim(store, first)
    stop(store, "now", run_id=first)
    assert commit_next(store, late, options={"charge": FIVE})[0] == "fenced"
    assert tree(store) is None


def test_a_charge_reaches_every_run_above(store: Store) -> None:
    first, _ = paying_family(store)
    granted = claim(store, first)
    park_on_children(store, granted, (1, 1, 1), total=1)
    payers = f"{first} {hash_of(store, first)['nonce']}\nr nonce-r tokens"
    assert start_children(store, 1, run_id=first, payers=payers) == ["ok", "1"]
    end = commit_end(
        store, claim(store, id_of_child(store, 0, run_id=first)), options={"charge": FIVE}
    )
    assert end == ("ok", "completed")
    assert (tree(store), tree(store, run_id=first)) == ("5000000", "5000000")


def test_a_charge_is_exact_beyond_what_lua_counts_exactly(store: Store) -> None:
    first, second = paying_family(store)
    commit_next(store, claim(store, first), options={"charge": "tokens 899999999999999999"})
    commit_next(store, claim(store, second), options={"charge": "tokens 2"})
    assert tree(store) == "900000000000000001"


def test_a_charge_carries_the_billions(store: Store) -> None:
    first, second = paying_family(store)
    commit_next(store, claim(store, first), options={"charge": "tokens 1500000000"})
    commit_next(store, claim(store, second), options={"charge": "tokens 1"})
    assert tree(store) == "1500000001"


def test_payers_that_cannot_be_read_are_left_out(store: Store) -> None:
    parked(store)
    start_children(store, 1, payers="broken")
    granted = claim(store, id_of_child(store, 0))
    assert commit_next(store, granted, options={"charge": FIVE}) == ("ok", "continued")
    assert tree(store) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda store: store.redis.hset(store.keys.run("r"), "nonce", "another"),
        lambda store: store.redis.hset(store.keys.run("r"), "id", "another"),
        lambda store: store.redis.delete(store.keys.run("r")),
        lambda store: (store.redis.delete(store.keys.run("r")), store.redis.set(store.keys.run("r"), "x")),
        lambda store: store.redis.hset(store.keys.run("r"), "t:tokens", "-1"),
        lambda store: store.redis.hset(store.keys.run("r"), "t:tokens", "1" * 19),
    ],
)  # fmt: skip
def test_a_run_above_that_is_in_doubt_is_left_alone(store: Store, damage) -> None:  # type: ignore[no-untyped-def]
    first, _ = paying_family(store)
    granted = claim(store, first)
    damage(store)
    before = everything(store).get(store.keys.run("r"))
    assert commit_next(store, granted, options={"charge": FIVE}) == ("ok", "continued")
    assert everything(store).get(store.keys.run("r")) == before


def test_an_amount_that_is_too_long_is_left_out(store: Store) -> None:
    first, _ = paying_family(store)
    commit_next(store, claim(store, first), options={"charge": f"money {'1' * 19}\n{FIVE}"})
    assert (tree(store), tree(store, "money")) == ("5000000", None)


# Runs below a run


def test_a_group_counts_as_runs_below_all_above_it_once(store: Store) -> None:
    first, _ = paying_family(store)
    assert tree(store, "runs") == "2000000"
    park_on_children(store, claim(store, first), (3, 3, 3), total=3)
    assert (tree(store, "runs"), tree(store, "runs", first)) == ("5000000", "3000000")
    stop(store, run_id=first)
    resume(store, run_id=first)
    park_on_children(store, claim(store, first, epoch=1), (3, 3, 3), total=3)
    assert (tree(store, "runs"), tree(store, "runs", first)) == ("5000000", "3000000")


# Held up


def test_a_run_whose_own_budget_is_used_up_asks(store: Store) -> None:
    new_run(store)
    assert hold_up(store, claim(store)) == ("ok", "interrupted")
    (told,) = events(store, kind="interrupted")
    assert (told["reason"], hash_of(store)["i_budget"]) == ("budget_exhausted", "tokens")
    assert "asks:tokens" not in hash_of(store) and hash_of(store)["i_id"] == "0:0"


def test_a_run_of_an_earlier_release_has_no_nonce_and_asks(store: Store) -> None:
    new_run(store)
    store.redis.hdel(store.keys.run("r"), "nonce")
    assert hold_up(store, claim(store)) == ("ok", "interrupted")


def test_one_run_asks_for_a_budget_above_and_the_others_wait(store: Store) -> None:
    first, second = paying_family(store)
    assert hold_up(store, claim(store, first)) == ("ok", "interrupted")
    assert hold_up(store, claim(store, second)) == ("ok", "waiting")
    assert hash_of(store)["asks:tokens"] == first
    fields = hash_of(store, second)
    assert (fields["waiting_for"], due_in(store, second)) == ("budget", 30_000)
    assert fields["short"] == "0 0 30000 r tokens"
    assert "i_id" not in fields and "i_payer" not in fields and fields["message"].endswith("/0/0")


def test_a_run_that_waits_looks_again_ever_more_seldom(store: Store) -> None:
    first, second = paying_family(store)
    hold_up(store, claim(store, first))
    for wait in (30_000, 60_000, 120_000):
        hold_up(store, claim(store, second))
        assert due_in(store, second) == wait
        assert (second, "woken") in sweep_after(store, wait)
    store.redis.hset(store.keys.run(second), "short", "0 0 3000000 r tokens")
    hold_up(store, claim(store, second))
    assert due_in(store, second) == 3_600_000
    (told,) = events(store, second, kind="held_up")
    assert (told["of"], told["budget"]) == ("r", "tokens")


def test_the_looks_of_another_step_are_not_counted(store: Store) -> None:
    first, second = paying_family(store)
    hold_up(store, claim(store, first))
    for short in ("1 0 60000 r tokens", "0 1 60000 r tokens"):
        store.redis.hset(store.keys.run(second), mapping={"short": short, "phase": "queued"})
        hold_up(store, claim(store, second))
        assert due_in(store, second) == 30_000


def test_the_run_that_asks_asks_again(store: Store) -> None:
    first, _ = paying_family(store)
    hold_up(store, claim(store, first))
    resume(store, run_id=first)
    assert hold_up(store, claim(store, first)) == ("ok", "interrupted")


@pytest.mark.parametrize(
    "goes",
    [
        lambda store, run_id: stop(store, run_id=run_id),
        lambda store, run_id: resume(store, run_id=run_id),
        lambda store, run_id: store.redis.hset(store.keys.run(run_id), "i_payer", "another"),
        lambda store, run_id: store.redis.hset(store.keys.run(run_id), "i_budget", "money"),
        lambda store, run_id: store.redis.delete(store.keys.run(run_id)),
    ],
)
def test_the_next_one_asks_where_the_first_asks_no_more(store: Store, goes) -> None:  # type: ignore[no-untyped-def]
    first, second = paying_family(store)
    hold_up(store, claim(store, first))
    goes(store, first)
    assert hold_up(store, claim(store, second)) == ("ok", "interrupted")
    assert hash_of(store)["asks:tokens"] == second


def test_each_budget_is_asked_for_by_itself(store: Store) -> None:
    first, second = paying_family(store)
    hold_up(store, claim(store, first))
    assert hold_up(store, claim(store, second), budget="money") == ("ok", "interrupted")


@pytest.mark.parametrize("own", [True, False])
def test_a_limit_that_was_raised_since_the_look_holds_nothing_up(store: Store, own: bool) -> None:
    first, _ = paying_family(store)
    granted = claim(store, first)
    of = first if own else "r"
    raise_limit(store, run_id=of)
    assert hold_up(store, granted, of) == ("ok", "queued")
    fields = hash_of(store, first)
    assert "i_id" not in fields and "i_status" not in fields and fields["message"].endswith("/0/0")
    assert hold_up(store, claim(store, first), of, added="5000000") == ("ok", "interrupted")


@pytest.mark.parametrize("name", ["id", "nonce"])
def test_a_run_above_that_is_in_doubt_holds_nothing_up(store: Store, name: str) -> None:
    first, _ = paying_family(store)
    granted = claim(store, first)
    fields = hash_of(store)
    store.redis.hset(store.keys.run("r"), name, "another")
    told = commit(store, granted, "short", short=f"r {fields['nonce']} tokens", added="", look=1, message="m", fields=hold_fields())  # fmt: skip
    assert told == ("ok", "queued") and hash_of(store, first)["message"] != "m"


def test_a_stop_beats_a_used_up_budget(store: Store) -> None:
    first, second = paying_family(store)
    granted = claim(store, first)
    stop(store, run_id=first)
    assert hold_up(store, granted) == ("ok", "stopped")
    assert "i_id" not in hash_of(store, first) and "asks:tokens" not in hash_of(store)
    hold_up(store, claim(store, second))
    assert phase(store, second) == "interrupted"


def test_a_run_that_stayed_brings_its_message_when_it_is_held_up(store: Store) -> None:
    first, second = paying_family(store)
    hold_up(store, claim(store, first))
    granted = stay(store, claim(store, second))
    assert granted is not None
    assert hold_up(store, granted) == ("ok", "waiting")
    assert hash_of(store, second)["message"].endswith("/0/1")


# More is added


def test_a_limit_is_raised_once_per_operation(store: Store) -> None:
    new_run(store)
    assert raise_limit(store, by="ann") == ["ok", "queued"]
    before = everything(store)
    assert raise_limit(store, by="ann") == ["ok", "queued"]
    assert everything(store) == before
    assert raise_limit(store, "add-2", add=f"{FIVE}\nmoney 1") == ["ok", "queued"]
    fields = hash_of(store)
    assert (fields["x:tokens"], fields["x:money"]) == ("10000000", "1")
    assert [(told["added"], told["by"]) for told in events(store, kind="limits_raised")] == [
        (FIVE, "ann"),
        (f"{FIVE}\nmoney 1", ""),
    ]


def test_only_a_child_that_asks_raises_the_limit_of_a_completed_run(store: Store) -> None:
    new_run(store)
    commit_end(store, claim(store))
    assert raise_limit(store) == ["finished", "completed"]
    assert "x:tokens" not in hash_of(store)
    assert raise_limit(store, child="c") == ["ok", "completed"]
    assert follow_up(store) is None


def test_a_damaged_amount_is_named_and_nothing_is_written(store: Store) -> None:
    new_run(store)
    store.redis.hset(store.keys.run("r"), "x:tokens", "many")
    before = everything(store)
    assert raise_limit(store, add=f"money 1\n{FIVE}") == ["damaged", "x:tokens"]
    assert everything(store) == before
    assert raise_limit(store, run_id="nobody") == ["missing"]


def test_more_lets_the_one_that_asks_and_those_that_wait_go_on(store: Store) -> None:
    first, second = paying_family(store)
    hold_up(store, claim(store, first))
    hold_up(store, claim(store, second))
    assert raise_limit(store, by="ann") == ["ok", "parked", "r"]
    assert follow_up(store) is not None and hash_of(store)["funded"] == "1"
    (told,) = events(store, first, kind="resumed")
    assert (told["answer"], told["data"], told["by"]) == ("null", "null", "ann")
    fields = hash_of(store, first)
    assert (fields["i_answer"], fields["resumed_by"]) == ("null", "ann")
    assert fields["resumed_at"] == told["at"]
    assert reconcile(store)[-1].word == "done"
    assert "funded" not in hash_of(store)
    # The run that asks waits for its message, which Lua cannot make.
    assert (second, "woken") in sweep_after(store, 0) and phase(store, first) == "waiting"
    assert (first, "woken") in sweep_and_bring(store, 1_000)
    assert phases(store, first, second) == ["queued", "queued"]


def test_more_of_several_budgets_answers_who_asks_for_any_of_them(store: Store) -> None:
    first, _ = paying_family(store)
    hold_up(store, claim(store, first))
    raise_limit(store, add=f"money 1\n{FIVE}")
    assert phase(store, first) == "waiting"
    assert hash_of(store, first)["resumed_by"] == ""


def test_more_reaches_those_that_wait_further_below(store: Store) -> None:
    first, second = paying_family(store)
    park_on_children(store, claim(store, first), (1, 1, 1), total=1)
    payers = f"{first} {hash_of(store, first)['nonce']}\nr nonce-r tokens"
    start_children(store, 1, run_id=first, payers=payers)
    below = id_of_child(store, 0, run_id=first)
    store.redis.delete(store.keys.follow_ups)
    hold_up(store, claim(store, second))
    hold_up(store, claim(store, below))
    raise_limit(store)
    assert reconcile(store)[-1].follow_ups == [first]
    assert hash_of(store, first)["funded"] == "1" and due_in(store, below) == 30_000
    reconcile(store, first)
    assert due_in(store, below) == 0


def test_a_walk_without_more_wakes_nothing(store: Store) -> None:
    first, second = paying_family(store)
    hold_up(store, claim(store, first))
    hold_up(store, claim(store, second))
    store.redis.hset(store.keys.run("r"), "walk", "1")
    reconcile(store)
    assert due_in(store, second) == 30_000


def test_a_walk_leaves_those_alone_that_wait_for_something_else(store: Store) -> None:
    first, _ = paying_family(store)
    fail_round(store, claim(store, first), delay=9_000)
    raise_limit(store)
    reconcile(store)
    assert due_in(store, first) == 9_000


def test_more_lets_a_run_go_on_that_asks_for_its_own_budget(store: Store) -> None:
    new_run(store)
    hold_up(store, claim(store))
    assert raise_limit(store, add="money 1") == ["ok", "interrupted"]
    assert raise_limit(store, "add-2") == ["ok", "waiting"]
    assert (hash_of(store)["epoch"], due_in(store)) == ("1", 0)
    assert ("r", "woken") in sweep_and_bring(store, 0)


def test_more_answers_no_other_question(store: Store) -> None:
    first, _ = paying_family(store)
    hold_up(store, claim(store, first))
    raise_limit(store, run_id=first)  # it asks for its parent's
    assert phase(store, first) == "interrupted"
    new_run(store, "q")
    pause_here(store, claim(store, "q"), i_budget="tokens")
    assert raise_limit(store, run_id="q") == ["ok", "interrupted"]


@pytest.mark.parametrize(
    ("field", "text"), [("i_payer", "another"), ("i_budget", "money"), ("i_kind", "node"), ("phase", "stopped")]
)  # fmt: skip
def test_the_one_that_asks_goes_on_only_if_it_asks_still(
    store: Store, field: str, text: str
) -> None:
    first, _ = paying_family(store)
    hold_up(store, claim(store, first))
    store.redis.hset(store.keys.run(first), field, text)
    raise_limit(store)
    assert "i_answer" not in hash_of(store, first)


def test_a_run_at_rest_wakes_nothing_below_it(store: Store) -> None:
    paying_family(store)
    stop(store)
    store.redis.delete(store.keys.follow_ups)
    assert raise_limit(store) == ["ok", "stopped"]
    assert follow_up(store) is None and "funded" not in hash_of(store)


def test_the_next_commit_forgets_the_question(store: Store) -> None:
    first, _ = paying_family(store)
    hold_up(store, claim(store, first))
    raise_limit(store)
    sweep_and_bring(store, 0)
    commit_next(store, claim(store, first), options={"charge": FIVE})
    assert not {"i_budget", "i_payer", "i_answer"} & set(hash_of(store, first))
    assert len(messages(store, "executor")) == 2 and clock(store) > 0
    end_child(store, first)
