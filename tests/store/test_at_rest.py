"""At rest a run takes little memory: no message, and a hash that the server keeps in its short
form.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.worker.store import Store
from tests.support.runs import (
    LEASE,
    claim,
    commit_end,
    fail_round,
    hash_of,
    messages,
    new_run,
    park,
    pause_here,
    pause_next,
    phase,
    resume,
    retry,
    signal,
    stop,
    sweep_after,
    wake,
)

REST: dict[str, Callable[[Store], object]] = {
    "interrupted": lambda store: pause_here(store, claim(store)),
    "stopped": stop,
    "parked": lambda store: park(store, claim(store), "1", {"paid": 1}, None),
    "completed": lambda store: commit_end(store, claim(store)),
    "errored": lambda store: fail_round(store, claim(store), fatal=1),
}
#: More than Lua's unpack is given at once.
MANY = {f"v:{place}": str(place) for place in range(450)}


@pytest.mark.parametrize("where", REST)
def test_a_run_at_rest_has_no_message_stored(store: Store, where: str) -> None:
    new_run(store)
    REST[where](store)
    assert (phase(store), hash_of(store)["message"]) == (where, "")


def test_a_question_that_answers_itself_keeps_the_message_that_goes_on_with_it(
    store: Store,
) -> None:
    new_run(store)
    pause_next(store, claim(store), i_wait=str(LEASE), i_default="1")
    assert hash_of(store)["message"] == "r/1/1"
    assert sweep_after(store, LEASE) == [("r", "answered")]
    assert messages(store, "executor") == ["r/1/1"]


@pytest.mark.parametrize("where", REST)
def test_a_run_at_rest_takes_less_memory(store: Store, where: str) -> None:
    """A hash that has ever had a long value, such as a real message, stays a table until it is made
    again.
    """
    key = store.keys.run(new_run(store))
    store.redis.hset(key, "message", "x" * 1000)
    assert store.redis.object("encoding", key) == "hashtable"
    REST[where](store)
    assert store.redis.object("encoding", key) == "listpack"


@pytest.mark.parametrize("where", REST)
def test_a_run_at_rest_keeps_all_that_is_its_own(store: Store, where: str) -> None:
    new_run(store, fields=MANY)
    before = hash_of(store)
    REST[where](store)
    after = hash_of(store)
    kept = {
        "id",
        "nonce",
        "goal",
        "inputs",
        "flow",
        "queue",
        "retention",
        "resend",
        "created_at",
        "schema",
        *MANY,
    }
    assert {name: after.get(name) for name in kept} == {name: before[name] for name in kept}


@pytest.mark.parametrize("where", REST)
def test_a_run_at_rest_keeps_nothing_that_is_written_anew_when_it_goes_on(
    store: Store, where: str
) -> None:
    new_run(store)
    running = {"number", "grace", "queued_at"}
    assert running <= set(hash_of(store))
    REST[where](store)
    assert not running & set(hash_of(store))
    if where == "parked":
        signal(store)
        assert wake(store) == "queued"
    elif where != "completed":
        assert (retry if where == "errored" else resume)(
            store, **({"answer": "1"} if where == "interrupted" else {})
        ) == ["queued"]
        assert running <= set(hash_of(store))
