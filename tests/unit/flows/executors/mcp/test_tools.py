"""The content of MCP servers, as the client library reads it: schemas, and results of every kind."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from perdure import File
from perdure.flows.core.errors import BadReply, FatalError, described
from perdure.flows.core.files import MOST_FILES
from perdure.flows.executors.mcp import results
from perdure.flows.executors.mcp.results import (
    FAULTS,
    TOLD_CHARACTERS,
    Tool,
    ToolFailed,
    observation_of,
)
from perdure.flows.rings import branching_flow
from tests.support.cases import Cases
from tests.support.cases import EachCase as Each
from tests.support.mcp_servers import needs_servers

pytestmark = needs_servers

SCHEMA = {
    "type": "object",
    "properties": {"zone": {"type": "string"}, "context": {"type": "integer"}},
    "required": ["zone"],
    "additionalProperties": False,
}


def result(*content: dict[str, Any], **more: Any) -> Any:
    from mcp_types import CallToolResult

    return CallToolResult.model_validate({"content": list(content), **more})


TEXT = {"type": "text", "text": "one"}
IMAGE = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"x" * 300).decode()}


def test_texts_are_joined() -> None:
    assert observation_of(result(TEXT, {"type": "text", "text": "two"}), "it") == "one\ntwo"


#: Structured content, and the texts beside it that repeat it.
COPIES: Cases = {
    "as JSON": ({"a": [1]}, ['{\n  "a": [1]\n}']),
    "of a value that is not an object": ({"result": "one"}, ["one"]),
    "of a number": ({"result": 3}, ["3"]),
    "of each item": ({"result": ["one", {"b": 2}]}, ["one", '{"b": 2}']),
    "of its only long value": ({"content": "a file\n", "size": 7}, ["a file\n"]),
    "nothing": ({"a": 1}, ["", " "]),
    "of a number as a float": ({"result": 5.0}, ["5"]),
    "with other numbers": ({"a": 1.0, "b": 100}, ['{"a": 1, "b": 100.0}']),
    "of each item with other numbers": ({"result": [{"a": 1.0}]}, ['{"a": 1}']),
    "of each value of its lists": ({"result": [[1, "a"], [2, "b"]]}, ["1", "a", "2", "b"]),
    "of a value below": ({"a": {"b": {"c": [True]}}}, ["true"]),
}


def test_texts_that_repeat_the_structured_content_are_left_out(each_case: Each) -> None:
    def check(structured: Any, texts: list[str]) -> None:
        content = [{"type": "text", "text": text} for text in texts]
        assert observation_of(result(*content, structuredContent=structured), "it") == structured

    each_case(COPIES, check)


def test_other_texts_resources_and_links_stay_beside_the_structured_content() -> None:
    log = {"type": "resource", "resource": {"uri": "file:///a.log", "text": "line 7: error"}}
    link = {"type": "resource_link", "name": "b", "uri": "file:///b"}
    copy = {"type": "text", "text": '{"exit": 1}'}
    given = result(TEXT, log, copy, link, structuredContent={"exit": 1})
    text = "one\nfile:///a.log:\nline 7: error\nb: file:///b"
    assert observation_of(given, "it") == {"result": {"exit": 1}, "text": text}
    assert observation_of(result(TEXT, structuredContent={"result": []}), "it") == {
        "result": {"result": []},
        "text": "one",
    }


def test_a_number_is_no_copy_of_a_truth_value() -> None:
    one = {"type": "text", "text": "1"}
    assert observation_of(result(one, structuredContent={"ok": True}), "it") == {
        "result": {"ok": True},
        "text": "1",
    }


def test_a_long_structured_content_is_compared_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "COMPARED_CHARACTERS", 10)
    structured = {"values": ["one", "two"]}
    copy = {"type": "text", "text": json.dumps(structured)}
    assert observation_of(result(copy, structuredContent=structured), "it") == structured
    other = {"type": "text", "text": "other"}
    beside = observation_of(result(other, copy, structuredContent=structured), "it")
    assert beside == {"result": structured, "text": "other"}


#: Structured content and texts that repeat it, which are the same in a long result.
LONG_COPIES: Cases = {
    "of a text": ({"result": "line\n" * 9}, ["line\n" * 9]),
    "of texts": ({"result": ["one", "", "two"]}, ["one", "", "two"]),
    "of texts in lists": ({"result": [["one"], ["two"]]}, ["one", "two"]),
    "of objects": ({"result": [{"a": 1.0}, {"b": 2}]}, ['{"a": 1}', '{"b": 2}']),
    "of numbers": ({"result": [1, 2.5, None, True]}, ["1", "2.5", "null", "true"]),
    "of its only long value": ({"content": "a file\n", "size": 7}, ["a file\n"]),
    "of items without an object": (["one", {"b": 2}], ["one", '{"b": 2}']),
    "as a JSON list": (["one", 2.0], ['["one", 2]']),
    "of a text without an object": ("line\n" * 9, ["line\n" * 9]),
    "as a JSON text": ("line\n" * 9, [json.dumps("line\n" * 9)]),
}


def test_the_shape_of_an_observation_does_not_depend_on_its_size(
    each_case: Each, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(structured: Any, texts: list[str]) -> None:
        content = [{"type": "text", "text": text} for text in texts]
        for limit in (1, 1000):
            monkeypatch.setattr(results, "COMPARED_CHARACTERS", limit)
            told = observation_of(result(*content, structuredContent=structured), "it")
            assert told == structured

    each_case(LONG_COPIES, check)


def test_the_only_text_of_a_long_list_with_one_item_may_be_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results, "COMPARED_CHARACTERS", 1)
    for item in ({"a": 1}, "two", 3):
        beside = observation_of(result(TEXT, structuredContent={"result": [item]}), "it")
        assert beside == {"result": {"result": [item]}, "text": "one"}


def test_a_long_text_stays_beside_structured_content_of_every_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results, "COMPARED_CHARACTERS", 1)
    for structured in ({"a": 1}, ["two", 3], "two", 3, True):
        beside = observation_of(result(TEXT, structuredContent=structured), "it")
        assert beside == {"result": structured, "text": "one"}


def test_a_picture_is_a_file_which_a_model_sees() -> None:
    content = b"\x89PNG\r\n\x1a\n..."
    data = base64.b64encode(content).decode()
    image = {"type": "image", "mimeType": "image/png", "data": data}
    page = {"uri": "file:///docs/a.pdf", "mimeType": "application/pdf"}
    blob = {**page, "blob": base64.b64encode(b"%PDF-1.7").decode()}
    given = result(TEXT, image, image, {"type": "resource", "resource": blob})
    assert observation_of(given, "it") == {
        "result": "one",
        "files": [
            File("image-1.png", content),
            File("image-2.png", content),
            File("a.pdf", b"%PDF-1.7"),
        ],
    }
    many = observation_of(result(*[image] * (MOST_FILES + 1)), "it")
    assert len(many["files"]) == MOST_FILES and many["left_out"] == ["image (image/png, 11 bytes)"]


def test_other_data_is_a_file_and_what_can_be_none_is_named() -> None:
    blob = {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": IMAGE["data"]}}
    sound = {"type": "audio", "mimeType": "audio/wav", "data": IMAGE["data"]}
    unknown = {"type": "resource", "resource": {"uri": "x:///b", "blob": IMAGE["data"]}}
    assert observation_of(result(TEXT, IMAGE, blob, sound, unknown), "it") == {
        "result": "one",
        "files": [File("a.bin", b"x" * 300), File("audio-2.wav", b"x" * 300, "audio/wav")],
        "left_out": ["image (image/png, 300 bytes)", "x:///b (unknown type, 300 bytes)"],
    }


def test_texts_of_resources_and_links_are_told() -> None:
    read = {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}}
    link = {"type": "resource_link", "name": "b", "uri": "file:///b.txt"}
    assert observation_of(result(read, link), "it") == "file:///a.txt:\ninside\nb: file:///b.txt"


def test_a_tools_own_error_is_told_and_bounded() -> None:
    with pytest.raises(ToolFailed, match=r"^one$"):
        observation_of(result(TEXT, isError=True), "it")
    with pytest.raises(ToolFailed, match="failed"):
        observation_of(result(isError=True), "it")
    long = {"type": "text", "text": f"first{'x' * 2 * TOLD_CHARACTERS}"}
    with pytest.raises(ToolFailed, match=r"(?s)^first.*left out here.*the cause\"}$") as failed:
        observation_of(result(long, isError=True, structuredContent={"a": "the cause"}), "it")
    # The name of the tool comes before some errors, and has at most 100 characters.
    assert len(described(failed.value)) + 110 <= branching_flow.TOLD_CHARACTERS


def test_an_error_keeps_its_structured_content_and_names_its_pictures() -> None:
    structured = {"error": {"code": "NEEDS_HUMAN", "hint": "type it in"}}
    with pytest.raises(ToolFailed, match="type it in"):
        observation_of(result(isError=True, structuredContent=structured), "it")
    with pytest.raises(ToolFailed, match=r"^one\n.*type it in"):
        observation_of(result(TEXT, isError=True, structuredContent=structured), "it")
    copy = {"type": "text", "text": json.dumps(structured, indent=1)}
    with pytest.raises(ToolFailed) as failed:
        observation_of(result(copy, isError=True, structuredContent=structured), "it")
    assert str(failed.value).count("NEEDS_HUMAN") == 1
    for texts in ([], [TEXT]):
        with pytest.raises(ToolFailed, match=r"it also sent image \(image/png, 300 bytes\)"):
            observation_of(result(*texts, IMAGE, isError=True), "it")


def test_an_empty_structured_content_does_not_hide_the_text() -> None:
    assert observation_of(result(TEXT, structuredContent={}), "it") == "one"
    assert observation_of(result(structuredContent={}), "it") == {}


def test_a_result_that_cannot_be_stored_is_its_json() -> None:
    given = result(TEXT, structuredContent={"a": float("nan"), "b": "one"})
    assert observation_of(given, "it") == '{"a": NaN, "b": "one"}'
    assert observation_of(result({"type": "text", "text": "a\udce4"}), "it") == "a?"


def test_arguments_are_checked_by_the_servers_schema() -> None:
    tool = Tool("now", "", SCHEMA)
    tool.check({"zone": "UTC", "context": 1}, "command 'time.now'")
    with pytest.raises(
        BadReply,
        match=r"command 'time.now' does not accept .*zone: 3 is not of type 'string'.*It takes: zone, context \(optional\)",
    ):
        tool.check({"zone": 3}, "command 'time.now'")
    with pytest.raises(BadReply, match="'zone' is a required property"):
        tool.check({}, "it")
    with pytest.raises(BadReply, match="'other' was unexpected"):
        tool.check({"zone": "UTC", "other": 1}, "it")


def test_a_reply_that_is_wrong_in_many_ways_is_told_some_of_them() -> None:
    tool = Tool("now", "", {"type": "object", "additionalProperties": {"type": "string"}})
    with pytest.raises(BadReply, match=f"; and {20 - FAULTS} more. It takes: no arguments"):
        tool.check({f"a{number}": "x" * 0 or number for number in range(20)}, "it")


@pytest.mark.parametrize("schema", [{"type": "strange"}, {"properties": 3}])
def test_a_schema_that_is_none_is_the_servers_fault(schema: dict[str, Any]) -> None:
    with pytest.raises(FatalError, match="JSON schema"):
        Tool("now", "", schema).check({}, "it")


def test_a_schema_that_refers_elsewhere_is_not_fetched() -> None:
    with pytest.raises(FatalError, match=r"refers to .*127\.0\.0\.1:9"):
        Tool("now", "", {"$ref": "http://127.0.0.1:9/schema.json"}).check({}, "it")
