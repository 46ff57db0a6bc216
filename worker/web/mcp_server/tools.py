"""The tools as MCP clients see them.

There is one tool for each exposed flow, and three tools act on runs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from perdure.worker.domain.fleet import FlowInfo

#: Default seconds that a call waits for the run. Many clients give up on a call after 60 seconds.
WAIT = 45.0
#: Longest wait of a call, in seconds.
MOST_WAIT = 600.0

ABOUT_FLOWS = (
    "Starts a run and returns its answer. A run that takes longer goes on by itself: the result "
    "has its id for the tool status."
)


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class StartArguments(_Arguments):
    """Arguments of a tool that starts a run."""

    goal: str
    """What the run should achieve, in words."""
    inputs: dict[str, Any] | None = None
    """The inputs of the flow."""
    key: str | None = Field(None, min_length=1, max_length=200)
    """A text of your own. A repeated call with the same key gets the same run, not a second one."""
    wait: float = Field(WAIT, ge=0, le=MOST_WAIT)
    """Seconds to wait for the answer."""


class StatusArguments(_Arguments):
    """Arguments of ``status``."""

    run: str
    """The run's id."""
    wait: float = Field(0.0, ge=0, le=MOST_WAIT)
    """Seconds to wait until the run has ended or waits for a person."""


class AnswerArguments(_Arguments):
    """Arguments of ``answer``."""

    run: str
    """The run's id."""
    question: str
    """The id of the question, from the run's status. Another question is not answered."""
    answer: Any = None
    """The answer, as any JSON. For an approval: "approve", "refuse", {"refuse": "why"} or
    {"edit": {the arguments}}."""
    add: dict[str, float] | None = None
    """Amounts to add to the limits of the run's budgets, by name."""
    wait: float = Field(WAIT, ge=0, le=MOST_WAIT)
    """Seconds to wait for what comes next."""


class CancelArguments(_Arguments):
    """Arguments of ``cancel``."""

    run: str
    """The run's id."""
    reason: str | None = Field(None, max_length=4000)
    """Why, stored with the run."""


def _tool(name: str, description: str, arguments: type[BaseModel], **hints: bool) -> Tool:
    return Tool(
        name=name,
        description=description,
        input_schema=_plain(arguments.model_json_schema()),
        annotations=ToolAnnotations(**hints),
    )


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON schema without its description and the titles that pydantic adds."""
    for each in schema["properties"].values():
        each.pop("title", None)
    return {name: part for name, part in schema.items() if name not in ("title", "description")}


STATUS = _tool(
    "status",
    "Tells how far a run is: its status, its answer, or what it asks a person.",
    StatusArguments,
    read_only_hint=True,
)
ANSWER = _tool(
    "answer",
    "Answers the question for which a run waits. The decision is a person's: ask the person "
    "first, and do not approve on your own.",
    AnswerArguments,
    destructive_hint=True,
)
CANCEL = _tool(
    "cancel",
    "Stops a run. The round in flight may finish.",
    CancelArguments,
    destructive_hint=True,
    idempotent_hint=True,
)
RUN_TOOLS = (STATUS, ANSWER, CANCEL)
RUN_TOOL_NAMES = frozenset(tool.name for tool in RUN_TOOLS)
#: Beginning of the name of a flow's tool, if a tool for runs has the name of the flow.
STARTS = "start_"


def tool_names(flows: Collection[str]) -> dict[str, str]:
    """Return the names of exposed flows by tool name.

    Each of these tools starts runs of its flow and has the flow's name. But if another tool has
    that name, the tool's name gets a prefix: the tool of a flow ``status`` is ``start_status``.
    """
    by_tool: dict[str, str] = {}
    for flow in flows:
        name = flow
        while name in RUN_TOOL_NAMES or (name != flow and name in flows):
            name = STARTS + name
        by_tool[name] = flow
    return by_tool


def flow_tool(name: str, flow: FlowInfo) -> Tool:
    """Return the MCP tool that starts a flow's runs.

    Args:
        name: The name of the tool (``tool_names``).
    """
    schema = _plain(StartArguments.model_json_schema())
    inputs = flow["inputs"]
    if inputs is not None:
        inputs = dict(inputs)
        # References in the inputs' schema count from the root of the tool's whole schema.
        if definitions := inputs.pop("$defs", None):
            schema["$defs"] = definitions
        schema["properties"]["inputs"] = {**inputs, "description": "The inputs of the flow."}
        if inputs.get("required"):
            schema["required"] = ["goal", "inputs"]
    return Tool(
        name=name,
        description=f"{flow.get('description', '')}\n\n{ABOUT_FLOWS}".strip(),
        input_schema=schema,
        output_schema=_output_schema(flow.get("answer")),
    )


def _output_schema(answer: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the JSON schema of a tool's structured result.

    The schema also fits a run without an answer yet, and the result of a call that failed, which
    has an error's code and no run. Clients validate these results too.

    Args:
        answer: The JSON schema of the flow's answers.

    Returns:
        None if the flow's answers have no schema.
    """
    if answer is None:
        return None
    text = {"type": "string"}
    # References in the answer's schema count from the root of the whole schema.
    own = {name: part for name, part in answer.items() if name != "$defs"}
    return {
        "type": "object",
        "properties": {
            "run": text,
            "flow": text,
            "status": text,
            "finished": {"type": "boolean"},
            "answer": own,
            "unfinished_answer": {},
            "output": {"type": "object"},
            "question": {"type": "object"},
            "error": text,
            "code": text,
            "note": text,
            "stop_reason": text,
        },
        "anyOf": [{"required": ["run", "flow", "status"]}, {"required": ["code", "error"]}],
        **({"$defs": definitions} if (definitions := answer.get("$defs")) else {}),
    }
