"""commit_round that fetches: the commit of one round pops the next message and claims its round, in
the same write.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.worker.store import Claim, ClaimRefused, PrefetchRequest, Store
from tests.support.runs import (
    GRACE,
    LEASE,
    START,
    Fetches,
    assert_lawful,
    claim,
    commit,
    commit_end,
    commit_next,
    due,
    everything,
    fail_round,
    hash_of,
    later,
    messages,
    named,
    new_run,
    pause_next,
    phase,
    resume,
    stop,
    sweep,
    sweep_after,
    take,
    try_claim,
)

#: The request of a worker that plays the flow ``ring``, controllers first.
OWNER, CLAIM = "w1", "w1.fetched"


def fetching(store: Store, claim_id: str = CLAIM, known: tuple[str, ...] = ("ring",)) -> Fetches:
    """Return the store with the worker's prefetch request."""
    return Fetches(
        store,
        PrefetchRequest(
            (store.keys.queue("controller"), store.keys.queue("executor")),
            claim_id,
            OWNER,
            LEASE,
            known,
            "1",
        ),
    )


def claimed(fetches: Fetches) -> Claim:
    """Return the claim that came with the last commit."""
    assert fetches.fetched is not None and fetches.fetched.claim is not None, fetches.fetched
    return fetches.fetched.claim


def waiting_run(store: Store, run_id: str = "b") -> str:
    """Submit a run with its message in the controllers' list."""
    return new_run(store, run_id, fetchable=True)


def test_a_lone_run_s_commit_brings_its_own_next_round(store: Store) -> None:
    new_run(store, fetchable=True)
    fetches = fetching(store)
    assert commit_next(fetches, claim(store)) == ("ok", "continued")
    granted = claimed(fetches)
    assert (granted.fields["id"], granted.fields["step"], granted.id, granted.newest) == (
        "r",
        "1",
        CLAIM,
        ["turn"],
    )
    assert fetches.fetched is not None and (fetches.fetched.list, fetches.fetched.text) == (
        store.keys.queue("executor"),
        named("r", 0, 1),
    )
    assert messages(store) == messages(store, "executor") == []
    assert_lawful(store)


def test_what_is_fetched_is_leased_as_a_claim_leases_it(store: Store) -> None:
    """Two equal runs, claimed and prefetched, differ in their names, tokens and claims alone."""
    for run_id in ("x", "y"):
        waiting_run(store, run_id)
    new_run(store, "z")
    by_claim = claim(store, "x", claim="w1.claimed", owner=OWNER)
    fetches = fetching(store)
    commit_end(fetches, claim(store, "z"))
    by_fetch = claimed(fetches)
    own = ("id", "nonce", "token", "claim_id", "message", "number", "first_number")
    alike = [
        {name: text for name, text in granted.fields.items() if name not in own}
        for granted in (by_claim, by_fetch)
    ]
    assert alike[0] == alike[1] and "lease_until" in alike[0]
    assert by_fetch.fields == hash_of(store, "y")
    assert due(store, "x") == due(store, "y") == START + LEASE
    assert int(by_fetch.token) > int(by_claim.token)
    assert commit_end(store, by_fetch) == ("ok", "completed")


def test_the_oldest_message_is_fetched_before_the_run_s_own(store: Store) -> None:
    new_run(store, fetchable=True)
    mine = claim(store)
    waiting_run(store)
    fetches = fetching(store)
    commit_next(fetches, mine, "Controller")
    assert claimed(fetches).fields["id"] == "b"
    assert messages(store) == [named("r", 0, 1)] and phase(store) == "queued"
    assert (due(store, "r"), due(store, "b")) == (START + GRACE, START + LEASE)
    controller = store.keys.queue("controller")
    assert store.redis.hmget(
        store.keys.queues, "token", f"{controller}:pushed", f"{controller}:cursor"
    ) == ["2", "3", "2"]


def test_the_lists_are_asked_in_the_order_given(store: Store) -> None:
    new_run(store, "a")
    waiting_run(store, "b")
    new_run(store, "c", fetchable=True, role="executor")
    turned = Fetches(
        store,
        PrefetchRequest(
            (store.keys.queue("executor"), store.keys.queue("controller")),
            CLAIM,
            OWNER,
            LEASE,
            ("ring",),
        ),
    )
    commit_end(turned, claim(store, "a"))
    assert claimed(turned).fields["id"] == "c"


def test_nothing_to_fetch_is_no_fault(store: Store) -> None:
    new_run(store)
    fetches = fetching(store)
    assert commit_end(fetches, claim(store)) == ("ok", "completed")
    assert fetches.fetched is None


@pytest.mark.parametrize("outcome", [commit_end, commit_next, pause_next, fail_round])
def test_whatever_the_round_came_to_the_next_message_is_fetched(
    store: Store, outcome: Callable[..., tuple[str, str]]
) -> None:
    waiting_run(store)
    new_run(store)
    fetches = fetching(store)
    assert outcome(fetches, claim(store))[0] == "ok"
    assert claimed(fetches).fields["id"] == "b"


