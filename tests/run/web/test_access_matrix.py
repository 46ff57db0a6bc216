"""The rights on every route: with each scope and without, on one's own run, another's and none.

The table is ROWS; ``expected`` is how it is read. A route without a row fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import unified_diff
from itertools import count
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts
from httpx2 import Response

from perdure import CircularFlow, File, Node, RoundContext, register
from perdure.flows.core.files import artifacts_of
from perdure.worker.store import Claim
from perdure.worker.web import Scope
from perdure.worker.web.dashboard.page import NOTICE
from tests.support.in_process_server import Site, csrf_of, site_on
from tests.support.redis_servers import CrashableServer
from tests.support.runs import everything, fail_round, try_claim

READ, READ_ALL, SUBMIT, ANSWER, ANSWER_ALL, STOP, SIGNAL, ADMIN, SIGN_IN = Scope
API = "/api/v1"
#: A route's demand on its caller: none; a known caller; or scopes.
PUBLIC, KNOWN = None, ()
#: Answered without looking at the caller: paths without a route, and files that are the same for
#: all callers.
NOBODYS = {f"{API}/{{path:rest}}", "/static"}
#: Callers with a good token: ann's with one scope each, with none, with the scopes that a person
#: needs who fills in forms; an administrator's.
FRIENDS: dict[str, set[Scope]] = {scope.value: {scope} for scope in Scope}
FRIENDS |= {"no scope": set(), "read, submit": {READ, SUBMIT}, "read, answer": {READ, ANSWER}}
FRIENDS |= {
    "read-all, answer-all": {READ_ALL, ANSWER_ALL},
    "read-all, submit, stop": {READ_ALL, SUBMIT, STOP},
}
STRANGERS = ("no token", "nonsense", "unknown", "expired", "revoked")
OWN, ANOTHERS, MISSING = "own", "another's", "missing"


@dataclass(frozen=True)
class Row:
    """A call: the scopes that it takes (checked in this order), the state of its run, and the
    answer to a caller with those scopes.

    ``missing``: the answer to an administrator if there is no such run.
    """

    call: str
    scopes: tuple[Scope, ...] | None
    state: str
    status: int
    missing: int = 404
    given: dict[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        return self.call.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.call.partition(" ")[2]

    @property
    def is_of_a_run(self) -> bool:
        return "{run_id}" in self.path

    @property
    def is_a_page(self) -> bool:
        return not self.path.startswith((API, "/metrics", "/mcp", "/v1"))


def row(
    call: str,
    scopes: Scope | tuple[Scope, ...] | None,
    state: str,
    status: int,
    missing: int = 404,
    **given: Any,
) -> Row:
    return Row(
        call, (scopes,) if isinstance(scopes, Scope) else scopes, state, status, missing, given
    )


def api(call: str, *rest: Any, **given: Any) -> Row:
    method, _, path = call.partition(" ")
    return row(f"{method} {API}{path}", *rest, **given)


#: An MCP client's request to list the tools.
LIST_TOOLS = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
MCP_HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/list",
}
#: A chat that ends with a person's message to a run.
TOLD = {
    "model": "exposed",
    "messages": [{"role": "tool", "tool_call_id": "nothing/0:0", "content": "approve"}],
}


@register("exposed")
class Exposed(CircularFlow):
    """As little as can be exposed to other clients."""

    expose = ("mcp", "openai")
    topology = (Node("Controller", "end", role="controller"),)

    def end(self, state: dict[str, Any], context: RoundContext) -> dict[str, Any]:
        return {self.early_exit_key: True, "answer": "played"}


LATER = {"follow": "false"}
AI_SDK = {
    "id": "c",
    "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "g"}]}],
}
AG_UI = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "g"}]}
#     call                                    scopes            run        may   no such run (admin)
ROWS = [
    api("GET /openapi.json",                   PUBLIC,           "",        200),
    api("GET /health",                         PUBLIC,           "",        200),
    api("GET /ready",                          PUBLIC,           "",        200),
    api("POST /hooks/{run}/{name}/{secret}",   PUBLIC,           "",        404),
    api("POST /runs",                          SUBMIT,           "",        201, json={"flow": "countdown", "goal": "g"}),
    api("GET /runs",                           READ,             "",        200),
    api("GET /errors",                         READ,             "",        200),
    api("GET /runs/{run_id}",                  READ,             "queued",  200),
    api("DELETE /runs/{run_id}",               ADMIN,            "stopped", 204),
    api("GET /runs/{run_id}/why",              READ,             "queued",  200),
    api("GET /runs/{run_id}/transcript",       READ,             "queued",  200),
    api("GET /runs/{run_id}/events",           READ,             "queued",  200),
    api("GET /runs/{run_id}/stream",           READ,             "queued",  200),
    api("POST /flows/{name}/ai-sdk",           (READ, SUBMIT),   "",        200, params=LATER, json=AI_SDK),
    api("GET /flows/{name}/ai-sdk/{chat}/stream", READ,          "",        204),
    api("POST /flows/{name}/ag-ui",            (READ, SUBMIT),   "",        200, params=LATER, json=AG_UI),
    api("POST /runs/{run_id}/stop",            STOP,             "queued",  200, 200),
    api("POST /runs/{run_id}/resume",          ANSWER,           "asks",    200),
    api("POST /runs/{run_id}/limits",          ANSWER,           "queued",  200, json={"add": {"seconds": 5}}),
    api("POST /runs/{run_id}/retry",           SUBMIT,           "errored", 200),
    api("POST /runs/{run_id}/fork",            (SUBMIT, READ),   "queued",  201, json={"at": 0}),
    api("POST /runs/{run_id}/signals/{name}",  SIGNAL,           "queued",  202),
    api("POST /runs/{run_id}/asks/{name}",     SIGNAL,           "queued",  202),
    api("GET /runs/{run_id}/asks/{name}/{number}", SIGNAL,       "asked",   202),
    api("GET /runs/{run_id}/signals",          READ,             "queued",  200),
    api("GET /runs/{run_id}/values",           READ,             "queued",  200),
    api("GET /runs/{run_id}/values/{name:rest}", READ,             "queued",  404),  # it has none yet
    api("POST /topics/{topic}/signals/{name}", SIGNAL,           "",        202),
    api("POST /threads/{thread}/messages",     SUBMIT,           "",        202, json={"flow": "countdown", "text": "g"}),
    api("GET /threads/{thread}/messages",      READ,             "",        200),
    api("GET /runs/{run_id}/children",         READ,             "queued",  200),
    api("GET /runs/{run_id}/tree",             READ,             "queued",  200),
    api("GET /runs/{run_id}/prompt",           READ,             "queued",  422, params={"step": 0}),  # it asks no model
    api("GET /runs/{run_id}/artifacts",        READ,             "queued",  200),
    api("GET /runs/{run_id}/artifacts/{name:rest}", READ,        "queued",  200),
    api("GET /runs/{run_id}/files",            READ,             "queued",  200),
    api("GET /runs/{run_id}/files/{name:rest}", READ,            "queued",  200),
    api("POST /stops",                         STOP,             "",        200, json={"status": "queued"}),
    api("POST /retries",                       SUBMIT,           "",        200, json={"flow": None}),
    api("POST /deletions",                     ADMIN,            "",        200, json={"status": "completed", "flow": None}),
    api("GET /inbox",                          READ,             "",        200),
    api("GET /flows",                          READ,             "",        200),
    api("GET /flows/{name}",                   READ,             "",        200),
    api("PUT /flows/{name}/pause",             ADMIN,            "",        200),
    api("DELETE /flows/{name}/pause",          ADMIN,            "",        200),
    api("GET /paused",                         READ,             "",        200),
    api("GET /stuck",                          READ,             "",        200),
    api("GET /queues",                         READ,             "",        200),
    api("GET /dead-letters",                   ADMIN,            "",        200),
    api("GET /notifications",                  ADMIN,            "",        200),
    api("POST /notifications/send",            ADMIN,            "",        200),
    api("GET /notifications/{notification}",   ADMIN,            "",        404),  # there is none
    api("DELETE /notifications/{notification}", ADMIN,           "",        404),  # there is none
    api("POST /notification-rules/{rule}/test", ADMIN,           "",        404),  # there is none
    api("POST /notifications/{notification}/send", ADMIN,        "",        404),  # there is none
    api("GET /workers",                        READ,             "",        200),
    api("GET /notes",                          ADMIN,            "",        200),
    api("GET /notes/{namespace}",              ADMIN,            "",        200),
    api("PUT /notes/{namespace}/{key}",        ADMIN,            "",        200, json={"text": "x"}),
    api("DELETE /notes/{namespace}",           ADMIN,            "",        200),
    api("DELETE /notes/{namespace}/{key}",     ADMIN,            "",        200),
    api("GET /doctor",                         ADMIN,            "",        200),
    row("GET /metrics",                        READ,             "",        200),
    row("POST /mcp",                           READ,             "",        200, json=LIST_TOOLS, headers=MCP_HEADERS),
    row("GET /v1/models",                      READ,             "",        200),
    row("GET /v1/models/{name}",               READ,             "",        404),  # it is not exposed
    row("POST /v1/responses",                  (READ, SUBMIT),   "",        200, json={"model": "exposed", "input": "g", "background": True}),
    row("GET /v1/responses/{run_id}",          READ,             "exposed", 200),
    row("POST /v1/responses/{run_id}/cancel",  (READ, STOP),     "exposed", 200),
    row("POST /v1/chat/completions",           (READ, ANSWER),   "",        404, json=TOLD),  # there is no such run
    row("GET /login",                          PUBLIC,           "",        200),
    row("POST /login",                         PUBLIC,           "",        401, data={"token": "x"}),
    row("POST /logout",                        PUBLIC,           "",        303),
    row("GET /",                               KNOWN,            "",        303),
    row("POST /theme",                         KNOWN,            "",        303),
    row("GET /runs",                           READ,             "",        200),
    row("GET /runs/{run_id}",                  READ,             "queued",  200),
    row("POST /runs/{run_id}/stop",            STOP,             "queued",  303, 303),
    row("POST /runs/{run_id}/resume",          ANSWER,           "stopped", 303),
    row("POST /runs/{run_id}/retry",           SUBMIT,           "errored", 303),
    row("POST /runs/{run_id}/fork",            (SUBMIT, READ),   "queued",  303, data={"at": "0"}),
    row("POST /runs/{run_id}/delete",          ADMIN,            "stopped", 303),
    row("POST /runs/{run_id}/signals",         SIGNAL,           "queued",  303, data={"name": "paid"}),
    row("POST /runs/{run_id}/say",             SIGNAL,           "queued",  303, data={"words": "look"}),
    row("GET /runs/{run_id}/answer",           READ,             "asks",    200),
    row("POST /runs/{run_id}/answer",          (READ, ANSWER),   "asks",    303),
    row("GET /runs/{run_id}/turns/{digest}",   READ,             "queued",  404),  # it has none yet
    row("GET /runs/{run_id}/turns/{digest}/observation", READ,   "queued",  404),
    row("GET /overview",                       READ,             "",        200),
    row("GET /runs/{run_id}/compare",          READ,             "queued",  200),
    row("GET /runs/{run_id}/steps/{step}",     READ,             "queued",  200),
    row("GET /runs/{run_id}/steps/{step}/prompt", READ,          "queued",  422),  # it asks no model
    row("GET /runs/{run_id}/artifacts/{name:path}", READ,        "queued",  200),
    row("POST /filters",                       READ,             "",        303, data={"name": "mine", "query": "status=errored"}),
    row("POST /filters/forget",                READ,             "",        303, data={"name": "mine"}),
    row("GET /chosen",                         READ,             "",        200, params={"action": "stop"}),
    row("POST /chosen",                        STOP,             "",        303, data={"action": "stop", "run": "mine"}),
    row("POST /flows/{name}/pause",            ADMIN,            "",        303),
    row("POST /flows/{name}/unpause",          ADMIN,            "",        303),
    row("GET /inbox",                          READ,             "",        200),
    row("GET /start",                          READ,             "",        200),
    row("POST /start",                         (READ, SUBMIT),   "",        303, data={"flow": "countdown", "goal": "g"}),
    row("GET /fleet",                          READ,             "",        200),
    row("GET /stuck",                          READ,             "",        200),
    row("GET /notifications",                  ADMIN,            "",        200),
    row("POST /notifications",                 ADMIN,            "",        303),
    row("POST /notifications/{notification}/send", ADMIN,        "",        404),  # there is none
    row("GET /sign-in",                        PUBLIC,           "",        200),
    row("POST /sign-in",                       PUBLIC,           "",        401, data={"code": "x"}),
]  # fmt: skip


def expected(row: Row, who: str, whose: str) -> int:
    """Return the status of a cell."""
    if row.scopes is PUBLIC:
        return row.status
    if who in STRANGERS:
        return 303 if row.is_a_page else 401
    has = FRIENDS[who]
    if ADMIN in has:
        return row.missing if whose is MISSING else row.status
    for scope in row.scopes:
        wider = {READ: READ_ALL, ANSWER: ANSWER_ALL}.get(scope)
        if not has & {scope, wider}:
            return 403
        if not row.is_of_a_run or whose is OWN:
            continue
        if wider in has:
            if whose is MISSING:
                return row.missing
            continue
        if READ_ALL in has and row.path.endswith("/fork"):  # a run of the caller's own comes of it
            continue
        return 403 if READ_ALL in has and whose is ANOTHERS else 404
    return row.missing if whose is MISSING else row.status


@pytest.fixture(scope="module")
def site(server: CrashableServer) -> Iterator[Site]:
    with site_on(server) as made:
        yield made


class Asker:
    """A caller with a token, or without; their browser has seen a page, so that its forms are no
    obstacle.
    """

    def __init__(self, site: Site, token: str | None) -> None:
        self.site, self.token = site, token
        self._browser = site.asking(token)

    def ask(self, row: Row, run_id: str = "") -> Response:
        if NOTICE in self._browser.cookies:  # the next page's notice of the change before
            del self._browser.cookies[NOTICE]
        if "perdure" not in self._browser.cookies:
            self._browser.headers["x-csrf-token"] = csrf_of(self._browser)
        path = (
            row.path.replace("{run_id}", run_id)
            .replace("{digest}", "none")
            .replace("{step}", "0")
            .replace("{number}", "1")
            .replace("{name:rest}", "log")
            .replace("{name:path}", "log")
            .replace("{name}", "countdown")
            .replace("{topic}", "order:1")
            .replace("{thread}", "talk")
            .replace("{namespace}", "user:ada")
            .replace("{key}", "drink")
            .replace("{chat}", "none")
            .replace("{run}", "run-000001")
            .replace("{secret}", "0" * 32)
        )
        return self._browser.request(row.method, path, **row.given)


@pytest.fixture(scope="module")
def askers(site: Site) -> dict[str, Asker]:
    """Each caller by name."""
    tokens: dict[str, str | None] = {
        "no token": None,
        "nonsense": "x",
        "unknown": f"hf_{'0' * 16}_{'x' * 43}",
    }
    for who, scopes in FRIENDS.items():
        name = "root" if ADMIN in scopes else "ann"
        tokens[who] = (
            site.token(name, *(scope.value for scope in scopes))
            if scopes
            else site.token_without_scopes(name)
        )
    tokens["revoked"] = site.token("ann")
    site.tokens.revoke(str(tokens["revoked"])[3:19])
    store = site.client._store
    store.now = store.time() - 10_000
    tokens["expired"] = site.tokens.create("ann", set(Scope) - {SIGN_IN}, timedelta(seconds=1)).text
    store.now = None
    site.tokens.signing_key()  # made at the first cookie, for any caller
    return {who: Asker(site, tokens[who]) for who in (*STRANGERS, *FRIENDS)}


numbers = count(1)


def run_of(site: Site, owner: str, state: str) -> str:
    """Return a run of this owner; all ids are of one length."""
    run_id, store = f"run-{next(numbers):06d}", site.client._store
    nodes = ["Controller"] if state == "asks" else None
    flow, inputs = ("exposed", {}) if state == "exposed" else ("countdown", {"rounds": 1})
    site.client.submit(
        flow, "g", inputs, run_id=run_id, submitted_by=owner, interrupt_before=nodes,
        budgets={"seconds": 1_000},
    )  # fmt: skip
    artifacts = {"log": "all is well"} | artifacts_of("log", File("log", b"x", "text/plain"))
    store.redis.hset(store.keys.artifacts(run_id), mapping=artifacts)
    if state == "errored":
        site.client.unpause_flow("countdown")  # a row may have paused it
        granted = try_claim(store, run_id, known=("countdown",))
        assert isinstance(granted, Claim)
        fail_round(store, granted, max_failures=1)
    if state == "asked":
        site.client.signal(run_id, "countdown")
    if state == "stopped":
        site.client.request_stop(run_id, "now")
    return run_id


def targets(site: Site, row: Row) -> dict[str, str]:
    """Return the run of each kind; a call about no run has none."""
    if not row.is_of_a_run:
        return {OWN: ""}
    return {
        OWN: run_of(site, "ann", row.state),
        ANOTHERS: run_of(site, "bob", row.state),
        MISSING: f"run-{next(numbers):06d}",
    }


def test_every_route_has_a_row(site: Site) -> None:
    routes = {
        f"{method} {context.path}"
        for context in iter_route_contexts(site.app.routes)
        if context.path not in NOBODYS
        for method in (context.methods or {"ANY"}) - {"HEAD"}
    }
    assert routes == {row.call for row in ROWS}
    assert len({row.call for row in ROWS}) == len(ROWS)


def fault(row: Row, answer: Response, who: str, whose: str) -> str:
    """Describe the fault in the answer to a cell; '' for none."""
    status = expected(row, who, whose)
    to_login = answer.status_code == 303 and answer.headers["location"].startswith("/login")
    right = to_login is (
        (who in STRANGERS and status == 303 and row.scopes is not PUBLIC) or row.path == "/logout"
    )
    return (
        ""
        if answer.status_code == status and right
        else f"{who}, {whose}: {answer.status_code}, not {status}: {answer.text}"
    )


def test_a_stranger_and_one_without_scopes_are_refused_wherever_it_matters(
    site: Site, askers: dict[str, Asker]
) -> None:
    run_id = run_of(site, "ann", "queued")
    faults = [
        fault(row, askers[who].ask(row, run_id), who, OWN)
        for row in ROWS
        if row.scopes
        for who in ("no token", "no scope")
    ]
    assert len(faults) > 80 and not [each for each in faults if each]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.call.replace(API, ""))
def test_who_may_and_who_may_not(site: Site, askers: dict[str, Asker], row: Row) -> None:
    runs = targets(site, row)
    cells = [(who, whose) for who in askers for whose in runs]
    refused = [
        cell
        for cell in cells
        if row.scopes is not PUBLIC and (cell[0] in STRANGERS or expected(row, *cell) in (403, 404))
    ]
    before = everything(site.client._store)
    faults = [fault(row, askers[who].ask(row, runs[whose]), who, whose) for who, whose in refused]
    assert everything(site.client._store) == before, "who is refused changes nothing"
    for who, whose in [cell for cell in cells if cell not in refused]:
        fresh = runs if row.method == "GET" else targets(site, row)
        faults.append(fault(row, askers[who].ask(row, fresh[whose]), who, whose))
    assert not [each for each in faults if each]
    told = {expected(row, *cell) for cell in refused}
    assert told >= ({403} if row.scopes else set()) | ({404} if row.is_of_a_run else set())


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.is_of_a_run], ids=lambda row: row.call.replace(API, "")
)
@pytest.mark.parametrize("damaged", [False, True], ids=["", "damaged"])
def test_anothers_run_is_told_as_one_that_is_not_there(
    site: Site, askers: dict[str, Asker], row: Row, damaged: bool
) -> None:
    """Byte by byte, but for its id; also where it is damaged."""
    runs = targets(site, row)
    if damaged:
        site.client._store.redis.hset(
            site.client._store.keys.run(runs[ANOTHERS]), mapping={"step": "x", "digest": "y"}
        )
    for who, scopes in FRIENDS.items():
        if scopes & {ADMIN, READ_ALL} or (ANSWER_ALL in scopes and ANSWER in (row.scopes or ())):
            continue
        heard = {
            whose: askers[who].ask(row, run_id)
            for whose, run_id in runs.items()
            if whose is not OWN
        }
        told = {
            (each.status_code, str(each.headers), each.text.replace(runs[whose], "RUN"))
            for whose, each in heard.items()
        }
        first, *others = sorted(told)
        assert not others, list(unified_diff(repr(first).split(","), repr(others[0]).split(",")))
        assert first[0] == expected(row, who, MISSING)
