"""The HTTP API, from outside: over a socket, as a service that submits would use it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from perdure import Client, Finding, Inbox, Run, RunStatus, StopReceipt
from perdure.worker.domain.fleet import FlowInfo
from perdure.worker.domain.run_details import RunDetails
from perdure.worker.domain.transcript import Transcript
from perdure.worker.settings import Settings
from perdure.worker.web import Caller, Scope, api_router
from perdure.worker.web.api import responses as models
from perdure.worker.web.json_body import MOST_ENCODED, most_bytes
from tests.support.authenticator import by_name
from tests.support.redis_commands import monitored
from tests.support.redis_servers import CrashableServer, until
from tests.support.redis_servers import server as server_of_its_own
from tests.support.runs_in_every_status import MODULES, every_status, play
from tests.support.threaded_server import serving, serving_app

#: Seconds that a client of these tests waits for an answer; promised bounds are held to it.
PATIENCE = 25
COUNTDOWN = {"flow": "countdown", "goal": "count down"}


def is_described_by(kind: Any, answer: Any) -> None:
    """Fail unless an answer of the API fits the schema that OpenAPI has of its class."""
    Draft202012Validator(TypeAdapter(kind).json_schema(mode="serialization")).validate(answer)


@pytest.fixture(scope="module")
def server_settings() -> Iterator[Settings]:
    """The settings of one web server, on a separate server, for all tests that leave the runs of
    ``runs`` as they are.
    """
    with server_of_its_own(appendfsync="everysec") as mine:
        yield Settings(redis_url=mine.url, flow_modules=MODULES)


@pytest.fixture(scope="module")
def runs(server_settings: Settings) -> dict[str, str]:
    """A run in every status: only these tests move them."""
    return every_status(server_settings)


@pytest.fixture(scope="module")
def url(server_settings: Settings) -> Iterator[str]:
    with serving(server_settings) as address:
        yield f"{address}/api/v1"


@pytest.fixture
def http(url: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=url, timeout=PATIENCE) as made:
        yield made


@pytest.fixture
def direct(server_settings: Settings) -> Iterator[Client]:
    """The same runs without HTTP."""
    made = Client(settings=server_settings)
    yield made
    made.close()


def a_problem(response: httpx2.Response, status: int, word: str) -> dict[str, Any]:
    """Return the problem of the response; it must be this one, in the form of problem details."""
    told: dict[str, Any] = response.json()
    assert (response.status_code, told["type"]) == (status, f"urn:perdure:{word}"), response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert told["status"] == status and told["title"] and told["detail"]
    return told


def submitted(http: httpx2.Client, **more: Any) -> dict[str, Any]:
    """Submit a run that waits in the queue."""
    response = http.post("/runs", json={**COUNTDOWN, **more})
    assert response.status_code == 201, response.text
    run: dict[str, Any] = response.json()
    return run


# submit


def test_a_goal_is_handed_over_and_found_at_its_location(
    http: httpx2.Client, direct: Client
) -> None:
    response = http.post(
        "/runs",
        json={
            **COUNTDOWN,
            "inputs": {"rounds": 2},
            "labels": {"team": "a"},
            "max_rounds": 9,
            "thread_id": "t",
        },
    )
    run = response.json()
    assert (
        response.status_code == 201
        and run["inputs"] == {"rounds": 2, "seconds": 0.0}
        and run["labels"] == {"team": "a"}
    )
    assert run["details"]["submitted_by"] == "local"
    assert (
        httpx2.get(httpx2.URL(http.base_url).join(response.headers["location"])).json()
        == direct.get(run["id"]).to_dict()
    )


def test_a_key_gets_the_same_run_and_with_other_content_a_conflict(http: httpx2.Client) -> None:
    key = {"Idempotency-Key": f"nightly {uuid4()}"}
    first, second = (http.post("/runs", json=COUNTDOWN, headers=key) for _ in range(2))
    assert first.status_code == second.status_code == 201 and first.json() == second.json()
    a_problem(
        http.post("/runs", json={**COUNTDOWN, "goal": "another"}, headers=key), 409, "conflict"
    )


@pytest.mark.parametrize("key", ["", "x" * 901, "schlüssel".encode(), b"a\tb"])
def test_a_key_that_is_none_makes_no_run(
    http: httpx2.Client, direct: Client, key: str | bytes
) -> None:
    before = direct.matching(flow="countdown")
    a_problem(
        http.post("/runs", json=COUNTDOWN, headers={"Idempotency-Key": key}), 422, "invalid-request"
    )
    assert direct.matching(flow="countdown") == before


def test_an_unknown_flow_is_a_fault_of_what_was_sent_and_elsewhere_not_found(
    http: httpx2.Client,
) -> None:
    assert (
        "did you mean 'countdown'?"
        in a_problem(
            http.post("/runs", json={**COUNTDOWN, "flow": "countdwn"}), 422, "unknown-flow"
        )["detail"]
    )
    a_problem(http.get("/flows/countdwn"), 404, "unknown-flow")
    a_problem(http.put("/flows/countdwn/pause"), 404, "unknown-flow")


def test_a_time_is_iso_text_or_seconds_from_now(http: httpx2.Client) -> None:
    by_seconds = submitted(http, not_before=3600, deadline=7200.5)["details"]
    by_text = submitted(
        http, not_before="2031-01-01T00:00:00Z", deadline="2031-01-01T02:00:00+01:00"
    )["details"]
    for name, wanted in (
        ("not_before", "2031-01-01T00:00:00+00:00"),
        ("deadline", "2031-01-01T01:00:00+00:00"),
    ):
        # The server gets the time from now, so that it is as late as the call took.
        assert (
            abs(
                (
                    datetime.fromisoformat(by_text[name]) - datetime.fromisoformat(wanted)
                ).total_seconds()
            )
            < PATIENCE
        )
    assert by_seconds["not_before"] < by_seconds["deadline"] < by_text["not_before"]
    for wrong in ("2031-01-01T00:00:00", "soon", "-5m", -1, True, 1e300, {}):
        a_problem(
            http.post("/runs", json={**COUNTDOWN, "not_before": wrong}), 422, "invalid-request"
        )
    a_problem(
        http.post("/runs", json={**COUNTDOWN, "deadline": "2001-01-01T00:00:00Z"}),
        422,
        "invalid-input",
    )


def test_an_id_in_use_is_a_conflict(http: httpx2.Client) -> None:
    run_id = f"mine-{uuid4()}"
    assert submitted(http, run_id=run_id)["id"] == run_id
    a_problem(http.post("/runs", json={**COUNTDOWN, "run_id": run_id}), 409, "run-exists")


# the sent request


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({**COUNTDOWN, "lables": {}}, "did you mean 'labels'?"),
        ({"goal": "count down"}, "body.flow: Field required"),
        ({**COUNTDOWN, "max_rounds": "3"}, "body.max_rounds: Input should be a valid integer"),
        ({**COUNTDOWN, "max_rounds": 0}, "body.max_rounds"),
        ({**COUNTDOWN, "labels": {"n": 1}}, "body.labels.n"),
        ({**COUNTDOWN, "run_id": "../x"}, "body.run_id"),
        ([], "body: "),
    ],
)
def test_a_body_that_is_not_as_described_is_told_where(
    http: httpx2.Client, given: Any, told: str
) -> None:
    problem = a_problem(http.post("/runs", json=given), 422, "invalid-request")
    assert told in problem["detail"] and problem["faults"]


def test_a_derived_route_refuses_a_query_that_it_does_not_know(http: httpx2.Client) -> None:
    problem = a_problem(http.get("/dead-letters", params={"limt": 3}), 422, "invalid-request")
    assert "limt" in problem["detail"] and "limit" in problem["detail"]
    a_problem(http.get("/dead-letters", params={"limit": 0}), 422, "invalid-request")


@pytest.mark.slow
def test_a_filter_that_is_mistyped_lists_nothing(http: httpx2.Client) -> None:
    assert (
        "did you mean 'status'?"
        in a_problem(http.get("/runs", params={"stauts": "running"}), 422, "invalid-request")[
            "detail"
        ]
    )
    for wrong in ({"status": "runing"}, {"limit": 0}, {"limit": 1001}, {"label": "team"}):
        a_problem(http.get("/runs", params=wrong), 422, "invalid-request")
    for cursor in (
        "x",
        "live|\u0661.\u0661:x",
        "live|1.0:\x00",
        "completed|1.0:\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
    ):
        response = http.get("/runs", params={"cursor": cursor})
        assert response.status_code in (200, 422), response.text
    a_problem(http.get("/inbox", params={"cursor": "x"}), 422, "invalid-input")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        '{"flow": "countdown", "goal": "ü"}'.encode("latin-1"),
        b'{"flow": "countdown", "goal": "g", "deadline": NaN}',
        b'{"flow": "countdown", "goal": "g", "deadline": 1e999}',
        b'{"flow": "countdown", "goal": "g", "inputs": {"n": ' + b"9" * 5_000 + b"}}",
        b'{"flow": "countdown", "goal": "g", "inputs": {"n": '
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}}",
        b'{"flow": "countdown", "goal": "g\\ud800"}',
        b'{"flow": "countdown", "goal": "g", "labels": {"\\udfff": "x"}}',
        b'{"flow": "countdown", "goal": "g\\u0000"}',
        b'{"flow": "countdown", "goal": "g", "goal": "h"}',
        b'{"flow": "countdown", "goal": "' + b"\\u0000" * 20_000 + b'"}',
    ],
    ids=lambda body: repr(body[:60]),
)
def test_a_body_that_readers_of_json_would_read_differently_is_refused_and_nothing_stored(
    http: httpx2.Client, direct: Client, body: bytes
) -> None:
    before = direct.matching(flow="countdown")
    a_problem(
        http.post("/runs", content=body, headers={"Content-Type": "application/json"}),
        400,
        "unreadable-body",
    )
    assert direct.matching(flow="countdown") == before


def test_an_escaped_backslash_before_a_number_is_no_escape(http: httpx2.Client) -> None:
    assert (
        submitted(http, goal="\\u0000 \\ud800 \U0001f600")["goal"] == "\\u0000 \\ud800 \U0001f600"
    )


def test_what_the_engine_would_not_store_is_refused(http: httpx2.Client) -> None:
    deep: Any = 1
    for _ in range(150):
        deep = [deep]
    a_problem(
        http.post("/runs", json={"flow": "ledger", "goal": "g", "inputs": {"deep": deep}}),
        422,
        "unstorable-value",
    )
    a_problem(http.post("/runs", json={**COUNTDOWN, "goal": "g" * 65_537}), 422, "invalid-input")


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_beyond_what_a_run_may_hold_is_refused_before_it_is_read(
    http: httpx2.Client, direct: Client, server_settings: Settings, declared: bool
) -> None:
    before = direct.matching(flow="countdown")
    most = most_bytes(server_settings) + MOST_ENCODED
    whole = b'{"flow": "countdown", "goal": "g", "inputs": {"n": "' + b"x" * most
    content: Any = whole if declared else iter([whole[:1_000_000], whole[1_000_000:], b'"}}'])
    try:
        response = http.post("/runs", content=content, headers={"Content-Type": "application/json"})
    except httpx2.WriteError:  # the server was through with it while it was still being sent
        response = None
    if response is not None:
        a_problem(response, 413, "body-too-large")
    assert direct.matching(flow="countdown") == before


def test_as_much_as_a_run_may_hold_fits_however_it_is_escaped(
    http: httpx2.Client, server_settings: Settings
) -> None:
    goal = '{"flow": "countdown", "goal": "' + "\\u0001" * server_settings.max_goal_bytes + '"}'
    response = http.post(
        "/runs", content=goal.encode(), headers={"Content-Type": "application/json"}
    )
    assert (
        response.status_code == 201
        and response.json()["goal"] == "\x01" * server_settings.max_goal_bytes
    )


def test_what_does_not_say_that_it_is_json_is_refused(http: httpx2.Client) -> None:
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
        "",
    ):
        a_problem(http.post("/runs", content=b"{}", headers={"Content-Type": kind}), 415, "no-json")
    response = http.post(
        "/runs", content=b"{}", headers={"Content-Type": 'Application/JSON; charset="UTF-8"'}
    )
    a_problem(response, 422, "invalid-request")


@pytest.mark.parametrize(
    ("path", "which"),
    [
        ("/stops", {"flow": "ledger"}),  # of which there are no runs here
        ("/retries", {"flow": "ledger"}),
        ("/deletions", {"flow": "ledger", "status": "completed"}),
    ],
)
def test_a_limit_may_be_written_as_a_whole_number_with_a_point(
    http: httpx2.Client, path: str, which: dict[str, str]
) -> None:
    for limit, status in ((2.0, 200), (2.5, 422)):
        response = http.post(path, json={**which, "limit": limit})
        assert response.status_code == status, response.text


def test_what_is_not_there_is_told_as_a_problem_too(http: httpx2.Client) -> None:
    for path in ("/nowhere", "/", "/runs/", "/runs/x/y/z", "/a%0Ab/c"):
        a_problem(http.get(path), 404, "no-such-path")
    for method, path, allowed in (
        ("PATCH", "/runs", "GET, POST"),
        ("HEAD", "/runs/x", "DELETE, GET"),
        ("BREW", "/health", "GET"),
        ("OPTIONS", "/notifications/send", "POST"),  # and not DELETE, as /notifications/ID
        ("OPTIONS", "/notifications/x", "DELETE, GET"),
    ):
        response = http.request(method, path)
        assert (response.status_code, response.headers["allow"]) == (405, allowed)
    a_problem(http.put("/runs"), 405, "no-such-method")


# look


@pytest.mark.parametrize(
    "name",
    ["queued", "running", "interrupted", "stopped", "completed", "errored", "approval", "artifact"],
)
def test_a_run_in_every_status_reads_as_it_is_and_as_it_is_described(
    http: httpx2.Client, direct: Client, runs: dict[str, str], name: str
) -> None:
    run_id = runs[name]
    found, transcript = (
        http.get(f"/runs/{run_id}").json(),
        http.get(f"/runs/{run_id}/transcript").json(),
    )
    assert found == direct.get(run_id).to_dict() and transcript == direct.transcript(run_id)
    assert http.get(f"/runs/{run_id}/why").json() == direct.why(run_id).to_dict()
    is_described_by(Run, found)
    is_described_by(Transcript, transcript)
    assert set(found["details"]) <= set(RunDetails.__annotations__)


def test_a_run_that_is_not_there_is_not_found(http: httpx2.Client) -> None:
    for path in (
        "/runs/none",
        "/runs/none/why",
        "/runs/none/transcript",
        "/runs/none/artifacts",
        "/runs/none/artifacts/x",
        "/runs/none/files",
        "/runs/none/files/x",
    ):
        assert a_problem(http.get(path), 404, "run-not-found")["run"] == "none"
    for call in ("resume", "retry"):
        a_problem(http.post(f"/runs/none/{call}"), 404, "run-not-found")
    for odd in ("%00", "%FF", "a%0A", "x" * 5_000, "r:events"):
        a_problem(http.get(f"/runs/{odd}"), 404, "run-not-found")


def test_a_list_is_filtered_and_continued(
    http: httpx2.Client, direct: Client, runs: dict[str, str]
) -> None:
    label = uuid4().hex
    mine = [submitted(http, labels={"batch": label})["id"] for _ in range(5)]
    found: list[str] = []
    cursor = None
    while True:
        page = http.get(
            "/runs",
            params={
                "label": f"batch={label}",
                "limit": 2,
                **({"cursor": cursor} if cursor else {}),
            },
        ).json()
        is_described_by(models.RunPage, page)
        found += [run["id"] for run in page["runs"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert found == mine[::-1]
    assert [
        run["id"] for run in http.get("/runs", params={"status": "errored"}).json()["runs"]
    ] == [runs["errored"]]
    assert [run["id"] for run in http.get("/runs", params={"flow": "wordy"}).json()["runs"]] == [
        runs["artifact"]
    ]


def test_an_artifact_is_its_text_byte_by_byte(
    http: httpx2.Client, direct: Client, runs: dict[str, str]
) -> None:
    run_id = runs["artifact"]
    assert http.get(f"/runs/{run_id}/artifacts").json() == direct.artifacts(run_id)
    response = http.get(f"/runs/{run_id}/artifacts/1-tell")
    assert response.text == direct.artifact(run_id, "1-tell")
    assert (
        response.headers["content-type"] == "text/plain; charset=utf-8"
        and response.headers["x-content-type-options"] == "nosniff"
    )
    for name in ("nothing", "a/b", "a%2Fb", "a%0Ab", ""):
        a_problem(http.get(f"/runs/{run_id}/artifacts/{name}"), 404, "artifact-not-found")


def test_the_inbox_has_what_waits_for_people(
    http: httpx2.Client, direct: Client, runs: dict[str, str]
) -> None:
    inbox = http.get("/inbox").json()
    is_described_by(Inbox, inbox)
    assert inbox["waiting"] == [each.to_dict() for each in direct.inbox()]
    assert {runs["interrupted"], runs["approval"]} <= {each["run_id"] for each in inbox["waiting"]}
    assert http.get("/inbox", params={"limit": 1}).json()["cursor"] is not None


def test_flows_are_told_with_their_schemas(http: httpx2.Client) -> None:
    flows = http.get("/flows").json()
    for flow in flows.values():
        is_described_by(FlowInfo, flow)
    assert flows["countdown"]["inputs"]["properties"]["rounds"]["minimum"] == 0
    assert http.get("/flows/countdown").json() == flows["countdown"]


def test_the_doctor_examines(http: httpx2.Client) -> None:
    findings = http.get("/doctor").json()
    is_described_by(list[Finding], findings)
    assert "server-version" in {finding["check"] for finding in findings}


def test_a_damaged_run_is_told_and_hides_no_other(http: httpx2.Client, direct: Client) -> None:
    flow = "question"
    good, bad, unreadable = (submitted(http, flow=flow)["id"] for _ in range(3))
    keys, server = direct._store.keys, direct._store.redis
    server.hset(keys.run(bad), "inputs", "{")
    server.hset(keys.run(unreadable), "goal", b"\xff\xfe")
    assert a_problem(http.get(f"/runs/{bad}"), 409, "damaged-run")["run"] == bad
    page = http.get("/runs", params={"flow": flow, "status": "queued"})
    assert page.json()["damaged"] == [bad] and good in [run["id"] for run in page.json()["runs"]]
    assert http.get(f"/runs/{unreadable}").json()["goal"] == "\udcff\udcfe"
    for run_id in (bad, unreadable):
        assert http.get(f"/runs/{run_id}/why").status_code == 200


# steer


def test_a_run_is_stopped_and_the_receipt_says_so(http: httpx2.Client, direct: Client) -> None:
    run_id = submitted(http)["id"]
    receipt = http.post(f"/runs/{run_id}/stop", json={"mode": "now", "reason": "enough"}).json()
    is_described_by(StopReceipt, receipt)
    assert (
        receipt["stopped"]
        and receipt["requested_by"] == "local"
        and receipt["reason"] == "enough"
        and receipt["mode"] == "now"
    )
    assert direct.get(run_id).status is RunStatus.STOPPED
    assert http.post(f"/runs/{run_id}/stop").json()["why_not"] == "not-running"
    assert http.post("/runs/none/stop").json()["why_not"] == "no-state"
    a_problem(http.post(f"/runs/{run_id}/stop", json={"mode": "softly"}), 422, "invalid-request")
    assert http.post(f"/runs/{run_id}/resume").json()["status"] == "queued"


def test_an_answer_counts_once_and_only_for_what_was_asked(
    http: httpx2.Client, server_settings: Settings
) -> None:
    run_id = submitted(http, flow="wary")["id"]
    play(server_settings, run_id)
    asked = next(each for each in http.get("/inbox").json()["waiting"] if each["run_id"] == run_id)
    assert (asked["kind"], asked["args"]) == ("approval", {"path": "build"})
    a_problem(http.post(f"/runs/{run_id}/resume", json={"answer": "perhaps"}), 422, "invalid-input")
    a_problem(
        http.post(f"/runs/{run_id}/resume", json={"answer": "approve", "interrupt": "9:9"}),
        409,
        "stale",
    )
    edited = http.post(
        f"/runs/{run_id}/resume",
        json={"answer": {"edit": {"path": "dist"}}, "interrupt": asked["id"]},
    )
    assert edited.status_code == 200, edited.text
    a_problem(
        http.post(f"/runs/{run_id}/resume", json={"answer": "approve", "interrupt": asked["id"]}),
        409,
        "stale",
    )
    play(server_settings, run_id)
    assert http.get(f"/runs/{run_id}").json()["answer"]["result"] == "removed dist"
    a_problem(http.post(f"/runs/{run_id}/resume"), 409, "invalid-transition")


def test_an_exhausted_budget_is_raised(http: httpx2.Client, server_settings: Settings) -> None:
    run_id = submitted(http, inputs={"rounds": 3}, budgets={"cycles": 1})["id"]
    play(server_settings, run_id)
    a_problem(http.post(f"/runs/{run_id}/resume", json={"add": {"money": 1}}), 422, "invalid-input")
    assert http.post(f"/runs/{run_id}/resume", json={"add": {"cycles": 10}}).json()["details"][
        "budgets"
    ] == {"cycles": 11}


def test_an_errored_run_is_retried_and_an_ended_one_removed(
    http: httpx2.Client, server_settings: Settings
) -> None:
    run_id = submitted(http, flow="trouble", inputs={"kind": "fatal"})["id"]
    a_problem(http.post(f"/runs/{run_id}/retry"), 409, "invalid-transition")
    a_problem(http.delete(f"/runs/{run_id}"), 409, "invalid-transition")
    play(server_settings, run_id)
    assert http.post(f"/runs/{run_id}/retry").json()["status"] in ("queued", "running")
    play(server_settings, run_id)
    gone = http.delete(f"/runs/{run_id}")
    assert (gone.status_code, gone.content) == (204, b"")
    a_problem(http.delete(f"/runs/{run_id}"), 404, "run-not-found")


@pytest.mark.slow
def test_many_runs_are_moved_by_a_filter_and_never_without(settings: Settings, prefix: str) -> None:
    server_settings = settings.model_copy(update={"flow_modules": MODULES})
    ids = every_status(server_settings)
    with (
        serving(server_settings) as address,
        httpx2.Client(base_url=f"{address}/api/v1", timeout=PATIENCE) as http,
    ):
        a_problem(http.post("/stops", json={}), 422, "invalid-input")
        a_problem(http.post("/retries", json={}), 422, "invalid-request")
        a_problem(http.post("/deletions", json={}), 422, "invalid-input")
        assert {run["status"] for run in http.get("/runs").json()["runs"]} == {
            status.value for status in RunStatus
        }
        receipts = http.post("/stops", json={"flow": "question", "mode": "now"}).json()
        assert [(each["run_id"], each["stopped"]) for each in receipts] == [
            (ids["interrupted"], True)
        ]
        assert http.post("/retries", json={"flow": "countdown"}).json() == []
        assert http.post("/retries", json={"flow": None}).json() == [
            {"run": ids["errored"], "why_not": None}
        ]
        assert (
            http.post("/deletions", json={"status": "stopped", "older_than_seconds": 3600}).json()
            == []
        )
        gone = http.post("/deletions", json={"status": "stopped"}).json()
        assert {each["run"] for each in gone} == {ids["stopped"], ids["interrupted"]} and not any(
            each["why_not"] for each in gone
        )
        a_problem(http.post("/deletions", json={"status": "running"}), 422, "invalid-request")


def test_a_flow_is_paused_with_a_reason_and_goes_on(http: httpx2.Client) -> None:
    first = http.put("/flows/wordy/pause", json={"reason": "the till is wrong"}).json()
    is_described_by(models.Paused, first)
    assert first["new"] and (first["by"], first["reason"]) == ("local", "the till is wrong")
    assert not http.put("/flows/wordy/pause").json()["new"]
    assert http.get("/paused").json() == {
        "wordy": {name: first[name] for name in ("at", "by", "reason")}
    }
    for _ in range(2):
        assert http.delete("/flows/wordy/pause").json() == {
            "flow": "wordy",
            "paused": False,
            "offered": 0,
        }
    assert http.get("/paused").json() == {}


# who


@pytest.mark.slow
def test_who_is_unknown_or_may_not_is_told_and_probes_need_nobody(
    server_settings: Settings, runs: dict[str, str]
) -> None:
    with (
        serving(server_settings, by_name) as address,
        httpx2.Client(base_url=f"{address}/api/v1", timeout=PATIENCE) as http,
    ):
        nobody = http.get("/runs")
        a_problem(nobody, 401, "unknown-caller")
        assert nobody.headers["www-authenticate"] == "Bearer"
        ann = {"Authorization": "Bearer ann:read"}
        a_problem(http.post("/runs", json=COUNTDOWN, headers=ann), 403, "forbidden")
        a_problem(http.get(f"/runs/{runs['queued']}", headers=ann), 404, "run-not-found")
        none = http.get("/runs", headers=ann).json()
        assert (none["runs"], none["cursor"], none["damaged"], set(none["counts"].values())) == (
            [],
            None,
            [],
            {0},
        )
        for path in ("/health", "/ready", "/openapi.json"):
            assert http.get(path).status_code == 200


# servers


def test_readiness_counts_the_workers(http: httpx2.Client) -> None:
    assert http.get("/health").json() == {"status": "up"}
    assert http.get("/ready").json() == {"status": "ready", "workers": 0}


@pytest.fixture
def lonely() -> Iterator[tuple[CrashableServer, httpx2.Client]]:
    """A state server that a test may kill, and a client of the web server on it."""
    with ExitStack() as stack:
        mine = stack.enter_context(server_of_its_own())
        address = stack.enter_context(serving(Settings(redis_url=mine.url)))
        yield (
            mine,
            stack.enter_context(httpx2.Client(base_url=f"{address}/api/v1", timeout=PATIENCE)),
        )


@pytest.mark.slow
def test_a_state_server_that_is_away_is_told_at_once_and_found_again(
    lonely: tuple[CrashableServer, httpx2.Client],
) -> None:
    mine, http = lonely
    run_id = submitted(http)["id"]
    mine.kill()
    for response in (
        http.get(f"/runs/{run_id}"),
        http.get("/runs"),
        http.post("/runs", json=COUNTDOWN),
        http.get("/ready"),
    ):
        a_problem(response, 503, "no-server")
        assert response.headers["retry-after"] == "2"
    assert http.get("/health").status_code == 200
    mine.restart()
    until(lambda: http.get("/ready").status_code == 200, "the server to be found again")
    assert http.get(f"/runs/{run_id}").json()["id"] == run_id


@contextmanager
def frozen(pid: int | None) -> Iterator[None]:
    """Suspend the process during the block."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_state_server_that_hangs_holds_up_neither_its_callers_for_long_nor_those_who_need_it_not(
    lonely: tuple[CrashableServer, httpx2.Client],
) -> None:
    mine, http = lonely
    submitted(http)
    answers: list[int] = []
    asking = [
        threading.Thread(target=lambda: answers.append(http.get("/runs").status_code))
        for _ in range(60)
    ]
    with frozen(mine.pid):
        for thread in asking:
            thread.start()
        for _ in range(50):  # more wait for the server than there are threads
            assert http.get("/health", timeout=5).status_code == 200
        for thread in asking:
            thread.join(2 * PATIENCE)
    assert answers == [503] * 60
    until(lambda: http.get("/ready").status_code == 200, "the server to be found again")