def test_a_round_that_is_given_back_fetches_nothing(store: Store) -> None:
    new_run(store, fetchable=True)
    fetches = fetching(store)
    assert commit(fetches, claim(store), "give_back") == ("ok", "queued")
    assert fetches.fetched is None and len(messages(store)) == 1


def test_a_refused_commit_fetches_nothing(store: Store) -> None:
    new_run(store, fetchable=True)
    mine = claim(store)
    sweep_after(store, LEASE)
    before = messages(store)
    fetches = fetching(store)
    assert commit_next(fetches, mine) == ("fenced", "")
    assert fetches.fetched is None and messages(store) == before != []


def test_the_commit_of_a_round_that_was_stopped_now_fetches_nothing(store: Store) -> None:
    new_run(store)
    mine = claim(store)
    stop(store, "now")
    waiting_run(store)
    fetches = fetching(store)
    assert commit_next(fetches, mine) == ("fenced", "")
    assert fetches.fetched is None and messages(store) == [named("b", 0, 0)]


def stop_asked(store: Store) -> None:
    store.redis.hset(store.keys.run("b"), "stop_current_execution", "stop_requested")


def flow_paused(store: Store) -> None:
    store.redis.hset(store.keys.paused, "ring", "{}")


def of_another_flow(store: Store) -> None:
    store.redis.hset(store.keys.run("b"), "flow", "other")


def of_a_newer_worker(store: Store) -> None:
    store.redis.hset(store.keys.run("b"), "schema", "2")


def claimed_already(store: Store) -> None:
    assert isinstance(try_claim(store, "b"), Claim)


def ended_already(store: Store) -> None:
    """End the run, which keeps its last message: that alone must not make it a round again."""
    granted = try_claim(store, "b")
    assert isinstance(granted, Claim)
    commit_end(store, granted)


def of_an_earlier_step(store: Store) -> None:
    """Push a double of step 0's message, found when step 1 is due."""
    granted = claim(store, "b")
    commit_next(store, granted, "Controller")
    take(store)
    store.redis.lpush(store.keys.queue("controller"), named("b", 0, 0))


def deleted(store: Store) -> None:
    store.redis.delete(store.keys.run("b"))


def of_no_run(store: Store) -> None:
    take(store)
    store.redis.lpush(store.keys.queue("controller"), "anything at all")


def damaged_in_its_count(store: Store) -> None:
    store.redis.hset(store.keys.run("b"), "attempt", "many")


def with_a_list_for_a_hash(store: Store) -> None:
    store.redis.delete(store.keys.run("b"))
    store.redis.lpush(store.keys.run("b"), "x")


def with_a_text_for_its_memory(store: Store) -> None:
    store.redis.set(store.keys.memory("b"), "x")


def with_a_token_far_ahead(store: Store) -> None:
    store.redis.hset(store.keys.run("b"), "token", str(10**14))


REASONS = [
    stop_asked, flow_paused, of_another_flow, of_a_newer_worker, claimed_already, ended_already, of_an_earlier_step, deleted, of_no_run,
    damaged_in_its_count, with_a_list_for_a_hash, with_a_text_for_its_memory, with_a_token_far_ahead,
]  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_what_cannot_be_claimed_is_handed_over_unclaimed_and_unchanged(
    store: Store, reason: Callable[[Store], None]
) -> None:
    """Its own delivery asks for the claim, and gets the reason of the refusal."""
    new_run(store)
    mine = claim(store)
    waiting_run(store)
    reason(store)
    (text,) = messages(store)
    mine_alone = {
        store.keys.run("r"),
        store.keys.events("r"),
        store.keys.due,
        store.keys.queues,
        store.keys.queue("controller"),
    }
    before = {
        key: held
        for key, held in everything(store).items()
        if key not in mine_alone and "index:" not in key
    }
    fetches = fetching(store)
    assert commit_end(fetches, mine) == ("ok", "completed")
    assert fetches.fetched is not None
    assert (fetches.fetched.list, fetches.fetched.text, fetches.fetched.claim) == (
        store.keys.queue("controller"),
        text,
        None,
    )
    after = {key: held for key, held in everything(store).items() if key in before}
    assert after == before and messages(store) == []


@pytest.mark.parametrize("outcome", [commit_next, commit_end])
def test_a_commit_sent_again_brings_the_same_claim(
    store: Store, outcome: Callable[..., tuple[str, str]]
) -> None:
    for run_id in ("b", "c"):
        waiting_run(store, run_id)
    new_run(store)
    mine = claim(store)
    first, again = fetching(store), fetching(store)
    assert outcome(first, mine) == outcome(again, mine)
    assert claimed(again) == claimed(first)
    assert messages(store) == [named("c", 0, 0)], "a second message was popped"


