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
from perdure.worker.domain.record import UNFINISHED

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
