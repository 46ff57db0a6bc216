"""What an MCP server may cost a worker: no answer fills its memory, and no schema stops its
process.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.flows.core.errors import BadReply, FatalError, OutcomeUnknown
from perdure.flows.executors.mcp import mcp_commands
from perdure.flows.executors.mcp.bounds import MOST_BYTES
from perdure.flows.executors.mcp.event_loop import background
from perdure.flows.executors.mcp.results import Tool, ToolFailed
from perdure.flows.rounds.context import RoundContext
from tests.support.endless_mcp_server import endless_service
from tests.support.mcp_servers import needs_servers
from tests.support.os_processes import peak

pytestmark = needs_servers
#: The client library takes a message several times: as bytes, as text, as data.
FACTOR = 12


def test_an_endless_answer_over_http_is_given_up_within_its_bound() -> None:
    before = peak()
    with endless_service() as (url, sent):
        [command] = mcp_commands("endless", url=url, tools=["big"])
        with pytest.raises(ToolFailed, match="more than 8 MiB"):
            command.carry_out({}, RoundContext("g"))
        background.close()
    assert sum(sent) < FACTOR * MOST_BYTES and peak() - before < FACTOR * MOST_BYTES


def test_an_endless_event_is_given_up_within_its_bound() -> None:
    before = peak()
    with endless_service("text/event-stream") as (url, sent):
        [command] = mcp_commands("endless", url=url, tools=["big"])
        with pytest.raises((ToolFailed, OutcomeUnknown)):
            command.carry_out({}, RoundContext("g"))
        background.close()
    assert sum(sent) < FACTOR * MOST_BYTES and peak() - before < FACTOR * MOST_BYTES


def test_a_compressed_answer_is_not_unpacked() -> None:
    with endless_service(Content_Encoding="gzip") as (url, _):
        [command] = mcp_commands("endless", url=url, tools=["big"])
        with pytest.raises((ToolFailed, OutcomeUnknown), match="compressed"):
            command.carry_out({}, RoundContext("g"))
        background.close()


#: Of a tool that takes a query which must match this: it backtracks for years.
BACKTRACKING = r"^([\w .,?'-]+)+$\Z!"
QUERY = {"query": "what is the weather in Berlin today and tomorrow"}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"query": {"pattern": BACKTRACKING}}},
        {"patternProperties": {BACKTRACKING: {"type": "string"}}, "additionalProperties": False},
        {"allOf": [{"patternProperties": {BACKTRACKING: True}}], "unevaluatedProperties": False},
        {"propertyNames": {"pattern": BACKTRACKING}},
    ],
    ids=["pattern", "names", "unevaluated", "property names"],
)
def test_patterns_of_a_schema_are_left_to_its_server(schema: dict[str, Any]) -> None:
    Tool("search", "", schema).check(
        {**QUERY, "a fairly long name of a property, with words": ""}, "search"
    )


@pytest.mark.timeout(60)
def test_a_schema_that_nests_into_billions_of_checks_is_refused() -> None:
    doubled = {
        str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}, {"$ref": f"#/$defs/{n + 1}"}]}
        for n in range(40)
    }
    schema = {"$ref": "#/$defs/0", "$defs": {**doubled, "40": {"type": "object"}}}
    with pytest.raises(FatalError, match="too many steps"):
        Tool("search", "", schema).check(QUERY, "search")


@pytest.mark.timeout(60)
def test_a_schema_that_refers_to_itself_for_ever_is_refused() -> None:
    with pytest.raises(FatalError, match="too many steps"):
        Tool("search", "", {"$ref": "#"}).check(QUERY, "search")


@pytest.mark.timeout(60)
def test_items_are_not_compared_each_with_each() -> None:
    items = [{"n": [n]} for n in range(100_000)]
    Tool("put", "", {"properties": {"items": {"uniqueItems": True}}}).check({"items": items}, "put")


def test_what_a_schema_says_otherwise_is_checked_as_before() -> None:
    properties = {f"p{n}": {"type": "integer", "minimum": 0} for n in range(1_000)}
    tool = Tool(
        "put", "", {"properties": properties, "additionalProperties": False, "required": ["p0"]}
    )
    tool.check({f"p{n}": n for n in range(1_000)}, "put")
    with pytest.raises(BadReply, match="'other' was unexpected"):
        tool.check({"p0": 1, "other": 2}, "put")
    with pytest.raises(BadReply, match=r"p7: -1 is less than the minimum"):
        tool.check({"p0": 1, "p7": -1}, "put")
    assert json.dumps(tool.schema)
