"""Messages to a run that works, by the scripts alone: who reads them and when, their effect on an
end, and replies.
"""

from __future__ import annotations

import pytest

from perdure.worker.store import Store
from tests.support.runs import (
    LEASE,
    Claim,
    advance,
    claim,
    commit_end,
    commit_next,
    commit_unfinished,
    events,
    everything,
    fail_round,
    hash_of,
    messages,
    new_run,
    park,
    phase,
    retry,
    signal,
    stay,
    stop,
    submit,
    sweep_after,
)
from tests.support.steering_orders import HEED, heard_or_refused


def under_way(store: Store) -> Claim:
    """Claim a run whose queue has been taken from, so that it may stay."""
    new_run(store)
    return claim(store)


def test_a_round_that_stays_is_told_of_a_signal_by_the_refusal_to_stay_on(store: Store) -> None:
    granted = under_way(store)
    stayed = stay(store, granted)
    assert stayed is not None and "mailbox" not in stayed.fields
    signal(store, "say")
    before = everything(store)
    assert stay(store, stayed, next_claim="w1.other") is None
    assert everything(store) == before, "nothing is written"
    assert commit_next(store, stayed, node="Controller") == ("ok", "continued")
    heard = claim(store)
    assert heard.fields["mailbox"] == "1"
    again = stay(store, heard)
    assert again is not None, "what the claim knows of is no reason to leave"


def test_each_signal_of_any_name_is_told(store: Store) -> None:
    granted = under_way(store)
    for number, name in enumerate(("say", "paid", "say"), 1):
        signal(store, name)
        assert hash_of(store)["mailbox"] == str(number)
        assert stay(store, granted, next_claim=f"w1.{number}") is None


def test_a_stay_sent_again_is_answered_though_a_signal_came_meanwhile(store: Store) -> None:
    granted = under_way(store)
    stayed = stay(store, granted)
    signal(store, "say")
    again = stay(store, granted)
    assert stayed is not None and again is not None and again.token == stayed.token
    assert stay(store, again, next_claim="w1.other") is None


def test_an_end_that_has_not_heard_is_refused_and_nothing_is_written(store: Store) -> None:
    granted = under_way(store)
    signal(store, "say")
    signal(store, "say")
    signal(store, "ask")
    before = everything(store)
    assert commit_end(store, granted, options=HEED) == ("unread", "say 2, ask 1")
    assert everything(store) == before
    assert commit_end(store, granted, options={**HEED, "take": "say 1"}) == (
        "unread",
        "say 1, ask 1",
    )
    assert everything(store) == before
    assert commit_end(store, granted, options={**HEED, "take": "say 2\nask 1"}) == (
        "ok",
        "completed",
    )


def test_an_end_may_be_committed_otherwise_by_the_same_lease(store: Store) -> None:
    granted = under_way(store)
    signal(store, "say")
    assert commit_end(store, granted, options=HEED)[0] == "unread"
    assert commit_next(store, granted, node="Controller") == ("ok", "continued")
    assert len(messages(store)) == 1


def test_who_dies_behind_the_refusal_is_followed_by_another_who_hears(store: Store) -> None:
    granted = under_way(store)
    signal(store, "say")
    assert commit_end(store, granted, options=HEED)[0] == "unread"
    assert sweep_after(store, LEASE + 1) == [("r", "freed")]
    sweep_after(store, 60_000)
    again = claim(store)
    assert (again.attempt, again.fields["mailbox"]) == (2, "1")
    assert commit_end(store, granted, options=HEED)[0] == "fenced"
    assert commit_end(store, again, options={**HEED, "take": "say 1"}) == ("ok", "completed")


def test_an_end_that_insists_names_what_is_unread(store: Store) -> None:
    granted = under_way(store)
    signal(store, "say")
    signal(store, "say")
    insisting = {**HEED, "insist": 1, "take": "say 1"}
    assert commit_end(store, granted, options=insisting) == ("ok", "completed")
    assert [entry["signals"] for entry in events(store, kind="unread")] == ["say 1"]
    assert [entry["type"] for entry in events(store)][-2:] == ["unread", "completed"]
    assert commit_end(store, granted, options=insisting) == ("ok", "completed"), "sent again"
    assert len(events(store, kind="unread")) == 1


@pytest.mark.parametrize("options", [HEED, {**HEED, "insist": 1}], ids=["heeds", "insists"])
def test_what_was_heard_before_or_is_of_another_name_keeps_no_run_from_its_end(
    store: Store, options: dict[str, str]
) -> None:
    granted = under_way(store)
    signal(store, "say")
    commit_next(store, granted, node="Controller", options={"take": "say 1"})
    signal(store, "paid")
    assert commit_end(store, claim(store), options=options) == ("ok", "completed")
    assert events(store, kind="unread") == []


def test_only_an_end_heeds(store: Store) -> None:
    granted = under_way(store)
    signal(store, "say")
    assert commit_next(store, granted, node="Controller", options=HEED) == ("ok", "continued")
    assert fail_round(store, claim(store), **HEED) == ("ok", "waiting")


def test_a_run_that_used_up_its_cycles_says_what_is_unread(store: Store) -> None:
    granted = under_way(store)
    signal(store, "say")
    assert commit_unfinished(store, granted) == ("ok", "completed")
    assert events(store, kind="unread") == [], "this caller did not ask"


