"""MCP services over HTTP that refuse, are busy, or are not there."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from perdure.flows.core.errors import FatalError, RetryableError
from perdure.flows.executors.mcp import mcp_commands
from perdure.flows.executors.mcp.transports import LONGEST_WAIT
from perdure.flows.rounds.context import RoundContext
from tests.support.mcp_servers import context, needs_servers, no_server_stays, refusing
from tests.support.ports import free_port

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


@pytest.mark.parametrize("seconds", [60, 10_000_000])
def test_a_busy_service_may_say_when_by_a_date(seconds: int, context: RoundContext) -> None:
    date = formatdate(time.time() + seconds, usegmt=True)
    with refusing(429, Retry_After=date) as (url, _):
        [command] = mcp_commands("docs", url=url, tools=["a"])
        with pytest.raises(RetryableError) as failed:
            command.carry_out({}, context)
    assert failed.value.retry_after is not None
    assert 0 < failed.value.retry_after <= min(seconds, LONGEST_WAIT)


def test_a_service_that_nobody_offers_is_retryable(context: RoundContext) -> None:
    [command] = mcp_commands("docs", url=f"http://127.0.0.1:{free_port()}/mcp", tools=["a"])
    with pytest.raises(RetryableError, match=r"MCP server 'docs' \(127.0.0.1\) cannot be reached"):
        command.carry_out({}, context)
