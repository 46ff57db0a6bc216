"""A caller who is no administrator meets their own runs and no others, by every way to ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from perdure import RunExists
from perdure.flows.core.names import ONLY
from perdure.worker.domain.record import VALUE
from perdure.worker.errors import Forbidden
from perdure.worker.web import Caller, Scope
from perdure.worker.web.auth import AuthorizedClient
from tests.support.in_process_server import Site, site_on
from tests.support.redis_servers import CrashableServer

API = "/api/v1"
PERSON = ("read", "submit", "answer", "stop")


@pytest.fixture(scope="module")
def shared(server: CrashableServer) -> Iterator[Site]:
    with site_on(server) as site:
        yield site


@pytest.fixture
def site(shared: Site) -> Site:
    shared.clear()
    return shared


@pytest.fixture
def ann(site: Site) -> TestClient:
    return site.asking(site.token("ann", *PERSON))


@pytest.fixture
def bob(site: Site) -> TestClient:
    return site.asking(site.token("bob", *PERSON))


@pytest.fixture
def root(site: Site) -> TestClient:
    return site.asking(site.token("root", "admin"))


def submitted(who: TestClient, **given: object) -> str:
    headers = {"idempotency-key": str(key)} if (key := given.pop("key", None)) else {}
    answer = who.post(
        f"{API}/runs", json={"flow": "countdown", "goal": "g", **given}, headers=headers
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def ids(answer: object) -> set[str]:
    return {run["id"] for run in answer.json()["runs"]}  # type: ignore[attr-defined]


def test_a_run_is_whose_token_submitted_it(site: Site, ann: TestClient, root: TestClient) -> None:
    assert site.client.get(submitted(ann)).details["submitted_by"] == "ann"
    assert site.client.get(submitted(root)).details["submitted_by"] == "root"


def test_several_tokens_of_one_name_are_one_person(site: Site, ann: TestClient) -> None:
    run_id = submitted(ann)
    assert site.asking(site.token("ann", "read")).get(f"{API}/runs/{run_id}").status_code == 200


def test_only_its_owner_reads_the_tree_and_the_children_of_a_run(
    ann: TestClient, bob: TestClient, root: TestClient
) -> None:
    run_id = submitted(ann)
    for path in (f"{API}/runs/{run_id}/tree", f"{API}/runs?parent={run_id}"):
        statuses = [who.get(path).status_code for who in (ann, bob, root)]
        assert statuses == [200, 404, 200], path


def test_lists_inboxes_and_pages_show_ones_own(
    ann: TestClient, bob: TestClient, root: TestClient
) -> None:
    mine, theirs = submitted(ann), submitted(bob)
    asks, they_ask = (submitted(who, interrupt_before=["Controller"]) for who in (ann, bob))
    for status in (None, "queued", "interrupted"):
        found = ids(ann.get(f"{API}/runs", params={"status": status} if status else {}))
        assert found <= {mine, asks} and found
    assert ids(root.get(f"{API}/runs")) == {mine, theirs, asks, they_ask}
    assert [each["run_id"] for each in ann.get(f"{API}/inbox").json()["waiting"]] == [asks]
    for path in (
        "/runs",
        "/inbox",
        "/stuck",
        "/fleet",
        f"{API}/stuck",
        f"{API}/workers",
        f"{API}/queues",
        f"{API}/flows",
        "/metrics",
    ):
        text = ann.get(path).text
        assert theirs not in text and they_ask not in text, path


def test_the_overview_says_that_its_list_covers_only_ones_own_runs(
    ann: TestClient, bob: TestClient, root: TestClient
) -> None:
    theirs = submitted(bob, interrupt_before=["Controller"])
    limit, unlimited = "None of your own runs needs attention", "Nothing needs attention"
    text = ann.get("/overview").text
    assert theirs not in text and limit in text and unlimited not in text
    submitted(ann, interrupt_before=["Controller"])
    covers = "This list covers only your own runs."
    assert covers in ann.get("/overview").text and covers not in root.get("/overview").text
    assert theirs in root.get("/overview").text


def test_a_cursor_that_somebody_else_was_given_leads_to_nobody_elses_runs(
    ann: TestClient, bob: TestClient, root: TestClient
) -> None:
    mine = {submitted(ann, interrupt_before=["Controller"]) for _ in range(3)}
    for _ in range(3):
        submitted(bob, interrupt_before=["Controller"])
    cursors = {"runs": set(), "inbox": set()}
    for who in (bob, root):
        for kind, found in cursors.items():
            found.add(who.get(f"{API}/{kind}", params={"limit": 2}).json()["cursor"])
    for cursor in cursors["runs"]:
        answer = ann.get(f"{API}/runs", params={"cursor": cursor})
        assert answer.status_code == 422 or ids(answer) <= mine
    for cursor in cursors["inbox"]:
        assert {
            each["run_id"]
            for each in ann.get(f"{API}/inbox", params={"cursor": cursor}).json()["waiting"]
        } <= mine


def test_what_is_done_to_many_is_done_to_ones_own(
    site: Site, ann: TestClient, bob: TestClient
) -> None:
    mine, theirs = submitted(ann), submitted(bob)
    told = ann.post(f"{API}/stops", json={"flow": "countdown"}).json()
    assert [receipt["run_id"] for receipt in told] == [mine]
    assert site.client.get(theirs).status.value == "queued"
    assert ann.post(f"{API}/retries", json={"flow": None}).json() == []


def test_an_idempotency_key_is_its_owners(site: Site, ann: TestClient, bob: TestClient) -> None:
    mine, theirs = submitted(ann, key="nightly"), submitted(bob, key="nightly", goal="another")
    assert mine != theirs
    assert (
        submitted(ann, key="nightly") == mine
        and submitted(bob, key="nightly", goal="another") == theirs
    )
    assert (
        bob.post(
            f"{API}/runs",
            json={"flow": "countdown", "goal": "g"},
            headers={"idempotency-key": "nightly"},
        ).status_code
        == 409
    )
    assert submitted(bob, key="ann/nightly") not in (mine, theirs)


def test_an_empty_idempotency_key_is_refused_and_not_passed_over(site: Site) -> None:
    permitted = AuthorizedClient(site.client, Caller("ann", frozenset({Scope.SUBMIT})))
    with pytest.raises(Exception, match="idempotency_key"):
        permitted.submit("countdown", "g", idempotency_key="")


def test_who_knows_anothers_run_id_and_nonce_is_not_shown_the_run(
    ann: TestClient, bob: TestClient, site: Site
) -> None:
    nonce = "a1" * 8
    assert (
        submitted(ann, run_id="r", nonce=nonce, goal="secret")
        == "r"
        == submitted(ann, run_id="r", nonce=nonce, goal="secret")
    )
    answer = bob.post(
        f"{API}/runs", json={"flow": "countdown", "goal": "g", "run_id": "r", "nonce": nonce}
    )
    assert answer.status_code == 409 and "secret" not in answer.text
    with pytest.raises(RunExists):
        AuthorizedClient(site.client, Caller("bob", frozenset({Scope.SUBMIT}))).submit(
            "countdown", "g", run_id="r", nonce=nonce
        )


def test_a_run_of_nobody_is_seen_by_administrators_alone(
    site: Site, ann: TestClient, root: TestClient
) -> None:
    run_id = site.client.submit("countdown", "g").id
    assert (
        ann.get(f"{API}/runs/{run_id}").status_code == 404
        and root.get(f"{API}/runs/{run_id}").status_code == 200
    )


def test_ones_own_damaged_run_is_told_as_damaged(
    site: Site, ann: TestClient, bob: TestClient
) -> None:
    run_id = submitted(ann)
    site.client._store.redis.hset(site.client._store.keys.run(run_id), "step", "x")
    assert (
        ann.get(f"{API}/runs/{run_id}").status_code == 409
        and ann.get(f"{API}/runs/{run_id}/why").status_code == 200
    )
    assert (
        bob.get(f"{API}/runs/{run_id}").status_code
        == bob.get(f"{API}/runs/{run_id}/why").status_code
        == 404
    )


def test_titles_are_those_of_ones_own_runs_that_can_be_read(site: Site) -> None:
    client = site.client
    mine, whose, damaged = (
        client.submit("countdown", f"goal of {who}", submitted_by=who).id
        for who in ("ann", "bob", "ann")
    )
    redis, keys = client._store.redis, client._store.keys
    redis.hset(
        keys.run(damaged), mapping={"parent": "p", f"{VALUE}{ONLY}": "1", f"{VALUE}command": "{"}
    )
    asked = [mine, whose, damaged, "none"]
    ann, root = (
        AuthorizedClient(client, Caller(name, frozenset({scope})))
        for name, scope in (("ann", Scope.READ), ("root", Scope.ADMIN))
    )
    own = {mine: ("goal of ann", "countdown")}
    assert ann.titles(asked) == own
    assert root.titles(asked) == own | {whose: ("goal of bob", "countdown")}
    with pytest.raises(Forbidden):
        AuthorizedClient(client, Caller("ann", frozenset({Scope.SUBMIT}))).titles(asked)


def test_read_all_reads_the_runs_of_all_owners_and_changes_none(
    site: Site, ann: TestClient, bob: TestClient
) -> None:
    eve = site.asking(site.token("eve", "read-all", "submit", "stop", "answer"))
    asks = submitted(ann, interrupt_before=["Controller"])
    theirs = {asks, submitted(bob)}
    assert ids(eve.get(f"{API}/runs")) == theirs
    assert [each["run_id"] for each in eve.get(f"{API}/inbox").json()["waiting"]] == [asks]
    page = eve.get(f"/runs/{asks}").text
    assert "Run again" in page and "Stop now" not in page and "Waiting for a person" in page
    assert "Ended runs" in eve.get("/overview").text and ">By</th>" in eve.get("/runs").text
    assert eve.post(f"{API}/stops", json={"status": "queued"}).json() == []
    for path in ("stop", "resume"):
        refused = eve.post(f"{API}/runs/{asks}/{path}")
        assert refused.status_code == 403
        assert f"run {asks} belongs to another owner" in refused.json()["detail"]
    assert "'answer-all' or 'admin'" in refused.json()["detail"]
    assert eve.delete(f"{API}/runs/{asks}").status_code == 403
    assert "admin" not in eve.get("/overview").text
    assert eve.post(f"{API}/runs/no-such-run/stop").status_code == 404


def test_answer_all_answers_the_runs_of_all_owners_in_ones_own_name(
    site: Site, ann: TestClient
) -> None:
    asks, unread = (submitted(ann, interrupt_before=["Controller"]) for _ in range(2))
    approver = site.asking(site.token("eve", "read-all", "answer-all"))
    assert "Waiting for you" in approver.get(f"/runs/{asks}").text
    assert approver.post(f"{API}/runs/{asks}/resume").status_code == 200
    answered = [each for each in site.client.events(asks, follow=False) if each.type == "resumed"]
    assert [each.data["by"] for each in answered] == ["eve"]
    blind = site.asking(site.token("eve", "answer-all"))
    assert blind.get(f"{API}/runs/{unread}").status_code == 403
    assert blind.post(f"{API}/runs/{unread}/resume").status_code == 200


def test_what_is_not_even_a_run_is_not_there(site: Site, ann: TestClient) -> None:
    site.client._store.redis.set(site.client._store.keys.run("r"), "x")
    assert ann.get(f"{API}/runs/r").status_code == 404


@pytest.mark.parametrize("kept", ["memory", "events", "artifacts"])
def test_a_key_that_belongs_to_a_run_is_no_run(ann: TestClient, kept: str) -> None:
    run_id = submitted(ann)
    assert ann.get(f"{API}/runs/{run_id}:{kept}").status_code == 404
