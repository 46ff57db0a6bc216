"""Results that violate the protocol keep their content: the tool may have acted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from perdure.flows.executors.mcp.odd_results import PART_CHARACTERS, repair_result
from tests.support.cases import Cases
from tests.support.cases import EachCase as Each
from tests.support.mcp_servers import needs_servers

pytestmark = needs_servers

TEXT = {"type": "text", "text": "before"}
LONG = "A" * 10 * PART_CHARACTERS

#: Results, the texts of the result after the repair, and its structured content.
ODD: Cases = {
    "an unknown part": (
        {"content": [TEXT, {"type": "thinking", "thinking": "hm"}]},
        ["before", '{"type": "thinking", "thinking": "hm"}'],
        None,
    ),
    "a text of an unknown type": ({"content": [{"type": "odd", "text": "in"}]}, ["in"], None),
    "a part that is a text": ({"content": ["bare", 3]}, ["bare", "3"], None),
    "null": ({"content": None}, [], None),
    "a text": ({"content": "bare"}, ["bare"], None),
    "no content": ({"structuredContent": {"a": 1}}, [], {"a": 1}),
    "no content but an error": ({"isError": False}, [], None),
    "a list as structured content": (
        {"content": [TEXT], "structuredContent": [1]},
        ["before", "[1]"],
        None,
    ),
    "an error that is neither true nor false": (
        {"content": [TEXT], "isError": "maybe"},
        ["before", '{"isError": "maybe"}'],
        None,
    ),
    "a picture without a type": (
        {"content": [{"type": "image", "data": LONG}]},
        [f'{{"type": "image", "data": "{"A" * (PART_CHARACTERS - 1)}…"}}'],
        None,
    ),
}


def repaired(result: dict[str, Any], version: str) -> dict[str, Any]:
    given = dict(result)
    repair_result(SimpleNamespace(message=SimpleNamespace(result=given)), version)
    return given


def accepted(result: dict[str, Any], version: str) -> Any:
    """Return the result as the client library reads it."""
    from mcp_types import CallToolResult
    from mcp_types.methods import validate_server_result

    validate_server_result("tools/call", version, result)
    return CallToolResult.model_validate(result, by_name=False)


def test_invalid_parts_of_a_result_are_texts(each_case: Each) -> None:
    def check(given: dict[str, Any], texts: list[str], structured: Any) -> None:
        result = accepted(repaired(given, "2025-06-18"), "2025-06-18")
        assert [part.text for part in result.content] == texts
        assert (result.structured_content, bool(result.is_error)) == (structured, False)

    each_case(ODD, check)


def test_a_result_without_the_type_that_newer_versions_require_is_complete() -> None:
    given = {"content": [TEXT, {"type": "odd", "text": "in"}]}
    result = accepted(repaired(given, "2026-07-28"), "2026-07-28")
    assert [part.text for part in result.content] == ["before", "in"]


def test_other_results_are_left_alone() -> None:
    others: list[dict[str, Any]] = [
        {},
        {"tools": []},
        {"content": [TEXT], "isError": True},
        {"resultType": "input_required", "inputRequests": {}},
    ]
    for given in others:
        assert repaired(given, "2025-06-18") == given
