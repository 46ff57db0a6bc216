"""MCP services over HTTP that refuse, are busy, or are not there."""

from __future__ import annotations

import pytest

from perdure.flows.core.errors import FatalError, RetryableError
from perdure.flows.executors.mcp import mcp_commands
from perdure.flows.rounds.context import RoundContext
from tests.support.mcp_servers import context, free_port, needs_servers, no_server_stays, refusing

__all__ = ["context", "no_server_stays"]

pytestmark = needs_servers
CANARY = "hunter2-canary"


def test_a_service_that_refuses_us_ends_the_run_and_is_sent_what_was_declared(
    context: RoundContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYTHING", CANARY)
    with refusing(401) as (url, seen):
        [command] = mcp_commands(
            "docs", url=url, headers={"Authorization": "Bearer env:ANYTHING"}, tools=["a"]
        )
        with pytest.raises(FatalError, match=r"HTTP 401") as failed:
            command.carry_out({}, context)
    assert seen and all(headers["authorization"] == f"Bearer {CANARY}" for headers in seen)
    assert CANARY not in repr(failed.value)


def test_a_busy_service_is_asked_again_when_it_says(context: RoundContext) -> None:
    with refusing(503, Retry_After="17") as (url, _):
        [command] = mcp_commands("docs", url=url, tools=["a"])
        with pytest.raises(RetryableError, match=r"busy \(HTTP 503\)") as failed:
            command.carry_out({}, context)
    assert failed.value.retry_after == 17


def test_a_service_that_nobody_offers_is_retryable(context: RoundContext) -> None:
    [command] = mcp_commands("docs", url=f"http://127.0.0.1:{free_port()}/mcp", tools=["a"])
    with pytest.raises(RetryableError, match=r"MCP server 'docs' \(127.0.0.1\) cannot be reached"):
        command.carry_out({}, context)
