"""The rights that the facts of an operation give a caller over HTTP, also without a route."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Client, RunNotFound, Settings
from perdure.worker.errors import Conflict, MailboxFull, Taken
from perdure.worker.operations.operation import OPERATIONS, Owner
from perdure.worker.web import Caller, Scope
from perdure.worker.web.auth.authenticate import Forbidden
from perdure.worker.web.auth.own_names import errors_name
from perdure.worker.web.auth.permissions import AuthorizedClient
from tests.support.cases import EachCase, cases_of
from tests.support.example_flows import waits  # noqa: F401 -- registers flows
from tests.support.runs_in_every_status import play

#: Arguments without a default, by their names.
SAMPLES: dict[str, Any] = {
    "run_id": "bobs", "run": "bobs", "at": 0, "flow": "countdown", "text": "b", "name": "x",
    "step": 0, "words": "go on", "number": 1, "namespace": "user:ann", "thread": "t",
}  # fmt: skip


@pytest.fixture
def bobs(client: Client) -> Client:
    client.submit("countdown", "g", run_id="bobs", submitted_by="bob")
    return client


def called(client: Client, scopes: set[Scope], name: str) -> Any:
    """Call an operation as ann, with sample arguments."""
    caller = AuthorizedClient(client, Caller("ann", frozenset(scopes)))
    parameters = OPERATIONS[name].signature.parameters.values()
    needed = {
        each.name: SAMPLES[each.name]
        for each in parameters
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    if "run_id" in OPERATIONS[name].signature.parameters:
        needed["run_id"] = SAMPLES["run_id"]
    positional = [needed.pop("run_id")] if name == "add" else []
    result = getattr(caller, name)(*positional, **needed)
    return list(result) if hasattr(result, "__next__") else result


def test_a_caller_without_the_scope_is_refused(each_case: EachCase, bobs: Client) -> None:
    def check(name: str) -> None:
        others = set(Scope) - {
            Scope.ADMIN,
            OPERATIONS[name].scope,
            Scope.READ_ALL,
            Scope.ANSWER_ALL,
        }
        with pytest.raises(Forbidden):
            called(bobs, others, name)

    each_case(cases_of(sorted(OPERATIONS)), check)


def test_a_run_of_another_owner_is_not_found(each_case: EachCase, bobs: Client) -> None:
    of_run = [
        name
        for name, operation in OPERATIONS.items()
        if operation.scope is not Scope.ADMIN
        and (operation.owner is Owner.RUN or "run" in operation.signature.parameters)
    ]
    assert len(of_run) > 20

    def check(name: str) -> None:
        with pytest.raises(RunNotFound):
            called(bobs, {Scope.READ, OPERATIONS[name].scope}, name)

    each_case(cases_of(sorted(of_run)), check)


def test_runs_of_all_owners_need_the_scope_for_them(each_case: EachCase, bobs: Client) -> None:
    def check(name: str) -> None:
        with pytest.raises(Forbidden):
            called(bobs, {Scope.READ, OPERATIONS[name].scope}, name)
        assert called(bobs, {Scope.READ_ALL}, name) == ["bobs"]

    each_case(
        cases_of([name for name, each in OPERATIONS.items() if each.owner is Owner.ALL]), check
    )


def test_lists_of_a_caller_have_no_runs_of_others(bobs: Client) -> None:
    ann = AuthorizedClient(bobs, Caller("ann", frozenset({Scope.READ})))
    assert not ann.runs().runs and not ann.inbox().waiting and not ann.stuck()
    assert not any(ann.status_counts().values()) and not ann.error_groups().groups
    assert not ann.runs(submitted_by="bob").runs
    with pytest.raises(RunNotFound):
        ann.inbox(below="bobs")
    with pytest.raises(RunNotFound):
        ann.runs(parent="bobs")


def test_no_operation_on_no_run_shows_a_run_of_another_owner(
    each_case: EachCase, bobs: Client
) -> None:
    store = bobs._store
    bobs.submit("countdown", "g", run_id="anns", submitted_by="ann", labels={"team": "till"})
    store.fleet.announce("w:1", {"holds": ["bobs", "gone", "anns"], "flows": {}}, store.time(), 0)

    def check(name: str) -> None:
        assert "bobs" not in repr(called(bobs, {Scope.READ}, name))

    open_ones = [
        name
        for name, each in OPERATIONS.items()
        if each.owner is Owner.NONE and each.scope is Scope.READ
    ]
    each_case(cases_of(open_ones), check)
    (worker,) = called(bobs, {Scope.READ}, "workers")
    assert worker["holds"] == ["anns"]
    (worker,) = called(bobs, {Scope.READ_ALL}, "workers")
    assert worker["holds"] == ["bobs", "gone", "anns"]


def test_a_thread_of_another_owner_is_empty(client: Client) -> None:
    ann, bob = (
        AuthorizedClient(client, Caller(name, frozenset({Scope.READ, Scope.SUBMIT})))
        for name in ("ann", "bob")
    )
    bob.send("t", "hello", "countdown")
    assert bob.conversation("t") and not ann.conversation("t")


def test_an_administrator_may_list_the_runs_of_one_owner(bobs: Client) -> None:
    admin = AuthorizedClient(bobs, Caller("root", frozenset({Scope.ADMIN})))
    assert [run.id for run in admin.runs(submitted_by="bob")] == ["bobs"]
    assert not admin.runs(submitted_by="ann").runs


def test_a_request_for_events_does_not_wait_for_the_end_of_a_run(bobs: Client) -> None:
    admin = AuthorizedClient(bobs, Caller("root", frozenset({Scope.ADMIN})))
    assert [event.type for event in admin.events("bobs")] == ["submitted"]


def test_errors_name_keys_topics_and_chats_as_the_caller_sent_them(client: Client) -> None:
    ann = AuthorizedClient(client, Caller("ann", frozenset({Scope.SUBMIT, Scope.SIGNAL})))
    ann.submit("countdown", "g", topic="order:1", idempotency_key='it\'s "k"')
    ann.send_to_chat("chat:digest", "my chat", "hello", "countdown", None, "m1")
    for number in range(100):
        ann.signal(topic="none", name="paid", payload=number)
    ann.signal(topic="kept", name="paid", payload=1, key="k")
    refused = {
        "key": (Conflict, lambda: ann.submit("countdown", "h", idempotency_key='it\'s "k"')),
        "order:1": (Taken, lambda: ann.submit("countdown", "g", topic="order:1")),
        "my chat": (
            Taken,
            lambda: ann.send_to_chat("chat:digest", "my chat", "hi", "question", None, "m2"),
        ),
        "none": (MailboxFull, lambda: ann.signal(topic="none", name="paid")),
        "kept": (Conflict, lambda: ann.signal(topic="kept", name="paid", payload=2, key="k")),
    }
    for sent, (kind, call) in refused.items():
        with pytest.raises(kind) as error:
            call()
        assert sent in str(error.value) and "ann/" not in str(error.value), sent


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see /data/b and alpha/beta", "see /data/b and alpha/beta"),
        ("the key 'a/b' is taken; a/b, a/b.", "the key 'b' is taken; b, b."),
        ("a/bc, xa/b, /a/b and a/b/c", "a/bc, xa/b, /a/b and a/b/c"),
    ],
)
def test_only_whole_names_in_an_error_are_replaced(text: str, expected: str) -> None:
    with pytest.raises(Conflict) as error, errors_name({"a/b": "b"}):
        raise Conflict(text)
    assert str(error.value) == expected


def test_a_caller_sees_topics_as_sent_and_others_see_them_as_stored(
    client: Client, settings: Settings
) -> None:
    ann = AuthorizedClient(client, Caller("ann", frozenset({Scope.SUBMIT, Scope.READ})))
    run = ann.submit("payment", "g", topic="order:1")
    play(settings, run.id)
    root = AuthorizedClient(client, Caller("root", frozenset({Scope.ADMIN})))
    for caller, topic in ((ann, "order:1"), (root, "ann/order:1")):
        [listed] = caller.runs()
        verdict = caller.why(run.id)
        shown = [caller.get(run.id).details, listed.details, verdict.details]
        assert [each["topic"] for each in shown] == [topic] * 3
        assert f" {topic}" in verdict.sentence
    assert run.details["topic"] == "order:1"
