"""Sessions with MCP services that forget them, hang, change their tools, or have errors of their
own.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from perdure.flows.core.errors import (
    BadReply,
    FatalError,
    OutcomeUnknown,
    RetryableError,
    RoundStopped,
)
from perdure.flows.executors.mcp import liveness, mcp_commands, session
from perdure.flows.executors.mcp.event_loop import background
from perdure.flows.executors.mcp.results import ToolFailed
from perdure.flows.rounds.context import RoundContext
from tests.support.cases import Cases
from tests.support.cases import EachCase as Each
from tests.support.mcp_servers import context, needs_servers, no_server_stays
from tests.support.odd_mcp_service import TOOL, Answer, OddService, error, odd_service, result
from tests.support.redis_servers import until

__all__ = ["context", "no_server_stays"]

pytestmark = needs_servers


def tool_of(service: OddService, name: str = "t", seconds: float = 5) -> Any:
    [command] = mcp_commands(
        "odd", url=service.url, tools=[name], timeout_seconds=seconds, start_seconds=5
    )
    return command


#: The tool as the service declares it after a change.
NEEDS_Z = {"name": "t", "inputSchema": {"type": "object", "required": ["z"], "properties": {}}}


def says_that_the_list_changed(asked: dict[str, Any]) -> Answer:
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result().body["result"]}
    events = "".join(f"data: {json.dumps(each)}\n\n" for each in (changed, answer))
    return Answer(events, kind="text/event-stream")


LOST: Cases = {
    "404, as the official server says it": (error(-32001, "Session not found", 404),),
    "404 with a request error": (error(-32600, "Session has been terminated", 404),),
    "404 with the code of wrong parameters": (error(-32602, "Session not found", 404),),
    "404 with the code of an unknown method": (error(-32601, "Session not found", 404),),
    "404 without the id of the request": (
        Answer({"id": None, "error": {"code": -32602, "message": "Session not found"}}, 404),
    ),
    "404 with another id": (
        Answer({"id": "server-error", "error": {"code": -32602, "message": "no session"}}, 404),
    ),
    "410": (Answer("Gone", 410, "text/plain"),),
    "404 in words": (Answer("Not Found", 404, "text/plain"),),
    "400 with the code of wrong parameters": (error(-32602, "No valid session ID", 400),),
    "400": (error(-32000, "Bad Request: No valid session ID provided", 400),),
    "400 in words": (Answer("No valid session ID provided", 400, "text/plain"),),
}


def test_a_session_that_a_service_has_lost_is_opened_again_and_nothing_is_in_doubt(
    each_case: Each,
) -> None:
    def check(lost: Answer) -> None:
        with odd_service() as service:
            service.lost = lost
            command, context = tool_of(service), RoundContext("g")
            assert command.carry_out({}, context) == "ok"
            service.sessions.clear()
            with pytest.raises(RetryableError) as failed:
                command.carry_out({}, context)
            assert not isinstance(failed.value, OutcomeUnknown)
            assert command.carry_out({}, context) == "ok"
            assert service.asked.count("initialize") == 2

    each_case(LOST, check)


@pytest.mark.parametrize("code", [-32001, -32000, -32603, 7])
def test_an_error_of_a_tool_is_shown_whatever_its_code_is(code: int, context: RoundContext) -> None:
    with odd_service() as service:
        service.answer = lambda asked: error(code, "record not found")
        for _ in range(2):
            with pytest.raises(ToolFailed, match="record not found"):
                tool_of(service).carry_out({}, context)
        assert service.asked.count("initialize") == 1


#: Errors of tools that begin like those of the client library.
ALIKE: Cases = {
    "parse": (-32600, "Failed to parse the amount 'x7'"),
    "parse, with the library's code": (-32700, "Failed to parse SQL near 'selct'"),
    "closed": (-32000, "Connection closed: nothing is paid"),
    "stream": (-32000, "SSE stream of the ticker is off on Sundays"),
    "the library's words with another code": (-32603, "SSE stream failed: no ticker"),
    "202": (-32600, "server answered a request with 202 rows"),
    "type": (-32600, "Unexpected content type in the order"),
}


def test_an_error_of_a_tool_that_begins_like_a_broken_connection_is_its_own(
    each_case: Each,
) -> None:
    def check(code: int, message: str) -> None:
        with odd_service() as service:
            service.answer = lambda asked: error(code, message)
            with pytest.raises(ToolFailed, match=message):
                tool_of(service).carry_out({}, RoundContext("g"))
            assert "ping" not in service.asked

    each_case(ALIKE, check)


#: Messages and data of errors, and the round's error for them.
DATA: Cases = {
    "an object": ("no", {"b": 1, "a": "ü"}, r'^tool \'t\': no; data: {"a": "ü", "b": 1}$'),
    "a text": ("no", "full", r'^tool \'t\': no; data: "full"$'),
    "no message": ("", [1], r"^tool 't': error -32000; data: \[1\]$"),
    "neither": ("", None, r"^tool 't': error -32000$"),
}


def test_an_error_of_a_server_keeps_its_data(each_case: Each) -> None:
    def check(message: str, data: Any, text: str) -> None:
        with odd_service() as service:
            service.answer = lambda asked: error(-32000, message, data=data)
            with pytest.raises(ToolFailed, match=text):
                tool_of(service).carry_out({}, RoundContext("g"))

    each_case(DATA, check)


@pytest.mark.parametrize(
    "schema", [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "strange"}]
)
def test_a_result_that_does_not_fit_the_tools_own_schema_is_the_result(
    schema: dict[str, Any], context: RoundContext
) -> None:
    with odd_service() as service:
        service.tools = [{**TOOL, "outputSchema": schema}]
        command = tool_of(service)
        assert command.carry_out({}, context) == "ok"
        odd = {"content": [{"type": "odd", "of": 1}], "structuredContent": {"n": "one"}}
        service.answer = lambda asked: Answer({"result": odd})
        told = {"result": {"n": "one"}, "text": '{"type": "odd", "of": 1}'}
        assert command.carry_out({}, context) == told


def test_a_result_without_any_field_of_the_protocol_is_the_result(context: RoundContext) -> None:
    with odd_service() as service:
        for odd, told in (({"order": 7}, '{"order": 7}'), ({}, "")):
            service.answer = lambda asked, odd=odd: Answer({"result": odd})  # type: ignore[misc]
            assert tool_of(service).carry_out({}, context) == told


def test_a_result_that_asks_for_unknown_input_is_no_success(context: RoundContext) -> None:
    asks = {"resultType": "input_required", "inputRequests": {"a": {"method": "other/thing"}}}
    with odd_service() as service:
        for odd in (asks, {"task": {"taskId": "1", "status": "working"}}):
            service.answer = lambda asked, odd=odd: Answer({"result": odd})  # type: ignore[misc]
            with pytest.raises(ToolFailed):
                tool_of(service).carry_out({}, context)


def test_a_call_whose_result_cannot_be_converted_is_in_doubt_and_has_not_failed(
    context: RoundContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise AttributeError("no such attribute")

    monkeypatch.setattr(session, "observation_of", broken)
    with odd_service() as service, pytest.raises(OutcomeUnknown, match="AttributeError"):
        tool_of(service).carry_out({}, context)


def test_a_service_that_hangs_gets_a_new_session_if_a_ping_has_no_answer(
    context: RoundContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "PING_SECONDS", 0.2)
    with odd_service() as service:
        service.answer, service.pong = lambda asked: None, None
        with pytest.raises(OutcomeUnknown, match=r"no answer within 0.2 s"):
            tool_of(service, seconds=0.2).carry_out({}, context)
        service.answer = lambda asked: result()
        assert tool_of(service).carry_out({}, context) == "ok"
        assert service.asked.count("initialize") == 2


def test_a_call_that_ends_after_the_close_of_its_session_has_begun_sends_no_ping(
    context: RoundContext,
) -> None:
    async def race() -> None:
        living = await background.session("odd", command.takes.server)
        calling = asyncio.create_task(living.call("t", {}, 0.2))
        await asyncio.sleep(0)
        await living.ping.end(0)
        with pytest.raises(OutcomeUnknown, match=r"no answer within 0.2 s"):
            await calling
        assert living.ping._pending is None

    with odd_service() as service:
        service.answer = lambda asked: None
        command = tool_of(service)
        background.run(race(), context.cancelled)


def test_a_service_that_is_only_slow_keeps_its_session(context: RoundContext) -> None:
    with odd_service() as service:
        service.answer = lambda asked: None
        with pytest.raises(OutcomeUnknown, match=r"no answer within 0.2 s"):
            tool_of(service, seconds=0.2).carry_out({}, context)
        until(lambda: "ping" in service.asked, "the ping")
        service.answer = lambda asked: result()
        assert tool_of(service).carry_out({}, context) == "ok"
        assert service.asked.count("initialize") == 1


def test_a_tool_that_a_service_adds_is_found_without_a_new_session(context: RoundContext) -> None:
    with odd_service() as service:
        with pytest.raises(FatalError, match="has no tool 'later'"):
            tool_of(service, "later").carry_out({}, context)
        service.tools = [TOOL, {**TOOL, "name": "later"}]
        assert tool_of(service, "later").carry_out({}, context) == "ok"
        assert service.asked.count("initialize") == 1


def test_a_list_that_changed_is_read_again_before_arguments_are_checked(
    context: RoundContext,
) -> None:
    with odd_service() as service:
        command = tool_of(service)
        command.check({"x": 1})
        service.answer = says_that_the_list_changed
        command.carry_out({"x": 1}, context)
        service.tools = [NEEDS_Z]
        with pytest.raises(BadReply, match="'z' is a required property"):
            command.check({"x": 1})


def test_a_list_whose_reading_was_cancelled_is_read_again(context: RoundContext) -> None:
    with odd_service() as service, ThreadPoolExecutor(1) as rounds:
        command = tool_of(service)
        service.answer = says_that_the_list_changed
        command.carry_out({"x": 1}, context)
        service.tools, service.page = [NEEDS_Z], lambda asked: None
        reading = rounds.submit(background.run, command.takes._declaration(), context.cancelled)
        until(lambda: service.asked.count("tools/list") == 2, "the reading of the list")
        context.cancelled.set()
        with pytest.raises(RoundStopped):
            reading.result(20)
        service.page = None
        with pytest.raises(BadReply, match="'z' is a required property"):
            command.check({"x": 1})


def test_arguments_are_refused_by_no_schema_that_is_old(context: RoundContext) -> None:
    with odd_service() as service:
        command = tool_of(service)
        with pytest.raises(BadReply, match="is not of type 'integer'"):
            command.check({"x": "one"})
        service.tools = [{"name": "t", "inputSchema": {"type": "object"}}]
        command.check({"x": "one"})


@pytest.mark.parametrize("cursor", ["", "same"])
def test_a_cursor_that_leads_nowhere_ends_the_list(cursor: str, context: RoundContext) -> None:
    with odd_service() as service:
        service.next_cursor = cursor
        assert tool_of(service).carry_out({}, context) == "ok"
        assert service.asked.count("tools/list") <= 2


def test_a_page_of_the_list_that_cannot_be_read_hides_only_its_own_tools(
    context: RoundContext,
) -> None:
    broken = True

    def page(asked: dict[str, Any]) -> Answer:
        if "cursor" not in asked.get("params", {}):
            return Answer({"result": {"tools": [TOOL], "nextCursor": "2"}})
        if broken:
            return error(-32603, "page 2 failed")
        return Answer({"result": {"tools": [{**TOOL, "name": "later"}]}})

    with odd_service() as service:
        service.page = page
        assert tool_of(service).carry_out({}, context) == "ok"
        with pytest.raises(RetryableError, match=r"'later' .*page 2 failed"):
            tool_of(service, "later").carry_out({}, context)
        broken = False
        assert tool_of(service, "later").carry_out({}, context) == "ok"
        broken = True
        service.answer = says_that_the_list_changed
        tool_of(service).carry_out({}, context)
        assert tool_of(service, "later").carry_out({}, context) == "ok", "it was on page 2"


def test_a_page_that_can_be_read_again_replaces_its_old_declarations(
    context: RoundContext,
) -> None:
    second = Answer({"result": {"tools": [{**TOOL, "name": "later"}]}})

    def page(asked: dict[str, Any]) -> Answer:
        if "cursor" not in asked.get("params", {}):
            return Answer({"result": {"tools": [TOOL], "nextCursor": "2"}})
        return second

    with odd_service() as service:
        service.page = page
        command = tool_of(service, "later")
        command.check({})
        service.answer, second = says_that_the_list_changed, error(-32603, "page 2 failed")
        command.carry_out({}, context)
        command.check({})
        readings = service.asked.count("tools/list")
        command.check({})
        assert service.asked.count("tools/list") == readings, "it is not read for each call"
        second = Answer({"result": {"tools": [{**NEEDS_Z, "name": "later"}]}})
        background.run(background.session("odd", command.takes.server))._list_due = 0.0
        with pytest.raises(BadReply, match="'z' is a required property"):
            command.check({})


def test_a_call_lists_no_tools_of_its_own(context: RoundContext) -> None:
    with odd_service() as service:
        service.tools = [TOOL, {**TOOL, "name": "other"}]
        command = tool_of(service)
        command.check({})
        service.tools = [{**TOOL, "name": "other"}]
        service.answer = says_that_the_list_changed
        tool_of(service, "other").carry_out({}, context)
        tool_of(service, "other").check({})  # The client library forgets the other tool here.
        service.page = lambda asked: error(-32603, "the list failed")
        assert background.run(command.takes._call({}), context.cancelled) == "ok"


def test_a_session_that_is_retired_while_a_call_begins_carries_the_call_out(
    context: RoundContext,
) -> None:
    async def race() -> Any:
        living = await background.session("odd", command.takes.server)
        calling = asyncio.create_task(living.call("t", {}, 5))
        await asyncio.sleep(0)
        living._retire()
        return await calling

    with odd_service() as service:
        command = tool_of(service)
        assert command.carry_out({}, context) == "ok"
        assert background.run(race(), context.cancelled) == "ok"
        assert command.carry_out({}, context) == "ok"
        assert service.asked.count("initialize") == 2


#: A tool's own errors with the status of a lost session, and the answer to the ping that follows.
OWN: Cases = {
    "404": (error(-32602, "there is no order 7", 404), Answer({"result": {}})),
    "400": (error(-32000, "there is no order 7", 400), Answer({"result": {}})),
    "400 of a busy service": (error(-32000, "there is no order 7", 400), Answer("", 429)),
    "404 of a busy service": (error(-32000, "there is no order 7", 404), Answer("", 503)),
}


def test_a_tools_own_error_keeps_the_session_whatever_its_status_is(each_case: Each) -> None:
    def check(answer: Answer, pong: Answer) -> None:
        with odd_service() as service:
            service.answer, service.pong = lambda asked: answer, pong
            for _ in range(2):
                with pytest.raises(ToolFailed, match="there is no order 7"):
                    tool_of(service).carry_out({}, RoundContext("g"))
            assert service.asked.count("initialize") == 1

    each_case(OWN, check)


def test_a_tools_own_error_behind_a_redirect_keeps_the_session(each_case: Each) -> None:
    def check(answer: Answer, pong: Answer) -> None:
        with odd_service() as service:
            service.has_moved = True
            service.answer, service.pong = lambda asked: answer, pong
            for _ in range(2):
                with pytest.raises(ToolFailed, match="there is no order 7"):
                    tool_of(service).carry_out({}, RoundContext("g"))
            assert service.asked.count("initialize") == 1
            assert service.asked.count("tools/call") == 2

    each_case({name: OWN[name] for name in ("400", "404")}, check)


def test_a_session_lost_behind_a_redirect_is_opened_again(each_case: Each) -> None:
    def check(lost: Answer) -> None:
        with odd_service() as service:
            service.has_moved, service.lost = True, lost
            assert tool_of(service).carry_out({}, RoundContext("g")) == "ok"
            service.sessions.clear()
            with pytest.raises(RetryableError) as failed:
                tool_of(service).carry_out({}, RoundContext("g"))
            assert type(failed.value) is RetryableError
            assert tool_of(service).carry_out({}, RoundContext("g")) == "ok"

    each_case({name: LOST[name] for name in ("400", "404 in words")}, check)


def test_an_invalid_declaration_of_one_tool_does_not_hide_the_others(context: RoundContext) -> None:
    with odd_service() as service:
        service.tools = [
            {"name": "broken"},
            {"name": "text", "inputSchema": {"type": "string"}},
            TOOL,
        ]
        assert tool_of(service).carry_out({}, context) == "ok"
        for name in ("broken", "text"):
            with pytest.raises(
                FatalError, match=f"declares its tool '{name}' against the protocol"
            ):
                tool_of(service, name).carry_out({}, context)


def test_a_start_that_fails_ends_though_the_service_does_not_end_the_session(
    context: RoundContext,
) -> None:
    with odd_service() as service:
        service.page, service.keeps_sessions = (lambda asked: error(-32603, "db down")), True
        [command] = mcp_commands(
            "odd", url=service.url, tools=["t"], timeout_seconds=5, start_seconds=2
        )
        with pytest.raises(RetryableError):
            command.check({})
    assert "tools/list" in service.asked
