"""The engine's journal: a round's records reach the next attempt, or the run is quarantined."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest

from perdure.flows.core.errors import FatalError, RoundStopped, UnstorableValue
from perdure.worker.engine.journal import StoreJournal
from perdure.worker.errors import DamagedRun
from perdure.worker.store import Store, StoreUnavailable
from perdure.worker.store.rounds import RoundTransitions
from tests.support.runs import LEASE, claim, commit, commit_next, hash_of, new_run, sweep_after

FIRST, SECOND = "r:0:aaaa", "r:0:bbbb"


def journal(store: Store, most_bytes: int = 1_000) -> StoreJournal:
    """Open the journal of a just claimed round."""
    return StoreJournal(store, claim(store), most_bytes)


def lost(store: Store) -> None:
    sweep_after(store, LEASE)
    sweep_after(store, LEASE)


@pytest.fixture
def first(store: Store) -> StoreJournal:
    new_run(store)
    return journal(store)


def test_a_command_is_in_doubt_for_the_next_attempt_and_not_for_its_own(
    store: Store, first: StoreJournal
) -> None:
    assert first.in_doubt(FIRST) is None
    first.intend(FIRST)
    assert first.in_doubt(FIRST) is None
    lost(store)
    assert journal(store).in_doubt(FIRST) == FIRST


@pytest.mark.parametrize("args", ['{"text":"\u2028 \u2029 \x85 \\u001e"}', "{}"])
def test_what_stands_behind_the_key_is_kept_with_it(
    store: Store, first: StoreJournal, args: str
) -> None:
    first.intend(f"{FIRST} {args}")
    first.intend(SECOND)
    lost(store)
    second = journal(store)
    assert (second.in_doubt(FIRST), second.in_doubt(SECOND)) == (f"{FIRST} {args}", SECOND)
    assert not second.is_behind


def test_an_attempt_takes_back_its_own_and_leaves_what_stood_before(
    store: Store, first: StoreJournal
) -> None:
    first.intend(FIRST)
    lost(store)
    granted = claim(store)
    second = StoreJournal(store, granted, 1_000)
    second.intend(FIRST)
    second.intend(SECOND)
    for key in (FIRST, SECOND):
        second.withdraw(key)
    assert second.is_behind
    commit(store, granted, "give_back", fields={"intent": second.text})
    third = journal(store)
    assert (third.in_doubt(FIRST), third.in_doubt(SECOND)) == (FIRST, None)


def test_the_only_intent_taken_back_leaves_nothing(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    only = StoreJournal(store, granted, 1_000)
    only.intend(FIRST)
    only.withdraw(FIRST)
    assert only.is_behind and only.text == ""
    commit(store, granted, "give_back", fields={"intent": only.text})
    assert not {"intent", "intent_token"} & set(hash_of(store))


class DeafRounds(RoundTransitions):
    """Carries each request out, and never gets the reply."""

    def intend(self, run_id: str, **named: Any) -> str:
        assert super().intend(run_id, **named) == "ok"
        raise StoreUnavailable("the connection broke")


class Deaf(Store):
    """A store that loses the answers of round transitions."""

    @cached_property
    def rounds(self) -> DeafRounds:
        return DeafRounds(self, self.reads)


@pytest.mark.parametrize("earlier", [False, True])
def test_an_intent_whose_answer_is_lost_begins_nothing_and_is_taken_back(
    store: Store, earlier: bool
) -> None:
    new_run(store)
    if earlier:
        journal(store).intend(FIRST)
        lost(store)
    granted, deaf = claim(store), Deaf(store.url, store.keys.prefix, now=store.now)
    round_of = StoreJournal(deaf, granted, 1_000)
    with pytest.raises(StoreUnavailable):
        round_of.intend(FIRST)
    deaf.close()
    assert "intent" in hash_of(store) and round_of.is_behind is not earlier
    commit(store, granted, "give_back", fields={"intent": round_of.text})
    assert journal(store).in_doubt(FIRST) == (FIRST if earlier else None), (
        "what an attempt before may have done is in doubt still"
    )


def test_a_round_that_was_lost_begins_nothing_and_its_error_says_which(
    store: Store, first: StoreJournal
) -> None:
    lost(store)
    with pytest.raises(
        RoundStopped,
        match=r"run r, step 0: the command of key r:0:aaaa was not begun: the server answered fenced",
    ):
        first.intend(FIRST)


def test_a_result_is_told_to_every_attempt_and_the_first_stands(
    store: Store, first: StoreJournal
) -> None:
    assert first.record("charge", '"one"') == '"one"' == first.recorded["charge"]
    lost(store)
    second = journal(store)
    assert second.recorded == {"charge": '"one"'}
    assert second.record("refund", '"two"') == '"two"' == first.record("refund", '"late"')
    assert first.recorded["refund"] == '"two"'


def test_a_result_of_a_step_that_is_over_is_refused_and_its_error_says_which(store: Store) -> None:
    new_run(store)
    granted = claim(store)
    late = StoreJournal(store, granted, 1_000)
    commit_next(store, granted)
    with pytest.raises(
        RoundStopped,
        match="run r, step 0: the result 'charge' was not recorded: the server answered stale",
    ):
        late.record("charge", "1")


def test_a_result_is_bounded_in_size_and_in_number(
    store: Store, first: StoreJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.worker.engine.journal.MOST_LARGE", 2_000)
    with pytest.raises(
        UnstorableValue,
        match="run r, step 0: the result recorded as 'large' takes 2,001 bytes; the limit is 2,000",
    ):
        first.record("large", "x" * 2_001)
    for number in range(64):
        first.record(f"n{number}", "x" * (1_000 if number == 0 else 1))
    with pytest.raises(
        FatalError,
        match="run r, step 0: 'more' is not recorded, for the step has recorded 64 results",
    ):
        first.record("more", "1")


def test_a_large_result_reaches_every_attempt_whole_and_goes_with_the_round(
    store: Store, first: StoreJournal
) -> None:
    large = "\u20ac" * 1_000
    assert first.record("page", large) == large == first.recorded["page"]
    first.record("charge", "1")
    assert len(hash_of(store)["o:@page"]) == 16 and store.reads.artifacts("r") == {
        "once/page-0": 3_000
    }
    lost(store)
    granted = claim(store)
    second = StoreJournal(store, granted, 1_000)
    assert second.recorded == {"page": large, "charge": "1"}
    assert second.record("page", "late") == large, "the first stands, however large a later one is"
    assert second.record("page", large + "!") == large
    assert second.record("charge", large) == "1"
    commit_next(store, granted)
    assert store.reads.artifacts("r") == {} and not {"once", "o:@page", "o:charge"} & set(
        hash_of(store)
    )


@pytest.mark.parametrize("text", [None, "another"])
def test_a_large_result_that_is_not_as_it_was_recorded_quarantines_the_run(
    store: Store, first: StoreJournal, text: str | None
) -> None:
    first.record("page", "x" * 1_001)
    key = store.keys.artifacts("r")
    if text is None:
        store.redis.hdel(key, "once/page-0")
    else:
        store.redis.hset(key, "once/page-0", text)
    lost(store)
    with pytest.raises(
        DamagedRun, match=r"step 0: the large result recorded as 'page' .*quarantined"
    ):
        journal(store)


def test_a_damaged_run_is_named(store: Store, first: StoreJournal) -> None:
    store.redis.hset(store.keys.run("r"), "attempt", "x")
    for call in (lambda: first.intend(FIRST), lambda: first.record("charge", "1")):
        with pytest.raises(DamagedRun, match=r"run r, step 0: .* damaged"):
            call()


def bent(
    field: str, change: Callable[[str], str | None]
) -> Callable[[dict[str, str]], tuple[str, str | None]]:
    return lambda fields: (field, change(fields[field]))


@pytest.mark.parametrize(
    "damage",
    [
        bent("intent", lambda text: text.replace("aaaa", "aaab")),
        bent("intent", lambda text: text.partition("\n")[2]),
        bent("intent", lambda text: ""),
        bent("intent", lambda text: None),
        bent("o:charge", lambda text: text + "0"),
        bent("o:charge", lambda text: ""),
        bent("o:charge", lambda text: None),
        bent("once", lambda text: text + "x"),
        bent("once", lambda text: None),
        lambda fields: ("o:other", fields["o:charge"]),
    ],
)
def test_what_is_not_as_it_was_written_down_quarantines_the_run(
    store: Store, first: StoreJournal, damage: Any
) -> None:
    """Else a command would be repeated silently, or one step would get the result of another."""
    first.intend(FIRST)
    first.record("charge", "1")
    field, text = damage(hash_of(store))
    if text is None:
        store.redis.hdel(store.keys.run("r"), field)
    else:
        store.redis.hset(store.keys.run("r"), field, text)
    lost(store)
    with pytest.raises(
        DamagedRun, match=r"run r, step 0: .*(quarantined|not those that were listed)"
    ):
        journal(store)
