"""Calls that an MCP service answers with an HTTP error: the round's error, what is in doubt,
and whether the session goes on.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from perdure.flows.core.errors import FatalError, OutcomeUnknown, RetryableError
from perdure.flows.executors.mcp import mcp_commands, transports
from perdure.flows.executors.mcp.results import ToolFailed
from perdure.flows.executors.mcp.transports import BODY
from perdure.flows.rounds.context import RoundContext
from tests.support.cases import Cases
from tests.support.cases import EachCase as Each
from tests.support.mcp_servers import context, needs_servers, no_server_stays
from tests.support.odd_mcp_service import Answer, OddService, error, odd_service, result
from tests.support.redis_servers import until

__all__ = ["context", "no_server_stays"]

pytestmark = needs_servers


def tool_of(service: OddService) -> Any:
    [command] = mcp_commands("odd", url=service.url, tools=["t"], timeout_seconds=5)
    return command


def words(status: int, text: str = "x must be odd", **headers: str) -> Answer:
    return Answer(text, status, "text/plain", headers)


def without_id(status: int) -> Answer:
    return Answer({"id": None, "error": {"code": -32603, "message": "x must be odd"}}, status)


#: Answers to a call, the class of the round's error, and its text.
ANSWERS: Cases = {
    "400 in words": (words(400), ToolFailed, "tool 't': HTTP 400: x must be odd"),
    "413": (words(413), ToolFailed, "HTTP 413: x must be odd"),
    "422": (Answer('{"detail": "x must be odd"}', 422), ToolFailed, "HTTP 422: .*x must be odd"),
    "404 in a session": (words(404), RetryableError, "HTTP 404: x must be odd"),
    "400 as JSON-RPC": (error(-32602, "no", 400, data=[1]), ToolFailed, r"'t': no; data: \[1\]"),
    "409 as JSON-RPC": (error(-32000, "closed", 409), ToolFailed, "tool 't': closed"),
    "500 as JSON-RPC": (error(-32603, "full", 500, data="c"), ToolFailed, "'t': full; data: .c."),
    "400 without the id": (without_id(400), ToolFailed, "HTTP 400: .*x must be odd"),
    "500 without the id": (without_id(500), OutcomeUnknown, "HTTP 500: .*x must be odd"),
    "500 in words": (words(500), OutcomeUnknown, "HTTP 500: x must be odd"),
    "502": (words(502), OutcomeUnknown, "HTTP 502"),
    "502 as JSON-RPC": (error(-32000, "upstream reset", 502), OutcomeUnknown, "upstream reset"),
    "504 as JSON-RPC": (error(-32000, "timed out", 504), OutcomeUnknown, "timed out"),
    "503 as JSON-RPC": (error(-32000, "full", 503), OutcomeUnknown, "busy .*full"),
    "403 as JSON-RPC": (error(-32000, "no", 403), FatalError, "refuses the credentials"),
    "202": (Answer(status=202), OutcomeUnknown, "202 Accepted"),
    "200 with a page": (Answer("<html>", 200, "text/html"), OutcomeUnknown, "text/html"),
    "200 with half a body": (Answer('{"jsonrpc": "2.0", "re'), OutcomeUnknown, "Failed to parse"),
    "200 as JSON-RPC": (error(-32600, "Unexpected type"), ToolFailed, "Unexpected type"),
    "408": (words(408), RetryableError, "HTTP 408"),
    "429": (words(429), RetryableError, "busy .HTTP 429: x must be odd"),
    "503 of a gateway": (words(503, "reset before headers"), OutcomeUnknown, "busy .*reset"),
    "503 that says when": (words(503, Retry_After="2"), RetryableError, "busy"),
    "401": (words(401), FatalError, "HTTP 401: x must be odd"),
}


def test_an_http_error_keeps_its_content_and_is_in_doubt_where_it_may_have_been_done(
    each_case: Each,
) -> None:
    def check(answer: Answer, kind: type[Exception], text: str) -> None:
        with odd_service() as service:
            service.answer = lambda asked: answer
            with pytest.raises(kind, match=text) as failed:
                tool_of(service).carry_out({}, RoundContext("g"))
            assert type(failed.value) is kind
            assert service.asked.count("tools/call") == 1

    each_case(ANSWERS, check)


def test_a_session_outlives_refusals_and_faults_of_its_server(context: RoundContext) -> None:
    with odd_service() as service:
        for answer in (words(400), words(422), words(500), error(-32603, "no", 500)):
            service.answer = lambda asked, answer=answer: answer  # type: ignore[misc]
            with pytest.raises((ToolFailed, OutcomeUnknown)):
                tool_of(service).carry_out({}, context)
        service.answer = lambda asked: result()
        assert tool_of(service).carry_out({}, context) == "ok"
        assert service.asked.count("initialize") == 1


def test_a_fault_in_reading_an_outcome_leaves_the_session_alone(
    context: RoundContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with odd_service() as service:
        assert tool_of(service).carry_out({}, context) == "ok"
        monkeypatch.setattr(transports, "_seconds", lambda header: 1 / 0)
        assert tool_of(service).carry_out({}, context) == "ok"
        assert service.asked.count("initialize") == 1


def test_a_session_lost_with_status_500_is_opened_again(context: RoundContext) -> None:
    with odd_service() as service:
        assert tool_of(service).carry_out({}, context) == "ok"
        service.lost = words(500, "unknown session")
        service.sessions.clear()
        with pytest.raises(OutcomeUnknown, match="unknown session"):
            tool_of(service).carry_out({}, context)
        assert tool_of(service).carry_out({}, context) == "ok"
        assert service.asked.count("initialize") == 2


def test_a_service_behind_a_redirect_can_be_used(each_case: Each) -> None:
    def check(answer: Answer, kind: type[Exception], text: str) -> None:
        with odd_service() as service:
            service.has_moved = True
            assert tool_of(service).carry_out({}, RoundContext("g")) == "ok"
            service.answer = lambda asked: answer
            with pytest.raises(kind, match=text) as failed:
                tool_of(service).carry_out({}, RoundContext("g"))
            assert type(failed.value) is kind

    each_case({status: ANSWERS[status] for status in ("401", "413", "429", "500 in words")}, check)


def test_a_secret_at_the_limit_of_a_body_is_not_shown_in_part(
    context: RoundContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", "sk-verysecretvalue-0123456789")
    with odd_service() as service:
        service.answer = lambda asked: words(
            422, "y" * (BODY - 10) + "sk-verysecretvalue-0123456789"
        )
        [command] = mcp_commands(
            "odd", url=service.url, headers={"Authorization": "Bearer env:A_TOKEN"}, tools=["t"]
        )
        with pytest.raises(ToolFailed, match="HTTP 422: yyy") as failed:
            command.carry_out({}, context)
    assert "sk-" not in str(failed.value)


FAULTS = {
    **{str(status): words(status) for status in (400, 401, 404, 422, 500)},
    "429 until no date": words(429, Retry_After=f"Wed, 21 Oct {'9' * 20} 07:28:00 GMT"),
    "no response": Answer(breaks=True),
    "half a response": Answer(result().body, breaks=True),
    "half an error": Answer("x must be odd", 422, "text/plain", breaks=True),
    "half an event": Answer("data: {", kind="text/event-stream", breaks=True),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_error_of_one_call_leaves_the_calls_of_other_runs_alone(
    fault: str, context: RoundContext
) -> None:
    refused = threading.Event()

    def answer(asked: dict[str, Any]) -> Answer:
        if asked["params"]["arguments"]:
            return FAULTS[fault]
        refused.wait(10)
        return result("paid")

    with odd_service() as service, ThreadPoolExecutor(1) as rounds:
        service.answer = answer
        command = tool_of(service)
        paying = rounds.submit(command.carry_out, {}, context)
        until(lambda: "tools/call" in service.asked, "the call of the other run")
        with pytest.raises((ToolFailed, RetryableError, FatalError)) as failed:
            command.carry_out({"x": 2}, RoundContext("g"))
        may_be_done = fault in ("500", "no response", "half a response", "half an event")
        assert isinstance(failed.value, OutcomeUnknown) == may_be_done
        refused.set()
        assert paying.result(20) == "paid"
        assert command.carry_out({}, RoundContext("g")) == "paid"
