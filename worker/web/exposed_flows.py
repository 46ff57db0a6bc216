"""Flows exposed to clients of other protocols (MCP, OpenAI), and runs of such flows.

The attribute ``expose`` of a flow names the protocols. By default a flow is not exposed. The module
also waits until a run ends or asks a person something.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Literal

from starlette.concurrency import run_in_threadpool

from perdure.flows.core.thread_messages import spoken_text
from perdure.worker.domain.event import LAST, Event
from perdure.worker.domain.fleet import FlowInfo
from perdure.worker.domain.run import Run, RunStatus
from perdure.worker.errors import RunNotFound, UnknownFlow
from perdure.worker.operations.session import not_found
from perdure.worker.store import StoreUnavailable
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.event_stream import AWAY_SECONDS, IDLE_SECONDS
from perdure.worker.web.question_facts import open_question

#: Protocols of other clients, as a flow names them in ``expose``.
Protocol = Literal["mcp", "openai"]
#: Seconds between two checks whether a run below asks a person something.
BELOW_SECONDS = 1.0
#: Events after which a run may have an answer, or a question for a person.
SETTLING = (*LAST, "interrupted")


def exposed_flows(runs: AuthorizedClient, protocol: Protocol) -> dict[str, FlowInfo]:
    """Return the flows exposed to a protocol's clients.

    The result has the description of each flow, by the flow's name.
    """
    return {name: flow for name, flow in runs.flows().items() if _is_exposed(flow, protocol)}


def exposed_flow(runs: AuthorizedClient, protocol: Protocol, name: str) -> FlowInfo:
    """Return the description of a flow exposed to a protocol's clients.

    Raises:
        Forbidden: The caller lacks the scope ``read``.
        UnknownFlow: The flow is not known, or is not exposed. Both cases have the same error text.
    """
    flows = exposed_flows(runs, protocol)
    if name not in flows:
        raise UnknownFlow(
            f"no flow {name!r} is exposed to {protocol}; those that are: "
            f"{', '.join(sorted(flows)) or 'none'}. A flow's author sets expose: [{protocol}]"
        )
    return flows[name]


def exposed_run(runs: AuthorizedClient, protocol: Protocol, run_id: str) -> Run:
    """Return a run if it is exposed to a protocol's clients.

    The submission records in the run to which protocols its flow is exposed. So this works even
    while no live worker has the flow. If the flow is known and no longer exposed, its older runs
    are not exposed either. A run of an earlier release has no such record. It is exposed only if
    its flow is known and exposed.

    Raises:
        RunNotFound: There is no such run, it belongs to another owner, or it is not exposed.
    """
    run = runs.get(run_id)
    flow = runs.flows().get(run.flow)
    recorded = run.details.get("exposed")
    if recorded is None and flow is None:
        raise not_found(run_id)
    if recorded is not None and protocol not in recorded:
        raise not_found(run_id)
    if flow is not None and not _is_exposed(flow, protocol):
        raise not_found(run_id)
    return run


def answerable_run(runs: AuthorizedClient, protocol: Protocol, run_id: str) -> Run:
    """Return the exposed run that shows a run's question.

    It is the run itself if that is exposed, else the nearest exposed run above it.

    Raises:
        RunNotFound: No run has this id, the run belongs to another owner, neither the run nor a run
            above it is exposed, or a run above it was deleted.
    """
    run = runs.get(run_id)
    while True:
        try:
            return exposed_run(runs, protocol, run.id)
        except RunNotFound:
            parent = run.details.get("parent")
            if parent is None:
                raise not_found(run_id) from None
            run = runs.get(parent)


def _is_exposed(flow: FlowInfo, protocol: Protocol) -> bool:
    # A worker of another version announces its flows with other fields.
    protocols = flow.get("expose")
    return isinstance(protocols, list) and protocol in protocols


def is_settled(run: Run) -> bool:
    """Return whether a run has ended or is interrupted (its own question is open)."""
    return run.status.ended or run.status is RunStatus.INTERRUPTED


async def settled(runs: AuthorizedClient, hub: EventHub, run_id: str, seconds: float) -> Run:
    """Wait until a run ends or asks a person something, and return the run.

    A question of a run below it counts too. After ``seconds``, or when the hub is closed, the run
    is returned in its current state. While the state server is unavailable, the wait continues.

    Raises:
        RunNotFound: The run does not exist, or was deleted during the wait.
        StoreUnavailable: The state server is unavailable when ``seconds`` are over or the hub is
            closed.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            run = await _settled(runs, hub, run_id, until)
        except StoreUnavailable:
            if time.monotonic() >= until or hub.closed:
                raise
            await asyncio.sleep(AWAY_SECONDS)
            continue
        if is_settled(run) or time.monotonic() >= until or hub.closed:
            return run
        if await run_in_threadpool(open_question, runs, run) is not None:
            return run


async def _settled(runs: AuthorizedClient, hub: EventHub, run_id: str, until: float) -> Run:
    """Wait until a run ends or asks a person something, and return the run.

    At the time ``until`` (of ``time.monotonic()``), or when the hub ends the subscription, the run
    is returned in the state that was read last.

    Raises:
        RunNotFound: The run does not exist, or was deleted during the wait.
        StoreUnavailable: The state server is unavailable.
    """
    newest = await run_in_threadpool(runs.latest_events, run_id, 1)
    subscriber = hub.join(run_id, newest[-1].id if newest else None)
    try:
        while True:
            # Read after the subscription has begun, so that no event is missed in between.
            run = await run_in_threadpool(runs.get, run_id)
            if is_settled(run):
                return run
            if await run_in_threadpool(open_question, runs, run) is not None:
                return run
            # No event of this run shows that a run below it asks something.
            idle = BELOW_SECONDS if run.details.get("waits_for_children") else IDLE_SECONDS
            entries: list[Any] = []
            while not any(type(each) is Event and each.type in SETTLING for each in entries):
                left = until - time.monotonic()
                if left <= 0 or subscriber.over is not None:
                    return run
                entries = await subscriber.entries(min(left, idle))
                if not entries:
                    break
    finally:
        hub.leave(subscriber)


def answer_text(run: Run) -> str:
    """Return a completed run's answer as text.

    If the run has no answer, its output takes the answer's place. An answer that has no text for
    people (``spoken_text``) is returned as JSON.
    """
    answer = run.output if run.answer is None else run.answer
    text = spoken_text(answer, run.output)
    return json.dumps(answer, ensure_ascii=False) if text is None else text