@pytest.mark.slow
def test_a_page_costs_the_server_the_same_however_many_runs_there_are(
    settings: Settings, prefix: str
) -> None:
    with (
        serving(settings) as address,
        httpx2.Client(base_url=f"{address}/api/v1", timeout=PATIENCE) as http,
    ):
        with_some, with_many = pages_cost(http, settings, 100), pages_cost(http, settings, 5_000)
    assert with_some == with_many


#: The commands of a connection that is opened.
CONNECTING = ("HELLO", "CLIENT")


def pages_cost(http: httpx2.Client, settings: Settings, count: int) -> list[dict[str, int]]:
    """Return the commands that some pages take, once this number of runs is queued."""
    client = Client(settings=settings)
    try:
        there = client._store.redis.zcard(client._store.keys.index("live"))
        fill(client, count - int(there))  # type: ignore[arg-type]
        costs = []
        cursor = http.get("/runs", params={"limit": 20}).json()["cursor"]
        for params in (
            {},
            {"limit": 20, "cursor": cursor},
            {"status": "queued"},
            {"status": "completed"},
        ):
            http.get("/runs", params=params)  # The first use of a script sends its text.
            with monitored(client._store) as counts:
                http.get("/runs", params=params).raise_for_status()
            # Whether a request needs another connection depends on how busy the machine is.
            costs.append({name: counts[name] for name in counts if name not in CONNECTING})
        return costs
    finally:
        client.close()


