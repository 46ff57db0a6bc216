"""Stop, retry and delete by a query line: over the client, HTTP, the command line and the
dashboard.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import Client, RunStatus
from perdure.worker.cli.main import run as perdure
from perdure.worker.client.remote import RemoteClient
from perdure.worker.errors import InvalidInput
from perdure.worker.settings import Settings
from tests.support.in_process_server import Site, csrf_of, site_on
from tests.support.redis_servers import CrashableServer
from tests.support.runs import claim, fail_round
from tests.support.threaded_server import serving


def queued(client: Client, count: int, **labels: str) -> list[str]:
    """Submit queued runs with these labels."""
    return [
        client.submit("countdown", "count", {"rounds": 1}, labels=labels).id for _ in range(count)
    ]


def errored(client: Client, count: int, **labels: str) -> list[str]:
    """Make errored runs with these labels."""
    ids = queued(client, count, **labels)
    for run_id in ids:
        granted = claim(client._store, run_id, known=("countdown",))
        assert fail_round(client._store, granted, max_failures=1) == ("ok", "errored")
    return ids


@pytest.fixture(params=["client", "remote"])
def any_client(request: pytest.FixtureRequest, client: Client, settings: Settings) -> Iterator[Any]:
    """The client, and the same runs over HTTP."""
    if request.param == "client":
        yield client
        return
    with serving(settings) as url:
        remote = RemoteClient(url)
        yield remote
        remote.close()


def test_a_group_of_equal_failures_is_retried_by_its_query(
    client: Client, any_client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    failed, other = errored(client, 3), errored(client, 1)
    store = client._store
    store.redis.hset(store.keys.run(other[0]), "error", "run r, step 0, node N: ValueError: x")
    groups = any_client.error_groups(query="ended:<1d")
    assert groups == client.error_groups(query="ended:<1d")
    assert [(group.count, group.kind) for group in groups.groups] == [
        (3, "boom"),
        (1, "ValueError"),
    ]
    assert groups.looked_back is None and any_client.error_groups(look=2).looked_back is not None
    done = any_client.retry_many(query=groups.groups[0].query)
    assert {each.run_id for each in done} == set(failed) and not any(each.why_not for each in done)
    assert [group.newest for group in any_client.error_groups().groups] == other


def test_the_command_lists_groups_and_says_what_it_did_not_look_at(
    client: Client,
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = errored(client, 2, team="a b")
    url = settings.redis_url or ""
    monkeypatch.setenv("PERDURE_PREFIX", settings.prefix)
    monkeypatch.setenv("PERDURE_REDIS_URL", url)
    assert perdure(["list", "--group", "--label", "team=a b", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (group,) = found["groups"]
    assert (group["count"], group["kind"], found["looked_at"]) == (2, "boom", 2)
    assert (
        group["query"] == 'status:errored flow:countdown node:Controller kind:boom label:"team=a b"'
    )
    assert perdure(["list", "--group", "-n", "x"]) == 2
    assert perdure(["list", "--group", "--status", "queued"]) == 2
    assert "Leave out --parent and --status" in capsys.readouterr().err
    assert perdure(["retry", "--query", group["query"], "--json"]) == 0
    assert {each["run_id"] for each in json.loads(capsys.readouterr().out)} == set(ids)
    monkeypatch.setattr("perdure.worker.operations.error_groups.LOOKED_AT", 1)
    errored(client, 2)
    assert perdure(["list", "--group"]) == 0
    said = capsys.readouterr()
    assert "only the newest 1 errored runs were looked at" in said.err and "ended:<" in said.err
    assert said.out.split("\t")[:3] == ["1", "countdown", "Controller"]


@pytest.mark.parametrize("line", ["", " ", '""', "sort:oldest", "children:yes sort:cost"])
def test_a_query_line_that_narrows_nothing_does_not_choose_all_runs(
    client: Client, any_client: Any, line: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, waiting = errored(client, 1), queued(client, 1)
    for refuses in (
        lambda: any_client.matching("errored", query=line),
        lambda: any_client.retry_many(query=line),
        lambda: any_client.retry_many("countdown", query=line, limit=1),
        lambda: any_client.delete_many("errored", query=line),
        lambda: any_client.request_stop_many("countdown", query=line),
    ):
        with pytest.raises(InvalidInput, match="None"):
            refuses()
    monkeypatch.setenv("PERDURE_PREFIX", settings.prefix)
    monkeypatch.setenv("PERDURE_REDIS_URL", settings.redis_url or "")
    for command in (["retry"], ["delete", "--status", "errored"], ["stop", "--flow", "countdown"]):
        assert perdure([*command, "--query", line]) == 2
    assert client.get(failed[0]).status is RunStatus.ERRORED
    assert client.get(waiting[0]).status is RunStatus.QUEUED
    assert len(any_client.runs(query=line).runs) == 2 and any_client.error_groups(query=line).groups


def test_a_query_line_chooses_what_is_stopped_retried_and_deleted(
    client: Client, any_client: Any
) -> None:
    bad, good = queued(client, 3, batch="bad"), queued(client, 2, batch="good")
    line = "label:batch=bad sort:oldest"
    assert set(any_client.matching(query=line)) == set(bad)  # a dry run
    assert len(any_client.request_stop_many(query=line, limit=2)) == 2
    receipts = any_client.request_stop_many(query=line)
    assert [each.stopped for each in receipts] == [True]  # stopped runs no longer match
    assert {client.get(each).status for each in good} == {RunStatus.QUEUED}
    failed = errored(client, 2, batch="bad")
    done = any_client.retry_many(query="label:batch=bad")
    assert {each.run_id for each in done} == set(failed) and not any(each.why_not for each in done)
    done = any_client.delete_many(query="label:batch=bad")
    assert {each.run_id for each in done} == set(bad)
    assert set(any_client.matching(query="label:batch=bad")) == set(failed)
    for refuses in (any_client.request_stop_many, any_client.delete_many):
        with pytest.raises(InvalidInput):
            refuses()
    with pytest.raises(InvalidInput, match="no key"):
        any_client.retry_many(query="colour:red")


def test_two_who_stop_the_same_batch_at_once_stop_each_run_once(client: Client) -> None:
    bad = queued(client, 40, batch="bad")
    receipts: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda: receipts.extend(client.request_stop_many(query="label:batch=bad"))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    first = [each.run_id for each in receipts if each.stopped and each.running]
    assert sorted(first) == sorted(bad)
    assert {client.get(each).status for each in bad} == {RunStatus.STOPPED}


@pytest.fixture
def site(server: CrashableServer) -> Iterator[Site]:
    with site_on(server) as made:
        yield made


def test_a_request_stops_at_most_its_limit(site: Site) -> None:
    queued(site.client, 3, batch="bad")
    asked = {"query": "label:batch=bad", "limit": 2}
    browser = site.asking()
    lengths = [len(browser.post("/api/v1/stops", json=asked).json()) for _ in range(3)]
    assert lengths == [2, 1, 0]
    refused = browser.post("/api/v1/stops", json={"query": "colour:red"})
    assert refused.status_code == 422 and refused.json()["type"].endswith("invalid-input")
    gone = browser.post("/api/v1/deletions", json=asked)
    assert [each["why_not"] for each in gone.json()] == [None, None]
    assert browser.post("/api/v1/deletions", json={}).json()["type"].endswith("invalid-input")


def test_the_dashboard_says_which_runs_were_left_and_why(site: Site) -> None:
    run_ids = errored(site.client, 2, batch="bad")
    browser = site.asking()
    csrf = csrf_of(browser, "/chosen?action=retry&all=1&q=label:batch=bad")
    site.client.retry(run_ids[0])
    sent = {"csrf": csrf, "action": "retry", "run": run_ids, "q": ""}
    assert browser.post("/chosen", data=sent).status_code == 303
    notice = browser.get("/runs").text
    assert "1 run will be retried" in notice
    assert f"1 run left unchanged: {run_ids[0]}: " in notice


def test_the_command_line_shows_beforehand_what_it_would_stop(
    client: Client,
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PERDURE_PREFIX", settings.prefix)
    bad = queued(client, 2, batch="bad")
    url = settings.redis_url or ""
    for command in ("stop", "retry", "delete"):
        assert perdure([command, "--query", "label:batch=bad", "--dry-run", "--url", url]) == 0
        printed = capsys.readouterr()
        ids = printed.out.split()
        assert sorted(ids) == sorted(bad if command == "stop" else [])
        assert "nothing was changed" in printed.err
        assert perdure([command, "--dry-run", "--url", url]) == 2
    assert {client.get(each).status for each in bad} == {RunStatus.QUEUED}
    capsys.readouterr()
    assert perdure(["stop", "--query", "label:batch=bad", "--url", url]) == 0
    assert capsys.readouterr().out.count("stopped at step") == 2
