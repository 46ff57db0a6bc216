"""Notifications, over a real server and a receiver that verifies each signature with a library of
others.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx2
import pytest

from perdure import Client
from perdure.worker.app import make_app
from perdure.worker.cli.main import run as perdure
from perdure.worker.client.remote import RemoteClient
from perdure.worker.errors import NotificationNotFound
from perdure.worker.features.notifications.client import Notifications
from perdure.worker.features.notifications.notification import moment, trial_notification
from perdure.worker.features.notifications.notifier import Notifier
from perdure.worker.features.notifications.records import NotificationRecords
from perdure.worker.features.notifications.rules import NotificationRule
from perdure.worker.features.notifications.senders import NotificationSender
from perdure.worker.metrics.exposition import exposition
from perdure.worker.settings import Settings
from tests.support.in_process_server import csrf_of, site_on
from tests.support.notified_runs import Notifies, notifying, quick, receiver
from tests.support.pending_interrupts import ASKED
from tests.support.redis_servers import CrashableServer, until
from tests.support.runs import claim, commit_end, fail_round, pause_here
from tests.support.threaded_server import serving
from tests.support.webhook_receiver import Receiver, listening

__all__ = ["notifying", "quick", "receiver"]

#: Names the secret in rules.
SECRET_NAME = "env:OPS_WEBHOOK_SECRET"
ALL = ["waiting", "in_doubt", "ended"]


def to(receiver: Receiver, on: list[str] | str = ALL, **more: Any) -> dict[str, Any]:  # type: ignore[assignment]
    """Return a rule that sends to the receiver."""
    return {"on": on, "webhook": receiver.url, "secret": SECRET_NAME, **more}


def ended(client: Client, run_id: str, **options: Any) -> None:
    """Make a completed run."""
    client.submit("countdown", "count", {"rounds": 1}, run_id=run_id, **options)
    assert commit_end(client._store, claim(client._store, run_id, known=("countdown",)))[0] == "ok"


def errored(client: Client, run_id: str) -> None:
    client.submit("countdown", "count", {"rounds": 1}, run_id=run_id)
    granted = claim(client._store, run_id, known=("countdown",))
    assert fail_round(client._store, granted, max_failures=1) == ("ok", "errored")


def asking(client: Client, run_id: str, kind: str) -> None:
    client.submit("countdown", "count", {"rounds": 1}, run_id=run_id)
    asks(client, run_id, kind)


def asks(client: Client, run_id: str, kind: str) -> None:
    asked = ASKED[kind]
    fields = {"i_kind": asked["kind"], "i_reason": asked["reason"], "i_default": "null"}
    if asked["data"] is not None:
        fields["i_data"] = json.dumps(asked["data"])
    granted = claim(client._store, run_id, known=("countdown",))
    assert pause_here(client._store, granted, **fields) == ("ok", "interrupted")


def test_each_event_is_sent_once_with_what_happened(
    client: Client, receiver: Receiver, notifying: Notifies
) -> None:
    ended(client, "before")  # the rule is younger
    until(
        lambda: client._store.time() > int(client._store.reads.fields("before")["ended_at"]) + 1,
        "time",
    )  # type: ignore[index]
    notifying(ops=to(receiver))
    ended(client, "done", labels={"team": "a"}, submitted_by="ann")
    errored(client, "bad")
    asking(client, "approve", "approval")
    asking(client, "doubt", "in_doubt")
    client.submit("countdown", "count", run_id="gone")
    client.request_stop("gone", "now", "not wanted")
    until(lambda: len(receiver.accepted) == 5, "five webhooks")
    found = {data["data"]["run_id"]: data for _, data in receiver.accepted}
    assert {run: data["type"] for run, data in found.items()} == {
        "done": "run.completed", "bad": "run.errored", "approve": "run.waiting",
        "doubt": "run.in_doubt", "gone": "run.stopped",
    }  # fmt: skip
    assert found["done"]["data"] == {
        "run_id": "done", "flow": "countdown", "goal": "count", "status": "completed", "finished": True,
        "labels": {"team": "a"}, "submitted_by": "ann", "epoch": 0, "error": None, "in_doubt": None,
        "question": None, "link": "https://x.example/p/runs/done",
    }  # fmt: skip
    assert found["bad"]["data"]["error"] == "boom"
    assert found["approve"]["data"]["question"]["text"] == "approve the command remove?"
    assert found["approve"]["data"]["question"]["command"] == "remove"
    # Neither a second look nor a second worker sends it again.
    notifying(ops=to(receiver))
    client.resume("approve", "approve")
    asks(client, "approve", "question")
    until(lambda: len(receiver.accepted) == 6, "the second question")
    assert receiver.accepted[5][1]["data"]["question"]["text"] == "which of the two?"
    assert len({each for each, _ in receiver.accepted}) == 6


def test_a_rule_chooses_by_flow_label_submitter_and_event(
    client: Client, receiver: Receiver, notifying: Notifies
) -> None:
    notifying(
        flow=to(receiver, "completed", flow="count*"),
        other=to(receiver, "completed", flow=["x", "y*"]),
        label=to(receiver, "completed", labels={"team": "a"}),
        person=to(receiver, "completed", submitter=["ann", "bob"]),
        event=to(receiver, "errored"),
        child=to(receiver, "waiting"),
    )
    ended(client, "first", labels={"team": "a", "x": "y"}, submitted_by="ann")
    ended(client, "second", labels={"team": "b"}, submitted_by="eve")
    until(lambda: len(receiver.accepted) == 4, "four")
    runs = [data["data"]["run_id"] for _, data in receiver.accepted]
    assert sorted(runs) == ["first", "first", "first", "second"]


def test_a_receiver_that_fails_gets_the_notification_again_under_the_same_id(
    client: Client, receiver: Receiver, notifying: Notifies
) -> None:
    receiver.replies = [500, 302, 400, 204]
    notifying(ops=to(receiver))
    ended(client, "r")
    until(lambda: len(receiver.accepted) == 1, "the delivery")
    assert len(receiver.ids) == 4 and len(set(receiver.ids)) == 1
    until(lambda: Notifications(client).waiting() == [], "its record to go")


def test_while_the_receiver_is_down_notifications_wait_and_none_is_lost(
    client: Client, receiver: Receiver, notifying: Notifies, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Receiver()
    with listening(gone):
        pass
    notifying(ops=to(gone))
    for number in range(30):
        ended(client, f"r{number}")
    until(lambda: any(each.attempts for each in Notifications(client).waiting()), "an attempt")
    [first, *_] = [each for each in Notifications(client).waiting() if each.attempts]
    assert "no reply from 127.0.0.1" in (first.error or "")
    with listening(gone):
        until(lambda: len(gone.accepted) >= 30, "all thirty")
    assert {data["data"]["run_id"] for _, data in gone.accepted} == {f"r{n}" for n in range(30)}


def test_a_notification_is_dead_after_the_time_of_patience_until_it_is_sent_again(
    client: Client, receiver: Receiver, notifying: Notifies, capsys: pytest.CaptureFixture[str],
    settings: Settings, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("PERDURE_REDIS_URL", str(settings.redis_url))
    monkeypatch.setenv("PERDURE_PREFIX", settings.prefix)
    receiver.replies = [410]
    notifying(ops=to(receiver, patience=0.2))
    ended(client, "r")
    until(lambda: len(Notifications(client).dead()) == 1, "a dead one")
    receiver.replies = [503]
    ended(client, "s")
    until(lambda: len(Notifications(client).dead()) == 2, "another")
    newest, oldest = Notifications(client).dead()
    assert (oldest.attempts, oldest.error) == (1, "127.0.0.1 replied with status 410")
    # How often it was sent in that time depends on how busy the machine is.
    assert newest.attempts >= 1 and newest.dead_at is not None
    assert perdure(["notifications", "list"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(line[1], line[2], line[4]) for line in lines] == [
        ("dead", "ops", "s"),
        ("dead", "ops", "r"),
    ]
    assert perdure(["notifications", "delete", newest.id]) == 0
    assert perdure(["notifications", "delete", newest.id]) == 3
    receiver.replies = [204]
    assert perdure(["notifications", "send", oldest.id]) == 0
    until(lambda: len(receiver.accepted) == 1, "the delivery")
    until(lambda: perdure(["notifications", "send", "--all-dead", "--json"]) == 0, "nothing more")
    assert capsys.readouterr().out.endswith('{"due": 0}\n')


def test_a_rule_is_tried_from_the_command_line(
    client: Client, receiver: Receiver, notifying: Notifies, capsys: pytest.CaptureFixture[str],
    settings: Settings, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("PERDURE_REDIS_URL", str(settings.redis_url))
    monkeypatch.setenv("PERDURE_PREFIX", settings.prefix)
    notifying(ops=to(receiver))
    assert perdure(["notifications", "test", "ops"]) == 0
    assert [data["type"] for _, data in receiver.accepted] == ["test"]
    assert perdure(["notifications", "test", "opps"]) == 3
    assert "did you mean 'ops'" in capsys.readouterr().err
    receiver.replies = [500]
    assert perdure(["notifications", "test", "ops"]) == 8
    assert "replied with status 500" in capsys.readouterr().err


def test_no_webhook_goes_to_an_address_that_is_not_public(
    client: Client, receiver: Receiver, notifying: Notifies
) -> None:
    local = f"http://localhost:{receiver.port}/hook"
    named = {"named": to(receiver) | {"webhook": local}, "mapped": to(receiver) | {
        "webhook": f"http://[::ffff:127.0.0.1]:{receiver.port}/hook"}}  # fmt: skip
    notifying(private=False, ops=to(receiver), **named)
    ended(client, "r")
    until(
        lambda: sum(each.attempts > 0 for each in Notifications(client).waiting()) == 3, "attempts"
    )
    errors = {each.error for each in Notifications(client).waiting()}
    assert all("is not a public internet address" in str(error) for error in errors)
    assert receiver.ids == [] and receiver.forged == 0


def test_a_task_gets_the_notification_as_its_argument(
    client: Client, settings: Settings, notifying: Notifies
) -> None:
    queue = f"{settings.prefix}.theirs"
    notifying(
        report={"on": "ended", "task": "theirs.report", "queue": queue},
        lost={"on": "ended", "task": "theirs.report"},
    )
    ended(client, "r")
    redis: Any = client._store.redis
    until(lambda: redis.llen(queue) == 1, "the task's message")
    assert json.loads(redis.lindex(queue, 0))["headers"]["task"] == "theirs.report"
    waiting = Notifications(client).waiting
    until(
        lambda: [(each.rule, each.attempts > 0) for each in waiting()] == [("lost", True)], "both"
    )
    assert "names no queue" in str(waiting()[0].error)


def test_the_link_signs_in_once_and_not_before_a_person_presses_the_button(
    server: CrashableServer, receiver: Receiver, quick: None
) -> None:
    with site_on(server) as site:
        client = site.client
        token = site.tokens.create("ann", ["read", "answer", "sign-in"]).token
        rule = NotificationRule(**to(receiver, sign_in=token.id))
        sender = NotificationSender(make_app(client.settings), client._store, True, True)
        notifier = Notifier(
            client._store,
            {"ops": rule},
            "w",
            sender.send,
            lambda run: f"http://localhost/runs/{run}",
        )
        notifier.start()
        until(
            lambda: (
                client._store.redis.exists(client._store.keys.of_feature("notifications", "looked"))
                == 1
            ),
            "a look",
        )
        client.submit("countdown", "count", run_id="r", submitted_by="ann")
        asks(client, "r", "question")
        until(lambda: len(receiver.accepted) == 1, "the webhook")
        notifier.stop()
        link = receiver.accepted[0][1]["data"]["link"].removeprefix("http://localhost")
        for key in client._store.redis.scan_iter(match=f"{client.settings.prefix}:*"):
            assert link.partition("code=")[2].partition("&")[0] not in key
        scanner, person, second = site.asking(), site.asking(), site.asking()
        assert scanner.get(link).status_code == 200
        code = link.partition("code=")[2].partition("&")[0]
        for browser, status in ((person, 303), (second, 401)):
            csrf = csrf_of(browser, link)
            told = browser.post("/sign-in", data={"code": code, "next": "/runs/r", "csrf": csrf})
            assert told.status_code == status
        assert person.get("/runs/r").status_code == 200
        assert second.get("/runs/r").status_code == 303


def test_the_dashboard_shows_why_and_sends_again(server: CrashableServer) -> None:
    with site_on(server) as site:
        store, admin = site.client._store, site.asking(site.token("root"))
        assert "All notifications were delivered" in admin.get("/notifications").text
        records, now = NotificationRecords(store), store.time()
        made = [trial_notification("ops", f"msg_{n}", moment(now)) for n in range(3)]
        records.add(made, {"ops:ended": now}, now)
        for each in made[:2]:
            records.give_up(each.failed("<b>no reply</b>", moment(now)), now)
        page = admin.get("/notifications").text
        assert page.count("&lt;b&gt;no reply") == 2 and "msg_2" in page
        admin.headers["x-csrf-token"] = csrf_of(admin, "/notifications")
        assert admin.post("/notifications/msg_0/send").status_code == 303
        assert [each.id for each in Notifications(site.client).dead()] == ["msg_1"]
        assert admin.post("/notifications").status_code == 303
        assert len(Notifications(site.client).waiting()) == 3
        assert site.asking(site.token("ann", "read")).get("/notifications").status_code == 403


def test_a_damaged_run_is_left_out_and_the_others_are_sent(
    client: Client, receiver: Receiver, notifying: Notifies, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "perdure.notify"):
        notifying(ops=to(receiver))
        client.submit("countdown", "count", run_id="bad")
        granted = claim(client._store, "bad", known=("countdown",))
        client._store.redis.hset(client._store.keys.run("bad"), "inputs", "{")
        assert commit_end(client._store, granted)[0] == "ok"
        ended(client, "good")
        until(lambda: len(receiver.accepted) == 1, "the good one")
    assert receiver.accepted[0][1]["data"]["run_id"] == "good"
    assert "run bad: no notification" in caplog.text


def given_up(client: Client, receiver: Receiver, start: Notifies) -> str:
    """Make a notification that was given up, because its receiver said 410; return its id."""
    receiver.replies[:] = [410]
    start(ops=to(receiver))
    ended(client, "done")
    until(lambda: client.notifications.dead() != [], "its end")
    return client.notifications.dead()[0].id


def test_doctor_metrics_and_the_navigation_tell_of_what_was_given_up(
    client: Client,
    settings: Settings,
    receiver: Receiver,
    notifying: Notifies,
) -> None:
    def finding() -> Any:
        return next(each for each in client.doctor() if each.check == "notifications")

    assert finding().level.value == "ok"
    lost = given_up(client, receiver, notifying)
    assert finding().level.value == "warning"
    assert "1 notification could not be delivered" in finding().sentence
    text = exposition(client)[0].decode()
    for line in (
        'perdure_notifications_total{outcome="dead",rule="ops"} 1.0',
        'perdure_notifications_total{outcome="failed",rule="ops"} 1.0',
        'perdure_notifications_waiting{rule="ops"} 0.0',
        "perdure_notifications_dead 1.0",
    ):
        assert line in text
    receiver.replies[:] = [204]
    with serving(settings) as url:
        assert "1<span" in httpx2.get(f"{url}/overview").text.partition('">Notifications')[2]
        remote = RemoteClient(url)
        told = remote.notifications
        assert [each.id for each in told.dead()] == [lost] and told.get(lost) is not None
        told.send_again([lost])
        until(lambda: told.get(lost) is None, "its delivery")
        tried = told.try_rule("ops")
        until(lambda: told.get(tried.id) is None, "the delivery of the trial")
        for refused in (
            lambda: told.send_again(["msg_none"]),
            lambda: told.delete(["msg_none"]),
            lambda: told.try_rule("none"),
        ):
            with pytest.raises(NotificationNotFound):
                refused()
        assert told.send_dead_again() == 0 and told.waiting() == []
        remote.close()
    assert 'outcome="delivered",rule="ops"} 2.0' in exposition(client)[0].decode()
    assert finding().level.value == "ok"


def test_the_doctor_tells_of_a_receiver_that_fails_and_of_rules_that_no_worker_has(
    client: Client, receiver: Receiver, notifying: Notifies
) -> None:
    receiver.replies[:] = [500]
    notifier = notifying(ops=to(receiver))
    ended(client, "done")
    until(lambda: any(each.attempts for each in client.notifications.waiting()), "a failure")
    [found] = [each for each in client.doctor() if each.check == "notifications"]
    assert (
        found.level.value == "warning" and "receivers of notifications fail: ops" in found.sentence
    )
    notifier.stop()
    store = client._store
    records = NotificationRecords(store)
    late = trial_notification("ops", "msg_late", moment(store.time()))
    records.add([late], {}, store.time() - 300_000)
    [found] = [each for each in client.doctor() if each.check == "notifications"]
    assert "no worker delivers" in found.sentence
