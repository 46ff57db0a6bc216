"""A claim has the possible ends of its round's wait, which then need not ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.flows.core.round_journal import Journal
from perdure.flows.rounds.children import KnownGroup
from perdure.worker.domain.record import Record
from perdure.worker.engine.mailbox import StoreMailbox
from perdure.worker.settings import Settings
from perdure.worker.store import Claim, PrefetchRequest, Store
from tests.support.child_runs import (
    GROUP,
    SETTLED,
    child_id,
    end_child,
    fail_child,
    family,
    group_of,
    park_on_children,
    parked,
    start_children,
)
from tests.support.runs import (
    LEASE,
    Fetches,
    claim,
    commit_end,
    commit_next,
    hash_of,
    named,
    new_run,
    park,
    phase,
    signal,
    try_claim,
    wake,
)


def mailbox_of(store: Store, granted: Claim) -> StoreMailbox:
    """Return the mailbox that the claim's round sees."""

    def broken(error: Exception) -> None:
        raise error

    record = Record(granted.fields)
    return StoreMailbox(store, Settings(), record, granted, Journal(), broken)


def siblings(store: Store, need: tuple[int, int, int] = SETTLED) -> list[str]:
    """Return the ids of two children, awaited by their parent, whose plan names their flow."""
    ids = family(store, need)
    store.redis.hset(store.keys.group("r", GROUP), "plan:0", '{"flow":"ring"}')
    return ids


def woken(store: Store, *names: str, **waits_for: int) -> Claim:
    """Return the claim of a run that waited for signals, and got these."""
    new_run(store)
    assert park(store, claim(store), "1", waits_for or {"paid": 1}, None) == ("ok", "parked")
    for name in names:
        signal(store, name)
    assert wake(store) == "queued"
    return claim(store)


def statuses(group: KnownGroup | None) -> list[str]:
    assert group is not None
    return [end.status for end in group.ended]


