"""I13: any operation repeated with its id changes nothing, in any state of the run.

Each story is a list of moves. Every move is sent twice in a row, and once more after each later
move: as a client library does that never saw the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.worker.store import Claim, Store
from tests.support.runs import (
    LEASE,
    everything,
    hash_of,
    later,
    message,
    pause_at,
    record,
    sweep_after,
)

Move = Callable[[Store], Any]


def submit(store: Store) -> Any:
    return store.runs.submit(
        "r", record(store), nonce="n", message=message("r", 0, 0), idempotency_key="k", content="c"
    )


def claim(step: int, epoch: int = 0, name: str = "c") -> Move:
    def move(store: Store) -> Any:
        return store.rounds.claim(
            "r",
            epoch=epoch,
            step=step,
            claim=f"{name}-{epoch}-{step}",
            owner="w",
            lease=LEASE,
            known=["ring"],
        )

    return move


def commit(kind: str, token: int, step: int = 0, epoch: int = 0) -> Move:
    known: dict[str, dict[str, Any]] = {
        "next": {
            "message": message("r", epoch, step + 1),
            "fields": {"current_node": "Executor"},
            "additions": ["turn"],
        },
        "end": {"fields": {"answer": "1"}, "additions": ["turn"]},
        "pause_next": {
            "message": message("r", epoch + 1, step + 1),
            "fields": pause_at("Executor", "before"),
            "additions": ["turn"],
        },
        "pause_here": {
            "message": message("r", epoch + 1, step),
            "fields": pause_at("Controller", "node"),
        },
        "failed": {"error": "boom", "delay": 1_000, "max_failures": 3},
        "fatal": {"error": "boom", "delay": 0, "max_failures": 3, "fatal": 1},
        "give_back": {},
        "damaged": {"error": "bad"},
    }
    options = known[kind]

    def move(store: Store) -> Any:
        named = "failed" if kind == "fatal" else kind
        return store.rounds.commit(
            "r",
            epoch=epoch,
            step=step,
            token=str(token),
            kind=named,
            idempotency_key="k",
            **options,
        )

    return move


def intend(token: int, step: int = 0, epoch: int = 0, claim: str | None = None) -> Move:
    return lambda store: (
        "intend",
        store.rounds.intend(
            "r", epoch=epoch, step=step, token=str(token), claim=claim, key=f"r:{step}:k"
        ),
    )


def once(name: str, step: int = 0) -> Move:
    return lambda store: store.rounds.record_result(
        "r", nonce="n", step=step, name=name, value=f'"{name}"'
    )


def trace(text: str) -> Move:
    return lambda store: store.runs.set_trace("r", nonce="n", trace=text)


def stop(mode: str, op: str = "stop") -> Move:
    return lambda store: store.runs.request_stop("r", op=op, mode=mode, by="ann")


def resume(
    epoch: int, op: str = "resume", interrupt: str | None = None, answer: str | None = None
) -> Move:
    def move(store: Store) -> Any:
        step = int(hash_of(store)["step"])
        sent: Any = {
            "step": step,
            "message": message("r", epoch + 1, step),
            "after": message("r", epoch + 2, step),
        }
        return store.runs.resume(
            "r", op=op, epoch=epoch, interrupt=interrupt, answer=answer, **sent
        )

    return move


def retry(epoch: int, op: str = "retry") -> Move:
    return lambda store: store.runs.retry(
        "r",
        op=op,
        epoch=epoch,
        step=0,
        message=message("r", epoch + 1, 0),
        after=message("r", epoch + 2, 0),
        idempotency_key="k",
    )


STORIES: dict[str, list[Move]] = {
    "to the end": [submit, claim(0), commit("next", 1), claim(1), commit("end", 2, step=1)],
    "failed and fatal": [
        submit,
        claim(0),
        commit("fatal", 1),
        retry(0),
        claim(0, epoch=1),
        commit("end", 2, epoch=1),
    ],
    "failed and waits": [submit, claim(0), commit("failed", 1), stop("graceful"), resume(0)],
    "given back": [submit, claim(0), commit("give_back", 1), claim(0, name="d"), commit("end", 2)],
    "damaged": [submit, claim(0), commit("damaged", 1), stop("now"), retry(0)],
    "asked here and answered": [
        submit,
        claim(0),
        commit("pause_here", 1),
        resume(0, "a", "0:0", '"yes"'),
        claim(0, epoch=1),
        commit("end", 2, epoch=1),
    ],
    "asked between and stopped": [
        submit,
        claim(0),
        commit("pause_next", 1),
        stop("now"),
        resume(0, "a"),
        resume(1, "b", "0:1", "1"),
    ],
    "stopped before the start": [
        submit,
        stop("graceful"),
        resume(0),
        stop("now", "again"),
        resume(1, "more"),
    ],
    "stopped gracefully in flight": [
        submit,
        claim(0),
        stop("graceful"),
        commit("next", 1),
        resume(0),
        claim(1, epoch=1),
    ],
    "graceful, then now": [
        submit,
        claim(0),
        stop("graceful", "s1"),
        stop("now", "s2"),
        commit("next", 1),
        resume(0),
        stop("now", "s3"),
    ],
    "fenced": [submit, claim(0), stop("now"), resume(0), commit("end", 1), stop("graceful", "s2")],
    "intended, recorded, done": [
        submit,
        claim(0),
        intend(1),
        once("a"),
        once("b"),
        commit("next", 1),
        claim(1),
        intend(2, step=1),
    ],
    "intended and lost sight of": [
        submit,
        claim(0),
        intend(1),
        commit("failed", 1),
        stop("now"),
        resume(0),
        once("late"),
    ],
    "traced": [
        submit,
        claim(0),
        trace("first"),
        trace("second"),
        commit("next", 1),
        claim(1),
        trace("third"),
        commit("end", 2, step=1),
    ],
    "refused": [
        submit,
        resume(0, "r1"),
        retry(0, "t1"),
        claim(0),
        resume(0, "r2"),
        commit("end", 1),
        resume(0, "r3"),
        retry(0, "t2"),
        stop("now"),
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_every_move_sent_twice_changes_nothing_and_gets_the_same_reply(
    store: Store, story: str
) -> None:
    for move in STORIES[story]:
        first = move(store)
        before = everything(store)
        later(store, 1)
        again = move(store)
        assert everything(store) == before
        assert essence(again) == essence(first)


@pytest.mark.parametrize("story", STORIES)
def test_a_repeat_that_comes_after_others_changes_nothing(store: Store, story: str) -> None:
    """The client library re-sends late: others came in between. (A worker that committed has seen
    its claim's reply: no repeat then.)
    """
    replies: list[tuple[Move, Any]] = []
    for move in STORIES[story]:
        reply = move(store)
        if isinstance(reply, tuple):
            replies = [(old, first) for old, first in replies if not isinstance(first, Claim)]
        replies.append((move, reply))
        before = everything(store)
        for old, first in replies:
            again = old(store)
            assert everything(store) == before, (
                f"a repeat changed the run; first reply {first}, again {again}"
            )


@pytest.mark.parametrize("story", STORIES)
def test_a_stop_a_resume_and_a_retry_get_their_first_reply_for_ever(
    store: Store, story: str
) -> None:
    replies: list[tuple[Move, Any]] = []
    for move in STORIES[story]:
        replies.append((move, move(store)))
        for old, first in replies:
            if isinstance(first, list):
                assert old(store) == first


def test_a_beat_and_a_sweep_sent_twice_change_nothing(store: Store) -> None:
    submit(store)
    claim(0)(store)
    sweep_after(store, 1_000)
    for repeated in (
        lambda: store.rounds.extend([("r", "1", '{"done":1}')]),
        lambda: sweep_after(store, 0),
    ):
        repeated()
        before = everything(store)
        repeated()
        assert everything(store) == before


def essence(reply: Any) -> Any:
    """Return the part of a reply that a repeat must not change.

    A claim's reply has the current time and fields; the claim itself is token, attempt, lease and
    memory. ``existing`` means the same as ``ok`` of a submission; test_submit.py checks the first
    word.
    """
    if reply == ("existing", "r"):
        return ("ok", "r")
    if isinstance(reply, Claim):
        return (
            reply.token,
            reply.attempt,
            reply.lease_until,
            reply.turns,
            reply.newest,
            reply.fields["step"],
            reply.fields["epoch"],
        )
    return reply