def fill(client: Client, count: int) -> None:
    """Queue this number of further runs: copies of one, made by the server itself."""
    run = client.submit("countdown", "wait")
    keys, server = client._store.keys, client._store.redis
    score = server.zscore(keys.index("live"), run.id)
    with server.pipeline(transaction=False) as pipe:
        for place in range(count - 1):
            pipe.copy(keys.run(run.id), keys.run(f"{run.id}-{place}"))
        pipe.zadd(keys.index("live"), {f"{run.id}-{place}": score for place in range(count - 1)})  # type: ignore[dict-item]
        pipe.execute()


# elsewhere


@pytest.mark.slow
def test_the_router_works_in_somebody_elses_app(
    server_settings: Settings, runs: dict[str, str]
) -> None:
    client = Client(settings=server_settings)
    app = FastAPI()
    app.get("/theirs/{path:path}", name="get_run")(lambda: "theirs")
    app.include_router(
        api_router(client, lambda request: Caller("shop", frozenset(Scope))), prefix="/shop/goals"
    )
    app.get("/late")(lambda: "late")
    try:
        with serving_app(app) as address, httpx2.Client(base_url=address, timeout=PATIENCE) as http:
            response = http.post("/shop/goals/runs", json=COUNTDOWN)
            assert response.headers["location"] == f"/shop/goals/runs/{response.json()['id']}"
            assert (
                http.get(response.headers["location"]).json()["details"]["submitted_by"] == "shop"
            )
            assert http.get("/shop/goals/health").status_code == 200
            a_problem(http.get("/shop/goals/nowhere"), 404, "no-such-path")
            a_problem(http.patch("/shop/goals/runs"), 405, "no-such-method")
            a_problem(http.post("/shop/goals/runs", content=b"{"), 415, "no-json")
            assert http.get("/late").json() == "late" and http.get("/theirs/x").json() == "theirs"
            assert http.get("/nowhere").json() == {"detail": "Not Found"}
            check_references(http.get("/openapi.json").json())
    finally:
        client.close()