class Refusing:
    """A server that must not be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the server was asked: {name}")


def unasked(mailbox: StoreMailbox) -> StoreMailbox:
    mailbox._store = Refusing()  # type: ignore[assignment]
    return mailbox


def test_a_claim_tells_of_the_children_for_which_its_round_waited(store: Store) -> None:
    first, second = siblings(store)
    end_child(store, first)
    fail_child(store, second)
    granted = claim(store)
    told = {f":{GROUP} {name}": text for name, text in group_of(store).items()}
    assert granted.waited_for == told
    assert statuses(unasked(mailbox_of(store, granted)).group(GROUP)) == ["completed", "errored"]


def test_the_commit_that_ends_the_last_child_tells_its_end_to_the_parent_it_claims(
    store: Store,
) -> None:
    new_run(store)
    reply = park_on_children(store, claim(store), SETTLED, own=named("r", 0, 0))
    assert reply == ("ok", "parked")
    store.redis.hset(store.keys.run("r"), "message", named("r", 0, 0))
    assert start_children(store, 2) == ["ok", "2"]
    store.redis.hset(store.keys.group("r", GROUP), "plan:0", '{"flow":"ring"}')
    end_child(store, child_id(store, 0))
    wish = PrefetchRequest([store.keys.queue("controller")], "next", "w1", LEASE, ["ring"])
    fetches = Fetches(store, wish)
    assert commit_end(fetches, claim(store, child_id(store, 1))) == ("ok", "completed")
    assert fetches.fetched is not None and fetches.fetched.claim is not None
    granted = fetches.fetched.claim
    assert granted.fields["id"] == "r"
    mailbox = unasked(mailbox_of(store, granted))
    assert statuses(mailbox.group(GROUP)) == ["completed", "completed"]


def test_a_claim_repeated_with_its_id_tells_the_same(store: Store) -> None:
    granted = woken(store, "paid")
    again = try_claim(store, claim=granted.id)
    assert isinstance(again, Claim)
    assert again.waited_for == granted.waited_for != {}


def test_whoever_asks_again_learns_how_the_children_are_now(store: Store) -> None:
    first, second = siblings(store, (1, 2, 2))
    end_child(store, first)
    mailbox = mailbox_of(store, claim(store))
    assert statuses(mailbox.group(GROUP)) == ["completed"]
    end_child(store, second)
    assert statuses(mailbox.group(GROUP)) == ["completed", "completed"]


@pytest.mark.parametrize(("fields", "told"), [(24, True), (25, False)])
def test_a_claim_leaves_out_a_large_group(store: Store, fields: int, told: bool) -> None:
    for child in siblings(store):
        end_child(store, child)
    more = {f"plan:{number}": "[]" for number in range(2, 2 + fields - len(group_of(store)))}
    store.redis.hset(store.keys.group("r", GROUP), mapping=more)
    granted = claim(store)
    assert bool(granted.waited_for) is told
    assert statuses(mailbox_of(store, granted).group(GROUP)) == ["completed", "completed"]


def test_a_claim_tells_the_next_unread_signal_of_each_name(store: Store) -> None:
    granted = woken(store, "paid", "paid", "left", paid=2, left=2, never=1)
    numbers = {name: text for name, text in granted.waited_for.items() if name[-2:] != ":1"}
    assert numbers == {"paid:last": "2", "paid:taken": "0", "left:last": "1", "left:taken": "0"}
    assert granted.waited_for.keys() - numbers.keys() == {"paid:1", "left:1"}
    found = unasked(mailbox_of(store, granted)).unread(["left", "paid", "never"])
    assert [(each.name, each.number) for each in found] == [("paid", 1), ("left", 1)]


def test_a_claim_tells_of_no_signal_that_was_taken(store: Store) -> None:
    granted = woken(store, "paid", "paid")
    assert commit_next(store, granted, options={"take": "paid 1"}) == ("ok", "continued")
    assert claim(store).waited_for == {}, "the step that waited is done"
    store.redis.hset(store.keys.run("r"), mapping={"phase": "queued", "wait_for": "paid 1"})
    granted = claim(store)
    assert granted.waited_for["paid:taken"] == "1"
    assert [each.number for each in unasked(mailbox_of(store, granted)).unread(["paid"])] == [2]


def test_after_a_signal_was_used_the_server_is_asked_for_the_next_one(store: Store) -> None:
    granted = woken(store, "paid", "left", paid=1, left=1)
    signal(store, "paid")
    mailbox = mailbox_of(store, granted)
    assert [each.number for each in mailbox.unread(["paid"])] == [1]
    mailbox.used = {"paid": 1}
    found = mailbox.unread(["paid", "left"])
    assert [(each.name, each.number) for each in found] == [("left", 1), ("paid", 2)]


def test_for_a_name_that_was_not_waited_for_the_server_is_asked(store: Store) -> None:
    new_run(store)
    assert park(store, claim(store), "1", {"paid": 1}, None) == ("ok", "parked")
    signal(store, "say")
    signal(store, "paid")
    assert wake(store) == "queued"
    found = mailbox_of(store, claim(store)).unread(["paid", "say"])
    assert [each.name for each in found] == ["say", "paid"]


def test_a_signal_that_came_after_the_claim_is_found_too(store: Store) -> None:
    new_run(store)
    assert park(store, claim(store), "1", {"paid": 1, "left": 1}, 1) == ("ok", "parked")
    signal(store, "paid")
    assert wake(store) == "queued"
    granted = claim(store)
    signal(store, "left")
    mailbox = mailbox_of(store, granted)
    assert [each.name for each in mailbox.unread(["left"])] == ["left"]


def test_a_mailbox_or_a_group_of_a_wrong_type_is_not_told(store: Store) -> None:
    parked(store)
    store.redis.hset(store.keys.run("r"), "wait_for", f"paid 1\n:{GROUP} 0 0 0")
    store.redis.hset(store.keys.run("r"), mapping={"phase": "queued", "mailbox": "1"})
    for key in (store.keys.mailbox("r"), store.keys.group("r", GROUP)):
        store.redis.delete(key)
        store.redis.set(key, "text")
    assert claim(store).waited_for == {}
    assert phase(store) == "leased"


def test_a_text_with_the_separator_is_read_from_the_server(store: Store) -> None:
    first, _ = siblings(store)
    end_child(store, first)
    store.redis.hset(store.keys.group("r", GROUP), "end:1", "bad errored 2\nbroken \x1f here")
    store.redis.hset(store.keys.group("r", GROUP), mapping={"bad": 1, "order": 2})
    store.redis.hset(store.keys.run("r"), "phase", "queued")
    granted = claim(store)
    assert granted.waited_for == {}
    assert granted.fields == hash_of(store)
    assert statuses(mailbox_of(store, granted).group(GROUP)) == ["completed", "errored"]


def test_a_damaged_count_of_a_mailbox_fails_no_claim(store: Store) -> None:
    new_run(store)
    assert park(store, claim(store), "1", {"paid": 1}, None) == ("ok", "parked")
    signal(store)
    assert wake(store) == "queued"
    store.redis.hset(store.keys.mailbox("r"), "paid:taken", "x")
    assert claim(store).waited_for.keys() == {"paid:last", "paid:taken", "paid:1"}
