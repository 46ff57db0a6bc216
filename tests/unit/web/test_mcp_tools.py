"""The tools of the MCP server: their names, and results that match their output schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from perdure import InvalidInput, Run, RunStatus
from perdure.worker.domain.execution_state import ExecutionState
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.record import UNFINISHED
from tests.support.pending_interrupts import a_run

NOW = datetime(2026, 11, 29, tzinfo=UTC)
WEIGHT = {
    "title": "Weight",
    "type": "object",
    "properties": {"grams": {"$ref": "#/$defs/Grams"}},
    "required": ["grams"],
    "$defs": {"Grams": {"type": "number"}},
}
FLOW: Any = {"description": "Weighs.", "inputs": None, "answer": WEIGHT, "expose": ["mcp"]}
RUN = Run(
    "r", "weigh", "go", {}, RunStatus.COMPLETED, ExecutionState(current_node="Controller"), {"grams": 3.5}, {}, None, NOW, NOW,
)  # fmt: skip


def cases() -> Iterator[Any]:
    used = {UNFINISHED: {"cycles": 3, "of": 3}}
    yield pytest.param(RUN, id="finished")
    yield pytest.param(replace(RUN, answer=None, details=used), id="unfinished without an answer")
    yield pytest.param(replace(RUN, answer="so far", details=used), id="unfinished, another type")
    yield pytest.param(
        replace(RUN, answer=None, status=RunStatus.ERRORED, error="broken"), id="errored"
    )
    yield pytest.param(replace(RUN, answer=None, status=RunStatus.ERRORED), id="errored, no text")
    for status in (RunStatus.STOPPED, RunStatus.RUNNING, RunStatus.QUEUED, RunStatus.INTERRUPTED):
        yield pytest.param(replace(RUN, answer=None, status=status), id=status.value)


@pytest.mark.parametrize("run", [*cases()])
def test_the_result_of_a_run_matches_the_output_schema_of_its_tool(run: Run) -> None:
    from perdure.worker.web.mcp_server.results import run_result
    from perdure.worker.web.mcp_server.tools import flow_tool

    result = run_result(run, None)
    schema = flow_tool("weigh", FLOW).output_schema
    assert schema is not None and result.structured_content is not None
    Draft202012Validator(schema).validate(result.structured_content)
    assert result.structured_content["run"] == "r"
    if run.finished:
        assert result.structured_content["answer"] == {"grams": 3.5}
    elif run.answer is not None:
        assert result.structured_content["unfinished_answer"] == run.answer


def test_the_structured_content_has_the_note_and_the_reason_of_the_text() -> None:
    from perdure.worker.web.mcp_server.results import run_result
    from perdure.worker.web.mcp_server.tools import flow_tool

    stopped = replace(RUN, status=RunStatus.STOPPED, details={"stop_reason": "too late"})
    result = run_result(stopped, None, "This answer does not count.")
    assert result.structured_content is not None
    assert result.structured_content["note"] == "This answer does not count."
    assert result.structured_content["stop_reason"] == "too late"
    schema = flow_tool("weigh", FLOW).output_schema
    assert schema is not None
    Draft202012Validator(schema).validate(result.structured_content)


def test_a_refusal_matches_the_output_schema_of_the_tool() -> None:
    from perdure.worker.web.auth import LOCAL
    from perdure.worker.web.mcp_server.results import refusal
    from perdure.worker.web.mcp_server.tools import flow_tool

    result = refusal(InvalidInput("n: expected a number"), LOCAL)
    schema = flow_tool("weigh", FLOW).output_schema
    assert schema is not None and result.structured_content is not None
    Draft202012Validator(schema).validate(result.structured_content)
    assert result.structured_content["code"] == "invalid-input"


def test_a_wrong_answer_does_not_match_the_output_schema() -> None:
    from perdure.worker.web.mcp_server.tools import flow_tool

    schema = flow_tool("weigh", FLOW).output_schema
    assert schema is not None
    facts = {"run": "r", "flow": "weigh", "status": "completed", "answer": {"grams": "many"}}
    assert not Draft202012Validator(schema).is_valid(facts)
    assert not Draft202012Validator(schema).is_valid({"status": "completed"})


def test_a_flow_named_as_a_tool_for_runs_gets_a_name_of_its_own() -> None:
    from perdure.worker.web.mcp_server.tools import RUN_TOOLS, tool_names

    flows = {"status", "answer", "cancel", "start_answer", "talk"}
    names = tool_names(flows)
    assert names == {
        "start_status": "status",
        "start_start_answer": "answer",
        "start_cancel": "cancel",
        "start_answer": "start_answer",
        "talk": "talk",
    }
    assert not names.keys() & {tool.name for tool in RUN_TOOLS}


def answer_in(kind: str, content: Any, action: str = "accept") -> Any:
    """Return the answer in a form for a question of this kind. None: the person has not decided."""
    from mcp_types import ElicitResult

    from perdure.worker.web.mcp_server.question_forms import answer_of

    waiting = PendingInterrupt.of(a_run(kind))
    assert waiting is not None
    return answer_of(waiting, ElicitResult.model_validate({"action": action, "content": content}))


@pytest.mark.parametrize(
    ("kind", "content", "answer"),
    [
        ("question", {"answer": "left"}, ("left", None)),
        ("question", {"answer": ""}, ("", None)),
        ("approval", {"decision": "approve"}, ("approve", None)),
        ("approval", {"decision": "refuse", "text": " no "}, ({"refuse": "no"}, None)),
        ("approval", {"decision": "refuse", "text": None}, ("refuse", None)),
        ("in_doubt", {"decision": "retry"}, ("retry", None)),
        ("in_doubt", {"decision": "result", "text": "7"}, ({"result": "7"}, None)),
        ("budget", {"amount": 50}, (None, {"tokens": 50})),
        ("pause", {"continue": True}, (None, None)),
        ("pause", {"continue": False}, None),
        *((kind, content, None) for kind in ("approval", "in_doubt", "budget", "question", "pause")
          for content in (None, {}, {"other": "x"}, {"text": "x"})),
        ("question", {"answer": None}, None),
    ],
)  # fmt: skip
def test_a_form_without_its_required_field_is_no_answer(
    kind: str, content: Any, answer: Any
) -> None:
    assert answer_in(kind, content) == answer
    assert answer_in(kind, content, "cancel") is None


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("question", {"answer": 5}),
        ("question", {"answer": ["left"]}),
        ("approval", {"decision": "maybe"}),
        ("approval", {"decision": True}),
        ("approval", {"decision": "refuse", "text": 5}),
        ("in_doubt", {"decision": "approve"}),
        ("in_doubt", {"decision": "result"}),
        ("in_doubt", {"decision": "tell"}),
        ("budget", {"amount": "50"}),
        ("budget", {"amount": True}),
        ("pause", {"continue": "yes"}),
        ("pause", {"continue": 1}),
    ],
)
def test_a_form_whose_content_does_not_fit_its_schema_is_refused(kind: str, content: Any) -> None:
    with pytest.raises(InvalidInput, match="the content of the form does not answer question 2:7"):
        answer_in(kind, content)
