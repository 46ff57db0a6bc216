"""submit_run: a run is made once, and its first round is handed over in the same write."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Client
from perdure.worker.store import Store
from tests.support.redis_commands import monitored
from tests.support.runs import (
    GRACE,
    START,
    assert_lawful,
    claim,
    commit_end,
    due,
    events,
    everything,
    hash_of,
    indexes,
    later,
    messages,
    new_run,
    phase,
    stop,
    submit,
)


def test_an_acknowledged_submit_has_its_hash_its_message_and_its_promise(store: Store) -> None:
    assert submit(store) == ("ok", "r")
    fields = hash_of(store)
    assert {name: fields[name] for name in ("epoch", "step", "token", "attempt", "phase")} == {
        "epoch": "0", "step": "0", "token": "0", "attempt": "0", "phase": "queued",
    }  # fmt: skip
    assert messages(store) == ["r/0/0"] == [fields["message"]]
    assert due(store) == START + GRACE
    assert indexes(store) == ["live"]
    assert [event["type"] for event in events(store)] == ["submitted"]


def test_a_submit_repeated_with_its_nonce_changes_nothing(store: Store) -> None:
    new_run(store)
    before = everything(store)
    later(store, 1)
    assert submit(store) == ("ok", "r")
    assert everything(store) == before


def test_a_submit_repeated_after_the_run_has_gone_on_changes_nothing(store: Store) -> None:
    new_run(store)
    commit_end(store, claim(store))
    before = everything(store)
    assert submit(store) == ("ok", "r")
    assert everything(store) == before


def test_a_run_id_in_use_is_refused_to_another_submission(store: Store) -> None:
    new_run(store)
    before = everything(store)
    assert submit(store, nonce="another") == ("exists", "r")
    assert everything(store) == before


def test_the_same_key_with_the_same_content_gets_the_same_run(store: Store) -> None:
    new_run(store, "a", idempotency_key="k", content="c1")
    before = everything(store)
    assert submit(store, "b", idempotency_key="k", content="c1") == ("existing", "a")
    assert everything(store) == before


def test_the_same_key_with_other_content_is_a_conflict(store: Store) -> None:
    new_run(store, "a", idempotency_key="k", content="c1")
    before = everything(store)
    assert submit(store, "b", idempotency_key="k", content="c2") == ("conflict", "a")
    assert everything(store) == before


def test_a_submit_with_a_key_repeated_with_its_nonce_gets_its_first_reply(store: Store) -> None:
    first = submit(store, "a", idempotency_key="k", content="c1")
    before = everything(store)
    assert submit(store, "a", idempotency_key="k", content="c1") == first == ("ok", "a")
    assert everything(store) == before


def test_a_run_with_a_start_time_waits_for_it_without_a_message(store: Store) -> None:
    new_run(store, phase="waiting", delay=60_000)
    assert phase(store) == "waiting" and messages(store) == []
    assert due(store) == START + 60_000 == int(hash_of(store)["not_before"])


def test_a_run_with_a_deadline_is_due_at_it_where_that_is_sooner(store: Store) -> None:
    new_run(store, deadline=500)
    assert due(store) == START + 500


def test_a_run_that_pauses_before_its_first_node_starts_interrupted(store: Store) -> None:
    new_run(store, phase="interrupted")
    fields = hash_of(store)
    assert (fields["status"], fields["interrupted_node"]) == ("interrupted_before", "Controller")
    assert messages(store) == [] and due(store) is None
    assert_lawful(store)


def test_stop_before_start_stops_it(store: Store) -> None:
    new_run(store)
    assert stop(store)[0] == "stopped"
    assert phase(store) == "stopped" and due(store) is None


def test_a_queue_that_is_no_list_of_the_broker_is_refused(store: Store) -> None:
    before = everything(store)
    assert submit(store, fields={"queue": "elsewhere"}) == ("unknown_queue", "elsewhere")
    assert everything(store) == before


@pytest.mark.parametrize("goal", ["g", "two\nlines, and \x1f", "gr\u00fc\u00df dich"], ids=ascii)
@pytest.mark.parametrize(
    "options",
    [{}, {"not_before": 60}, {"interrupt_before": ["Controller"]}],
    ids=["queued", "waiting", "interrupted"],
)
def test_a_submission_is_told_what_it_made(
    client: Client, goal: str, options: dict[str, Any]
) -> None:
    made = client.submit(
        "countdown",
        goal,
        {"rounds": 2},
        labels={"team": "a"},
        deadline=600,
        budgets={"cycles": 5},
        **options,
    )
    assert made == client.get(made.id)
    assert made.goal == goal


def test_a_submission_is_told_in_the_same_exchange(client: Client) -> None:
    client.get(client.submit("countdown", "g").id)  # connections are open
    with monitored(client._store) as sent:
        client.submit("countdown", "g", {"rounds": 2})
    assert sent == {"submit_run": 1}


def test_a_run_with_a_deadline_is_due_at_its_next_look_before_that(store: Store) -> None:
    new_run(store, deadline=1_000_000)
    assert due(store) == START + GRACE


def test_a_fork_begins_at_its_step_with_its_turns_and_artifacts(store: Store) -> None:
    artifacts = {f"a{number}": "x" for number in range(3)}
    turns = [f"turn {number}" for number in range(450)]
    assert submit(
        store, fields={"turns": "450"}, step=16, turns=turns, artifacts=artifacts
    ) == ("ok", "r")  # fmt: skip
    assert hash_of(store)["step"] == "16" and messages(store) == ["r/0/16"]
    assert store.reads.memory("r") == turns and store.reads.artifacts("r") == dict.fromkeys(
        artifacts, 1
    )
    assert [event["step"] for event in events(store)] == ["16"]
    granted = claim(store, step=16)
    assert (granted.turns, granted.fields["step"]) == (450, "16")
    assert_lawful(store)


def test_a_fork_that_is_submitted_again_with_its_nonce_has_its_turns_once(store: Store) -> None:
    for _ in range(2):
        assert submit(store, step=2, turns=["one", "two"], fields={"turns": "2"}) == ("ok", "r")
    assert store.reads.memory("r") == ["one", "two"]
