"""Answers of MCP servers that do not follow JSON-RPC keep their content."""

from __future__ import annotations

import json
from typing import Any

from perdure.flows.executors.mcp.odd_messages import understood
from tests.support.cases import Cases
from tests.support.cases import EachCase as Each
from tests.support.mcp_servers import needs_servers

pytestmark = needs_servers

ERRORS: Cases = {
    "a text as its code": ({"code": "E_BAD", "message": "bad things"}, 0, "bad things (E_BAD)"),
    "no code": ({"message": "bad things"}, 0, "bad things"),
    "a text": ("bad things", 0, "bad things"),
    "no message": ({"code": 7}, 7, '{"code":7}'),
}


def read(line: str) -> Any:
    """Return the client library's reading of a line, as it is passed on."""
    from mcp.client.stdio import _parse_line

    return understood(_parse_line(line))


def test_an_error_that_is_no_json_rpc_keeps_its_words(each_case: Each) -> None:
    def check(error: Any, code: int, text: str) -> None:
        message = read(json.dumps({"jsonrpc": "2.0", "id": 3, "error": error})).message
        assert (message.id, message.error.code, message.error.message) == (3, code, text)

    each_case(ERRORS, check)


def test_an_error_without_a_code_keeps_its_data() -> None:
    fault = {"message": "no", "data": {"why": "full"}}
    message = read(json.dumps({"jsonrpc": "2.0", "id": 3, "error": fault})).message
    assert message.error.data == {"why": "full"}


def test_an_answer_without_a_version_is_an_answer() -> None:
    message = read('{"id": 3, "result": {"content": []}}').message
    assert (message.id, message.result) == (3, {"content": []})


def test_lines_that_answer_nothing_are_left_alone() -> None:
    for line in ("Processing...", "42", "null", '{"level": "info"}', '{"id": 3, "error": null}'):
        assert isinstance(read(line), ValueError)
    whole = read('{"jsonrpc": "2.0", "id": 3, "error": {"code": -32001, "message": "gone"}}')
    assert whole.message.error.message == "gone"