# OpenAPI


def check_references(document: dict[str, Any]) -> None:
    """Check that every reference has a target."""
    for reference in found_in(document, "$ref"):
        kind, name = reference.removeprefix("#/components/").split("/")
        assert name in document["components"][kind], reference


def found_in(value: Any, name: str) -> Iterator[Any]:
    """Yield every value under this name, at any depth."""
    if isinstance(value, dict):
        yield from (value[name],) if name in value else ()
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from found_in(each, name)


def test_openapi_describes_every_call_whole(http: httpx2.Client) -> None:
    document = http.get("/openapi.json").json()
    check_references(document)
    assert "HTTPValidationError" not in document["components"]["schemas"]
    calls = {
        call["operationId"]: call for path in document["paths"].values() for call in path.values()
    }
    assert {
        "submit_run",
        "list_runs",
        "get_run",
        "delete_run",
        "stop_run",
        "resume_run",
        "retry_run",
        "why",
        "get_transcript",
    } <= set(calls)
    for name, call in calls.items():
        assert call["tags"] and call["description"], name
        for parameter in call.get("parameters", ()):
            assert parameter.get("description"), (name, parameter["name"])
        for status, response in call["responses"].items():
            kinds = list(response.get("content", ()))
            wanted = (
                []
                if status == "204"
                else ["application/json"]
                if status < "3"
                else ["application/problem+json"]
            )
            if status == "200":
                wanted = {
                    "get_artifact": ["text/plain"],
                    "get_file": ["application/octet-stream"],
                    "get_events": ["application/json", "text/event-stream"],
                    "get_stream": ["text/event-stream"],
                    "chat_with_ai_sdk": ["text/event-stream"],
                    "resume_ai_sdk_chat": ["text/event-stream"],
                    "chat_with_ag_ui": ["text/event-stream"],
                }.get(name, wanted)
            assert kinds == wanted, (name, status)
        public = name in ("health", "ready", "call_hook")
        assert call.get("security", []) == ([] if public else [{"token": []}]), name
        assert public or {"401", "403", "503"} <= set(call["responses"]), name
    for name, schema in document["components"]["schemas"].items():
        assert schema.get("description"), name
