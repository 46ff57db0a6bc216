"""The bounds of an MCP server's cost for a worker: no answer fills its memory, and no schema stops
its process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from perdure.flows.core.errors import OutcomeUnknown
from perdure.flows.executors.mcp import mcp_commands
from perdure.flows.executors.mcp.bounds import MOST_BYTES
from perdure.flows.executors.mcp.event_loop import background
from perdure.flows.rounds.context import RoundContext
from tests.support.mcp_servers import needs_servers, servers_of
from tests.support.os_processes import peak
from tests.support.redis_servers import until

pytestmark = needs_servers
#: The client library takes a message several times: as bytes, as text, as data.
FACTOR = 12


def test_an_endless_line_of_a_program_ends_its_session() -> None:
    before = peak()
    [command] = mcp_commands(
        "endless",
        command=[sys.executable, "-m", "tests.support.endless_mcp_server"],
        env=HERE,
        tools=["big"],
    )
    with pytest.raises(OutcomeUnknown, match="more than 8 MiB"):
        command.carry_out({}, RoundContext("g"))
    assert peak() - before < FACTOR * MOST_BYTES
    until(lambda: not servers_of(os.getpid(), "endless_mcp_server"), "the end of the program")
    background.close()


HERE = {"PYTHONPATH": str(Path(__file__).parents[2])}