def test_a_late_end_is_fenced_and_not_told_what_is_unread(store: Store) -> None:
    granted = under_way(store)
    signal(store, "say")
    stop(store, mode="now")
    assert commit_end(store, granted, options=HEED)[0] == "fenced"


def test_an_end_beats_a_stop_once_it_has_heard(store: Store) -> None:
    granted = under_way(store)
    signal(store, "say")
    stop(store)
    assert commit_end(store, granted, options=HEED)[0] == "unread"
    assert commit_end(store, granted, options={**HEED, "take": "say 1"}) == ("ok", "completed")


@pytest.mark.parametrize("said", [True, False])
def test_a_mailbox_of_a_wrong_type_is_damage_to_a_run_that_has_one(
    store: Store, said: bool
) -> None:
    granted = under_way(store)
    if said:
        signal(store, "say")
    mailbox = store.keys.mailbox("r")
    store.redis.delete(mailbox)
    store.redis.set(mailbox, "text")
    expected = ("damaged", mailbox) if said else ("ok", "completed")
    assert commit_end(store, granted, options=HEED) == expected


def test_nothing_is_sent_to_a_run_that_has_completed(store: Store) -> None:
    commit_end(store, under_way(store), options=HEED)
    assert signal(store, "say") == ["finished", "completed"]


def test_said_in_the_moment_of_the_end_it_is_heard_or_refused_and_never_silent(
    store: Store,
) -> None:
    told = heard_or_refused(store, range(300))
    assert all(told[word] > 0 for word in ("heard", "refused", "unread"))


def replied(store: Store, number: int = 1, name: str = "ask") -> str | None:
    found: str | None = store.redis.hget(store.keys.mailbox("r"), f"{name}:reply:{number}")  # type: ignore[assignment]
    return found


def test_a_reply_is_stored_by_the_commit_of_the_round_and_the_first_one_stands(
    store: Store,
) -> None:
    granted = under_way(store)
    signal(store, "ask", '"status?"')
    answer = {"take": "ask 1", "replies": 'ask 1 {"is": "fine"}'}
    assert fail_round(store, granted, **answer) == ("ok", "waiting")
    assert replied(store) is None, "a round that is not done replies to nothing"
    advance(store, 1_000)
    sweep_after(store, 1_000)
    granted = claim(store)
    assert commit_next(store, granted, node="Controller", options=answer) == ("ok", "continued")
    assert replied(store) == '{"is": "fine"}'
    commit_next(store, granted, node="Controller", options={"replies": "ask 1 2"})
    assert replied(store) == '{"is": "fine"}', "the commit sent again"
    later = {"replies": "ask 1 2"}
    assert commit_next(store, claim(store), node="Controller", options=later)[0] == "ok"
    assert replied(store) == '{"is": "fine"}'


def test_a_round_replies_to_several_signals_of_any_name(store: Store) -> None:
    granted = under_way(store)
    for name in ("ask", "ask", "price"):
        signal(store, name)
    lines = "ask 1 1\nask 2 2\nprice 1 3"
    assert commit_end(store, granted, options={"replies": lines}) == ("ok", "completed")
    assert [replied(store, 1), replied(store, 2), replied(store, 1, "price")] == ["1", "2", "3"]


def test_the_newest_hundred_replies_of_a_name_are_kept(store: Store) -> None:
    granted = under_way(store)
    signal(store, "ask")
    commit_next(store, granted, node="Controller", options={"replies": "ask 1 1\nask 2 2"})
    commit_next(store, claim(store), node="Controller", options={"replies": "ask 101 3"})
    assert [replied(store, 1), replied(store, 2), replied(store, 101)] == [None, "2", "3"]


def test_a_reply_expires_with_its_run(store: Store) -> None:
    granted = under_way(store)
    signal(store, "ask")
    commit_end(store, granted, options={"replies": "ask 1 1"})
    expires = store.redis.pexpiretime(store.keys.mailbox("r"))
    assert expires == store.redis.pexpiretime(store.keys.run("r")) > 0


def test_a_mailbox_of_a_wrong_type_takes_no_reply(store: Store) -> None:
    granted = under_way(store)
    store.redis.set(store.keys.mailbox("r"), "text")
    before = everything(store)
    assert commit_next(store, granted, options={"replies": "ask 1 1"}) == (
        "damaged",
        store.keys.mailbox("r"),
    )
    assert everything(store) == before


def test_what_was_said_waits_for_a_run_that_rests(store: Store) -> None:
    granted = under_way(store)
    park(store, granted, "1", {"paid": 1}, None)
    assert signal(store, "say") == ["ok", "1", "parked"]
    stop(store)
    assert signal(store, "say")[0] == "ok" and phase(store) == "stopped"
    new_run(store, "r2")
    fail_round(store, claim(store, "r2"), fatal=1)
    assert signal(store, "say", run_id="r2")[0] == "ok"
    retry(store, run_id="r2")
    assert claim(store, "r2", epoch=1).fields["mailbox"] == "1"


def test_a_run_submitted_again_under_the_id_of_a_deleted_one_has_heard_nothing(
    store: Store,
) -> None:
    granted = under_way(store)
    signal(store, "say")
    commit_end(store, granted, options={**HEED, "insist": 1})
    store.runs.delete("r")
    submit(store, nonce="another")
    assert "mailbox" not in claim(store).fields
