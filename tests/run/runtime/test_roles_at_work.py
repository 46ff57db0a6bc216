"""The users of config/redis.acl do their work on a real server: a worker's, a submitter's, an
onlooker's, an administrator's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import AccessDenied, Client, StoreUnavailable
from perdure.worker.cli.main import run as perdure
from perdure.worker.client.tokens import Tokens
from perdure.worker.features.notifications.client import Notifications
from perdure.worker.features.notifications.event_finder import EventFinder
from perdure.worker.features.notifications.notification import moment
from perdure.worker.features.notifications.records import NotificationRecords
from perdure.worker.features.notifications.rules import NotificationRule
from perdure.worker.store import Claim
from perdure.worker.store.tables import SignInCodes
from tests.support.acl_roles import FLOWS, as_role, refused
from tests.support.acl_server import LockedServer, locked, password
from tests.support.redis_servers import until
from tests.support.runs import commit_end, fail_round, try_claim

__all__ = ["as_role", "locked"]


def test_a_worker_notifies_an_administrator_sends_again_and_a_reader_looks(
    locked: LockedServer, as_role: Any
) -> None:
    worker, admin, reader = as_role("worker"), as_role("admin"), as_role("reader")
    refused(locked)
    records, store = NotificationRecords(worker._store), worker._store
    rule = NotificationRule(on=("ended", "waiting"), command=("true",))
    finder = EventFinder(store, records, {"ops": rule}, lambda run_id: None)
    assert records.hold("w", 10_000) and finder.look() == 0
    gone = admin.submit("ledger", "g", {"rounds": 1})
    admin.request_stop(gone.id)
    until(lambda: finder.look() == 1, "the stop")
    [found] = Notifications(reader).waiting()
    records.postpone(found.failed("why", moment(store.time())), store.time())
    records.give_up(found, store.time())
    assert [each.id for each in Notifications(reader).dead()] == [found.id]
    Notifications(admin).send_again([found.id])
    assert records.due("ops", store.time(), 5) == [found.id]
    records.give_up(found, store.time())
    Notifications(admin).delete([found.id])
    records.delivered(found, store.time())
    records.forget_done(store.time() + 1)
    records.let_go("w")
    SignInCodes(store).put("0a", "token", 60_000)
    assert SignInCodes(admin._store).take("0a") == "token"
    assert SignInCodes(admin._store).take("0a") is None
    admin.delete(gone.id)
    assert refused(locked) == set()


#: An administrator's own rights on notes.
OF_NOTES = ("read notes", "put a note", "forget notes")


def asked(client: Client, run_id: str) -> dict[str, Callable[[], object]]:
    """Return every change that a client can make."""
    return {
        "submit": lambda: client.submit("ledger", "g", {"rounds": 1}, run_id="mine"),
        "stop": lambda: client.request_stop(run_id),
        "stop now": lambda: client.request_stop(run_id, "now"),
        "resume": lambda: client.resume(run_id),
        "delete": lambda: client.delete(run_id),
        "signal": lambda: client.signal(run_id, "paid"),
        "pause": lambda: client.pause_flow("ledger"),
        "unpause": lambda: client.unpause_flow("ledger"),
        "read notes": lambda: client.notes("user:ada"),
        "put a note": lambda: client.put_note("user:ada", "x"),
        "forget notes": lambda: client.forget_notes("user:ada"),
    }


@pytest.mark.parametrize(
    ("role", "denied"),
    [
        (
            "reader",
            {
                "submit",
                "stop",
                "stop now",
                "resume",
                "delete",
                "signal",
                "pause",
                "unpause",
                *OF_NOTES,
            },
        ),
        ("producer", {"delete", "pause", "unpause", *OF_NOTES}),
    ],
)
def test_what_a_role_may_not_do_changes_nothing_and_is_a_clear_error(
    locked: LockedServer, as_role: Any, role: str, denied: set[str]
) -> None:
    admin, client = as_role("admin"), as_role(role)
    run_id = admin.submit("ledger", "g", {"rounds": 1}).id
    admin.request_stop(run_id)
    admin.pause_flow("ledger")
    actions = asked(client, run_id)
    with locked.login("operator") as operator:
        before = {key: operator.dump(key) for key in operator.scan_iter()}
        for name in denied:
            with pytest.raises(
                AccessDenied, match=f"refuses the user '{role}'.*docs/operations/security.md"
            ) as error:
                actions[name]()
            assert isinstance(error.value, StoreUnavailable) and password(role) not in str(
                error.value
            )
            assert {key: operator.dump(key) for key in operator.scan_iter()} == before, name
    admin.unpause_flow("ledger")
    admin.delete(run_id)


def test_the_command_line_says_what_the_server_refuses(
    locked: LockedServer, monkeypatch: Any, capsys: Any
) -> None:
    def said(role: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setenv("PERDURE_REDIS_URL", locked.url(role))
        code = perdure(list(arguments))
        told = capsys.readouterr()
        assert password(role) not in told.out + told.err and "Traceback" not in told.err
        return code, told.out + told.err

    monkeypatch.setenv("PERDURE_FLOW_MODULES", FLOWS)
    assert said("producer", "submit", "ledger", "g", "--input", "rounds=1", "--id", "r")[0] == 0
    simple = (["list"], ["inbox"], ["doctor"], ["workers"], ["flows"])
    for looks in (
        *simple,
        ["show", "r"],
        ["why", "r"],
        ["doctor", "--json"],
        ["show", "r", "--json"],
    ):
        for role in ("reader", "producer"):
            assert said(role, *looks)[0] == 0, looks
    for changes in (
        ["stop", "r"],
        ["submit", "ledger", "g", "--input", "rounds=1"],
        ["flows", "pause", "ledger"],
    ):
        code, text = said("reader", *changes)
        assert code == 8 and "refuses the user 'reader'" in text
    assert said("producer", "stop", "r")[0] == 0
    code, text = said("producer", "delete", "r")
    assert code == 8 and "(delete_run)" in text
    assert said("admin", "delete", "r")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("login", ["reader:wrong", "nobody:x", ":x", ""])
def test_a_wrong_login_is_a_clear_error_and_not_a_missing_server(
    locked: LockedServer, monkeypatch: Any, capsys: Any, login: str
) -> None:
    url = f"unix://{login}@{locked.socket}" if login else f"unix://{locked.socket}"
    monkeypatch.setenv("PERDURE_REDIS_URL", url)
    assert perdure(["list"]) == 8
    assert f"refuses the user '{login.partition(':')[0] or 'default'}'" in capsys.readouterr().err
    client = Client(url)
    with pytest.raises(AccessDenied):
        client.runs()
    with pytest.raises(AccessDenied):
        client.doctor()
    client.close()


def test_a_login_taken_away_is_an_error_at_once(locked: LockedServer, as_role: Any) -> None:
    producer = as_role("producer")
    run_id = producer.submit("ledger", "g", {"rounds": 1}).id
    with locked.login("operator") as operator:
        operator.execute_command("ACL", "SETUSER", "producer", "-hgetall")
        try:
            with pytest.raises(AccessDenied):
                producer.get(run_id)
            with pytest.raises(AccessDenied):
                producer.runs()
            operator.execute_command("ACL", "SETUSER", "producer", "-hmget")
            with pytest.raises(AccessDenied):
                producer._store.reads.some_fields([run_id], ["phase"])
        finally:
            operator.execute_command("ACL", "SETUSER", "producer", "+hgetall", "+hmget")


def test_a_producer_signals_and_a_worker_plays_what_waited(
    locked: LockedServer, as_role: Any
) -> None:
    producer = as_role("producer")
    run_id = producer.submit("ledger", "g", {"rounds": 1}).id
    assert producer.signal(run_id, "paid", 1, key="event").number == 1
    assert producer.signal(run_id, "paid", 1, key="event").number == 1
    assert as_role("admin").signal(run_id, "paid", 2).number == 2


def claimed(worker: Client, run_id: str) -> Claim:
    granted = try_claim(worker._store, run_id, known=("ledger",))
    assert isinstance(granted, Claim)
    return granted


def test_a_producer_and_an_admin_use_topics_and_a_worker_ends_their_runs(
    locked: LockedServer, as_role: Any
) -> None:
    refused(locked)
    producer, admin, worker = as_role("producer"), as_role("admin"), as_role("worker")
    assert producer.signal(topic="order:1", name="paid", key="k").status == "kept"
    run_id = producer.submit("ledger", "g", {"rounds": 1}, topic="order:1").id
    assert admin.signal(topic="order:1", name="paid", key="k").run_id == run_id
    commit_end(worker._store, claimed(worker, run_id))
    assert producer.signal(topic="order:1", name="paid").status == "kept"
    run_id = producer.submit("ledger", "g", {"rounds": 1}, topic="order:1").id
    fail_round(worker._store, claimed(worker, run_id), fatal=1)
    producer.retry(run_id)
    producer.request_stop(run_id)
    admin.delete(run_id)
    assert admin.signal(topic="order:1", name="paid").status == "kept"
    assert refused(locked) == set()


def test_who_may_only_look_lists_a_submitters_runs_though_some_are_gone(
    locked: LockedServer, as_role: Any
) -> None:
    producer, reader, admin = as_role("producer"), as_role("reader"), as_role("admin")
    gone, stays = (
        producer.submit("ledger", "g", {"rounds": 1}, submitted_by="ann").id for _ in range(2)
    )
    producer.request_stop(gone)
    admin.delete(gone)
    for each in (reader, producer, admin):
        assert [run.id for run in each.runs(submitted_by="ann")] == [stays]


def test_tokens_are_for_the_login_of_the_control_room_alone(
    locked: LockedServer, as_role: Any
) -> None:
    refused(locked)
    tokens = Tokens(as_role("admin"))
    made = tokens.create("ann", ["read"])
    assert (
        tokens.find(made.text) == made.token
        and tokens.all() == [made.token]
        and tokens.any()
        and tokens.signing_key()
    )
    assert refused(locked) == set()
    for role in ("producer", "worker", "reader"):
        theirs = Tokens(as_role(role))
        for look in (
            theirs.all,
            theirs.any,
            theirs.signing_key,
            lambda theirs=theirs: theirs.create("eve", ["admin"]),
        ):
            with pytest.raises(AccessDenied):
                look()
    tokens.sign_everybody_out()
    tokens.revoke(made.token.id)
    assert tokens.all() == []
