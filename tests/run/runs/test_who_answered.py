"""Who answered: kept with the run, passed to the flow, and refused if the flow wants another person
than the submitter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from perdure import Client, InvalidInput, RunStatus
from perdure.worker.errors import Forbidden
from perdure.worker.tracing import attributes
from perdure.worker.web import Caller, Scope
from perdure.worker.web.auth import AuthorizedClient
from tests.support.command_line import CommandLine
from tests.support.in_process_server import Site, site_on
from tests.support.redis_servers import CrashableServer
from tests.support.runs import claim, hash_of, pause_here

API = "/api/v1"
ABOUT = {
    "approval": {"command": "pay", "args": {"amount": 5}, "digest": "d", "approvers": "others"}
}


@pytest.fixture(scope="module")
def shared(server: CrashableServer) -> Iterator[Site]:
    with site_on(server) as site:
        yield site


@pytest.fixture
def site(shared: Site) -> Site:
    shared.clear()
    return shared


@pytest.fixture
def client(site: Site) -> Client:
    return site.client


def asking(client: Client, run_id: str = "r", submitted_by: str | None = "ann") -> str:
    """Submit a run, and let it ask for an approval by another person than its submitter, as a
    worker's commit leaves it.
    """
    client.submit("countdown", "x", {"rounds": 1}, run_id=run_id, submitted_by=submitted_by)
    granted = claim(client._store, run_id, known=("countdown",))
    fields = {
        "i_kind": "node",
        "i_reason": "may it pay?",
        "i_default": "null",
        "i_data": json.dumps(ABOUT),
    }
    assert pause_here(client._store, granted, **fields) == ("ok", "interrupted")
    return run_id


def resumed_by(client: Client, run_id: str = "r") -> list[object]:
    return [
        event.data.get("by")
        for event in client.events(run_id, follow=False)
        if event.type == "resumed"
    ]


def test_who_answered_is_in_the_event_in_the_run_and_with_the_next_round(client: Client) -> None:
    asking(client)
    run = client.resume("r", "approve", by="bob")
    assert (
        resumed_by(client) == ["bob"]
        and run.details["resumed_by"] == "bob"
        and run.details["resumed_at"]
    )
    assert hash_of(client._store)["i_by"] == "bob", "what the node's context and its span are told"
    assert attributes.ANSWERED_BY == "perdure.answered_by"


@pytest.mark.parametrize("by", ["ann", None])
def test_a_flow_that_wants_others_to_approve_refuses_the_submitter_and_the_nameless(
    client: Client, by: str | None
) -> None:
    asking(client)
    for answer in ("approve", {"edit": {"amount": 1}}):
        with pytest.raises(Forbidden, match="another person than the run's submitter"):
            client.resume("r", answer, by=by)
    assert client.get("r").status is RunStatus.INTERRUPTED and resumed_by(client) == []
    client.resume("r", {"refuse": "too dear"}, by=by)
    assert resumed_by(client) == [by]


def test_an_approval_by_others_needs_a_known_submitter(client: Client) -> None:
    asking(client, submitted_by=None)
    with pytest.raises(Forbidden, match="--by NAME"):
        client.resume("r", "approve", by="bob")


def test_over_http_and_on_the_dashboard_the_tokens_owner_answers(
    site: Site, client: Client
) -> None:
    ann = site.asking(site.token("ann", "read", "submit", "answer"))
    root = site.asking(site.token("root", "admin"))
    asking(client)
    refused = ann.post(f"{API}/runs/r/resume", json={"answer": "approve"})
    assert (
        refused.status_code == 403
        and refused.json()["type"] == "urn:perdure:forbidden"
        and "ann submitted it" in refused.text
    )
    with pytest.raises(Forbidden):  # the check of the dashboard's form
        AuthorizedClient(client, Caller("ann", frozenset({Scope.ANSWER}))).resume("r", "approve")
    assert root.post(f"{API}/runs/r/resume", json={"answer": "approve"}).status_code == 200
    assert (
        resumed_by(client) == ["root"]
        and root.get(f"{API}/runs/r").json()["details"]["resumed_by"] == "root"
    )


def test_the_command_line_says_who_answers_by_its_login_name_or_as_it_is_told(
    client: Client, tmp_path: object
) -> None:
    asking(client, submitted_by="ann")
    perdure = CommandLine(tmp_path, client.settings)  # type: ignore[arg-type]
    refused = perdure("resume", "r", "--approve", "--by", "ann")
    assert refused.code == 8 and "another person" in refused.err
    assert perdure("resume", "r", "--approve", "--by", "eve").code == 0 and resumed_by(client) == [
        "eve"
    ]
    assert "by eve" in perdure("show", "r").out
    asking(client, "own")
    assert perdure("resume", "own", "--approve").code == 0 and resumed_by(client, "own") not in (
        [None],
        [],
    )


def test_the_name_of_the_deadline_is_no_persons(client: Client) -> None:
    asking(client)
    with pytest.raises(InvalidInput, match="the name of a person"):
        client.resume("r", "approve", by="deadline")


def test_a_name_with_spaces_around_it_is_not_another_person(client: Client) -> None:
    asking(client, submitted_by="ann")
    with pytest.raises(InvalidInput, match="without spaces"):
        client.resume("r", "approve", by=" ann")
