"""Results that violate the protocol keep their content: the tool may have acted."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from perdure.flows.executors.mcp.odd_results import PART_CHARACTERS, repair_result, unknown_result
from tests.support.cases import Cases
from tests.support.cases import EachCase as Each
from tests.support.mcp_servers import needs_servers

pytestmark = needs_servers

TEXT = {"type": "text", "text": "before"}
SECRET = "sk-very-secret"
#: Results without any field of the protocol, and their texts.
BARE: Cases = {
    "nothing": ({}, []),
    "only metadata": ({"_meta": {}}, []),
    "only the type": ({"resultType": "complete"}, []),
    "the field of an old version": ({"toolResult": {"paid": 1}}, ['{"toolResult": {"paid": 1}}']),
    "another field": ({"order": 7}, ['{"order": 7}']),
}
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
    "a picture without a type": (
        {"content": [{"type": "image", "data": LONG}]},
        [f'{{"type": "image", "data": "{"A" * (PART_CHARACTERS - 1)}…"}}'],
        None,
    ),
}


def cleaned(value: Any) -> Any:
    return json.loads(json.dumps(value).replace(SECRET, "[secret]"))


def repaired(result: dict[str, Any], version: str) -> dict[str, Any]:
    given = dict(result)
    repair_result(SimpleNamespace(message=SimpleNamespace(result=given)), version, cleaned)
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


def test_an_error_that_is_neither_true_nor_false_counts_by_its_truth_value() -> None:
    for odd, is_error in (
        ("failed", True),
        (2, True),
        ({"code": 5}, True),
        ("", False),
        ([], False),
    ):
        given = repaired({"content": [TEXT], "isError": odd}, "2025-06-18")
        result = accepted(given, "2025-06-18")
        texts = ["before", json.dumps({"isError": odd})]
        assert ([part.text for part in result.content], result.is_error) == (texts, is_error)


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
def test_a_result_without_any_field_of_the_protocol_is_its_other_fields(
    version: str, each_case: Each
) -> None:
    def check(given: dict[str, Any], texts: list[str]) -> None:
        with pytest.raises(ValidationError) as failed:
            accepted(given, version)
        result = unknown_result(failed.value, cleaned)
        assert result is not None
        assert [part.text for part in result.content] == texts  # type: ignore[union-attr]

    each_case(BARE, check)


SAMPLING = {
    "a": {
        "method": "sampling/createMessage",
        "params": {"maxTokens": 5, "messages": [{"role": "user"}]},
    }
}
#: Results of calls that are not complete.
INCOMPLETE: Cases = {
    "input that lacks a content": ({"resultType": "input_required", "inputRequests": SAMPLING},),
    "input of a kind that is not known": (
        {"resultType": "input_required", "inputRequests": {"a": {"method": "other/thing"}}},
    ),
    "another type": ({"resultType": "failed", "order": 7},),
    "a type that is no text": ({"resultType": ["complete"]},),
    "a task": ({"task": {"taskId": "1", "status": "working"}},),
}


def test_a_result_of_a_call_that_is_not_complete_is_none(each_case: Each) -> None:
    from mcp_types import CallToolResult, InputRequiredResult
    from pydantic import TypeAdapter

    results: TypeAdapter[Any] = TypeAdapter(CallToolResult | InputRequiredResult)

    def check(given: dict[str, Any]) -> None:
        with pytest.raises(ValidationError) as failed:
            results.validate_python(given)
        assert unknown_result(failed.value, cleaned) is None

    each_case(INCOMPLETE, check)


def test_other_errors_contain_no_result() -> None:
    with pytest.raises(ValidationError) as failed:
        accepted({"content": [{"type": "odd"}]}, "2025-06-18")
    for error in (failed.value, ValueError("no")):
        assert unknown_result(error, cleaned) is None


def test_a_secret_at_the_limit_of_a_text_is_not_shown_in_part() -> None:
    part = {"type": "image", "data": "A" * (PART_CHARACTERS - 5) + SECRET}
    [block] = repaired({"content": [part]}, "2025-06-18")["content"]
    assert SECRET[:4] not in block["text"]


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
