"""WAIT: acknowledged writes are on replicas; if they are not, the caller gets an error."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from perdure.worker.engine.journal import StoreJournal
from perdure.worker.store import NotReplicated, Replication, Store, StoreUnavailable
from tests.support.redis_commands import monitored
from tests.support.redis_servers import until
from tests.support.runs import (
    START,
    claim,
    commit_end,
    fail_round,
    hash_of,
    new_run,
    phase,
    resume,
    retry,
    stop,
    submit,
)
from tests.support.sentinels import Watched, watched


@pytest.fixture(scope="module")
def pair() -> Iterator[Watched]:
    """A master and one replica."""
    with watched(servers=2, sentinels=0) as running:
        yield running


@pytest.fixture
def store(pair: Watched, prefix: str) -> Iterator[Store]:
    with waiting(pair, prefix) as made:
        yield made


@contextmanager
def waiting(pair: Watched, prefix: str, replicas: int = 1, seconds: float = 2.0) -> Iterator[Store]:
    made = Store(
        f"redis://127.0.0.1:{pair.servers[0]}",
        prefix,
        now=START,
        replication=Replication(replicas, seconds),
    )
    yield made
    made.close()


@contextmanager
def replica_away(pair: Watched) -> Iterator[None]:
    """Suspend the replica, still unknown to the server."""
    pair.signal(pair.servers[1], signal.SIGSTOP)
    try:
        yield
    finally:
        pair.signal(pair.servers[1], signal.SIGCONT)
        until(lambda: caught_up(pair), "the replica to catch up")


def caught_up(pair: Watched) -> bool:
    with pair.client(pair.servers[0]) as client:
        client.set("probe", "1")
        return client.wait(1, 100) == 1


def on_replica(pair: Watched, store: Store) -> dict[str, str]:
    """Return the replica's current fields of the run."""
    with pair.client(pair.servers[1]) as client:
        return client.hgetall(store.keys.run("r"))


def test_what_was_acknowledged_is_on_the_replica(pair: Watched, store: Store) -> None:
    new_run(store)
    assert on_replica(pair, store)["phase"] == "queued"
    assert stop(store)[0] == "stopped"
    assert on_replica(pair, store)["phase"] == "stopped"
    assert resume(store)[0] == "queued"
    assert on_replica(pair, store)["phase"] == "queued"
    assert fail_round(store, claim(store), max_failures=1)[0] == "ok"
    assert retry(store)[0] == "queued"
    assert on_replica(pair, store)["phase"] == "queued"
    stop(store, op="stop-2")
    assert store.runs.delete("r")[0] == "ok"
    assert on_replica(pair, store) == {}


def test_what_the_replica_did_not_get_in_time_is_done_and_not_acknowledged(
    pair: Watched, prefix: str
) -> None:
    with waiting(pair, prefix, seconds=0.05) as store, replica_away(pair):
        with pytest.raises(
            NotReplicated,
            match=r"run r: submit_run was done .* 0 of 1 replicas had it within 0.05 s",
        ):
            submit(store)
        assert phase(store) == "queued"
        with pytest.raises(NotReplicated, match="request_stop"):
            stop(store)
        assert phase(store) == "stopped"
        with pytest.raises(NotReplicated, match="resume_run"):
            resume(store)
        assert phase(store) == "queued"
        fail_round(store, claim(store), max_failures=1)
        with pytest.raises(NotReplicated, match="retry_run"):
            retry(store)
        assert phase(store) == "queued"
        with pytest.raises(NotReplicated, match="request_stop"):
            stop(store, op="stop-2")
        with pytest.raises(NotReplicated, match="delete_run"):
            store.runs.delete("r")
        assert store.reads.fields("r") is None


def test_an_operation_sent_again_writes_nothing_and_is_still_not_acknowledged_before_the_replica_has_it(
    pair: Watched, prefix: str
) -> None:
    """WAIT alone would say on Valkey that all is well: the connection that asks again has written
    nothing itself.
    """
    with waiting(pair, prefix, seconds=0.05) as store, replica_away(pair):
        with pytest.raises(NotReplicated):
            submit(store, idempotency_key="k", content="c")
        with waiting(pair, prefix, seconds=0.05) as another:
            with pytest.raises(NotReplicated, match="'ok'"):
                submit(
                    another, idempotency_key="k", content="c"
                )  # the same call, after a lost reply
            with pytest.raises(NotReplicated, match="'existing'"):
                submit(another, "other", idempotency_key="k", content="c")
    with waiting(pair, prefix) as later:
        assert submit(later, "third", idempotency_key="k", content="c") == ("existing", "r")
        assert on_replica(pair, later)["phase"] == "queued"


def test_more_replicas_than_there_are_acknowledge_nothing(pair: Watched, prefix: str) -> None:
    until(lambda: caught_up(pair), "the replica to catch up")
    with (
        waiting(pair, prefix, replicas=2, seconds=0.5) as store,
        pytest.raises(NotReplicated, match="1 of 2 replicas had it"),
    ):
        submit(store)


def test_a_command_does_not_begin_before_replicas_know_of_its_intent(
    pair: Watched, prefix: str
) -> None:
    with waiting(pair, prefix, seconds=5) as store:
        new_run(store)
        granted = claim(store)
        StoreJournal(store, granted, 1_000).intend("r:0:aaaa")
        assert "r:0:aaaa" in on_replica(pair, store)["intent"]
    with waiting(pair, prefix, seconds=0.05) as store, replica_away(pair):
        told: list[Exception] = []
        with pytest.raises(NotReplicated):
            StoreJournal(store, granted, 1_000, told.append).intend("r:0:bbbb")
        assert [type(error) for error in told] == [NotReplicated], (
            "what the round hands back must not be committed"
        )


def test_no_round_waits_for_a_replica(pair: Watched, store: Store, prefix: str) -> None:
    new_run(store)
    with waiting(pair, prefix, seconds=0.05) as hasty:
        with replica_away(pair), monitored(hasty) as counts:
            assert commit_end(hasty, claim(hasty))[0] == "ok"
        assert hash_of(hasty)["phase"] == "completed"
        assert counts["commit_round"] == 1 and counts["WAIT"] == 0


def test_a_server_that_never_saw_the_scripts_gets_them(pair: Watched, store: Store) -> None:
    store.redis.script_flush()
    new_run(store)
    assert on_replica(pair, store)["phase"] == "queued"


def test_an_error_of_the_transition_is_told_as_without_waiting(pair: Watched, store: Store) -> None:
    store.redis.config_set("min-replicas-to-write", "2")
    try:
        with pytest.raises(StoreUnavailable, match="NOREPLICAS"):
            submit(store)
    finally:
        store.redis.config_set("min-replicas-to-write", "0")
    assert store.reads.fields("r") is None