def test_a_commit_sent_again_brings_the_run_s_own_next_round_again(store: Store) -> None:
    new_run(store, fetchable=True)
    mine = claim(store)
    first, again = fetching(store), fetching(store)
    commit_next(first, mine)
    assert commit_next(again, mine) == ("ok", "continued")
    assert claimed(again) == claimed(first)


def test_a_commit_sent_again_pops_no_second_message_where_the_first_was_not_claimed(
    store: Store,
) -> None:
    new_run(store)
    mine = claim(store)
    store.redis.lpush(store.keys.queue("controller"), "second", "first")
    store.redis.lpush(store.keys.queue("controller"), "third")
    fetches = fetching(store)
    commit_end(fetches, mine)
    taken = fetches.fetched
    left = messages(store)
    assert commit_end(fetches, mine) == ("ok", "completed")
    assert taken is not None and fetches.fetched is None and messages(store) == left


def test_a_claim_that_was_taken_away_meanwhile_is_not_brought_again(store: Store) -> None:
    waiting_run(store)
    new_run(store)
    mine = claim(store)
    fetches = fetching(store)
    commit_end(fetches, mine)
    sweep_after(store, LEASE)
    assert isinstance(try_claim(store, "b", claim="another's"), Claim)
    assert commit_end(fetches, mine) == ("ok", "completed")
    assert fetches.fetched is None


def test_a_claim_of_a_fetch_before_is_not_brought_by_a_later_commit(store: Store) -> None:
    """A commit's prefetch is noted, and the note stays: the claim's own id says whether it is
    meant.
    """
    waiting_run(store)
    new_run(store)
    first = fetching(store, "w1.first")
    commit_next(first, claim(store))
    mine = claim(store)
    second = fetching(store, "w1.second")
    commit_next(second, mine, "Executor")
    take(store, "executor")
    again = fetching(store, "w1.second")
    assert commit_next(again, mine, "Executor") == ("ok", "continued")
    assert again.fetched is None


def test_what_was_fetched_and_never_begun_is_a_lost_round(store: Store) -> None:
    waiting_run(store)
    new_run(store)
    commit_end(fetching(store), claim(store))
    assert ("b", "freed") in sweep_after(store, LEASE)
    assert (hash_of(store, "b")["losses"], messages(store)) == ("1", [named("b", 0, 0)])
    assert_lawful(store, "b")


def test_a_message_that_was_popped_unclaimed_and_lost_is_sent_again(store: Store) -> None:
    new_run(store)
    mine = claim(store)
    waiting_run(store)
    flow_paused(store)
    commit_end(fetching(store), mine)
    store.redis.hdel(store.keys.paused, "ring")
    words = [word for _ in range(3) for run_id, word in sweep_after(store, 2_000) if run_id == "b"]
    assert words[-1] == "resent" or "resent" in words
    assert messages(store) == [named("b", 0, 0)]


def test_a_stop_that_comes_after_the_fetch_stops_the_fetched_round(store: Store) -> None:
    waiting_run(store)
    new_run(store)
    fetches = fetching(store)
    commit_end(fetches, claim(store))
    assert stop(store, "now", run_id="b")[0] == "asked" or phase(store, "b") == "stopped"
    assert commit_next(store, claimed(fetches)) == ("fenced", "")


def test_a_fetched_round_can_be_given_back(store: Store) -> None:
    waiting_run(store)
    new_run(store)
    fetches = fetching(store)
    commit_end(fetches, claim(store))
    assert commit(store, claimed(fetches), "give_back") == ("ok", "queued")
    assert messages(store) == [named("b", 0, 0)]
    assert hash_of(store, "b").get("losses", "0") == "0"
    assert isinstance(try_claim(store, "b"), Claim)


def test_the_message_of_an_answered_run_is_fetched(store: Store) -> None:
    new_run(store, "b", fetchable=True, phase="interrupted")
    new_run(store)
    mine = claim(store)
    resume(store, run_id="b", answer='"yes"')
    fetches = fetching(store)
    commit_end(fetches, mine)
    assert (claimed(fetches).fields["id"], claimed(fetches).fields["epoch"]) == ("b", "1")


def test_in_a_silence_what_was_fetched_is_spared_like_any_lease(store: Store) -> None:
    waiting_run(store)
    new_run(store)
    commit_end(fetching(store), claim(store))
    later(store, LEASE)
    assert ("b", "spared") in sweep(store)


def test_without_a_wish_nothing_is_fetched(store: Store) -> None:
    waiting_run(store)
    new_run(store)
    assert (
        store.rounds.commit_and_fetch(
            "r", epoch=0, step=0, token=claim(store).token, kind="end", fields={"answer": "1"}
        )[2]
        is None
    )
    assert messages(store) == [named("b", 0, 0)] and not isinstance(
        try_claim(store, "b"), ClaimRefused
    )
