"""Operations on workers, queues, flows and the state server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from perdure.flows.core.names import suggest
from perdure.worker.domain.fleet import (
    DeadLetter,
    FlowInfo,
    FlowPause,
    QueueInfo,
    WorkerInfo,
    WorkerStatus,
    describe,
)
from perdure.worker.domain.token import Scope
from perdure.worker.domain.verdict import Finding
from perdure.worker.errors import UnknownFlow
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.session import Session


@operation(Http("GET", "/workers", route="list_workers"), scope=Scope.READ, owner=Owner.NONE)
def workers(session: Session) -> list[WorkerStatus]:
    """Return the workers that announced themselves lately.

    Each worker has ``name``, ``alive``, ``silent`` (seconds since its last heartbeat) and the
    data of its announcement, for example ``draining``.
    """
    now = session.store.time()
    return [
        WorkerInfo(*each).status(now, session.settings.heartbeat_seconds)
        for each in session.store.fleet.workers()
    ]


@operation(Http("GET", "/queues", route="list_queues"), scope=Scope.READ, owner=Owner.NONE)
def queues(session: Session) -> list[QueueInfo]:
    """Return the broker's queues, with their lengths.

    For each queue, ``oldest`` is the number of seconds that the run of its next message has
    waited. It is None if the queue is empty or the time is not known.
    """
    from perdure.worker.operations.queue_lengths import read_queues  # Few commands read queues.

    return read_queues(session)


@operation(
    Http("GET", "/dead-letters", route="list_dead_letters", problems=("invalid-request",)),
    scope=Scope.ADMIN,
    owner=Owner.NONE,
)
def dead_letters(session: Session, limit: int = 20) -> list[DeadLetter]:
    """Return the newest messages that workers refused.

    Workers refuse an invalid message. Each entry has ``at`` (s since 1970), ``list`` (the
    queue), ``why``, ``bytes`` and ``message`` (its beginning).
    """
    return cast(list[DeadLetter], session.store.fleet.dead_letters(limit))


@operation(Http("GET", "/flows", route="list_flows"), scope=Scope.READ, owner=Owner.NONE)
def flows(session: Session) -> dict[str, FlowInfo]:
    """Return the known flows by name.

    A flow is known if this process or a live worker has it. Each flow has its description,
    nodes, limits, input schema and workers.
    """
    from perdure.flows.rounds import registry  # Loads flows, which no other operation here needs.

    session.find_flows()
    known = {
        name: cast(FlowInfo, {**describe(make()), "workers": []})
        for name, make in registry.registered().items()
    }
    for worker in workers(session):
        if worker["alive"]:
            for name, description in worker["flows"].items():
                flow = known.setdefault(name, cast(FlowInfo, {**description, "workers": []}))
                flow["workers"].append(worker["name"])
                # The worker replaced a shipped flow by another flow of this name.
                if description.get("shipped") is False:
                    flow["shipped"] = False
    return known


@operation(Http("PUT", "/flows/{flow}/pause", result="new"), scope=Scope.ADMIN, owner=Owner.NONE)
def pause_flow(
    session: Session, flow: str, reason: str | None = None, requested_by: str | None = None
) -> bool:
    """Pause a flow: no further round of its runs is claimed.

    Rounds in flight finish, and new runs may be submitted.

    Args:
        reason, requested_by: Texts that ``paused_flows`` returns, as ``reason`` and ``by``.

    Returns:
        True if the flow was not paused before, else False.

    Raises:
        UnknownFlow: Neither this client nor a live worker knows the flow. Its name may be
            mistyped.
    """
    _check_known(session, flow)
    return session.store.pauses.add(flow, requested_by, reason)


@operation(
    Http("DELETE", "/flows/{flow}/pause", result="offered"), scope=Scope.ADMIN, owner=Owner.NONE
)
def unpause_flow(session: Session, flow: str) -> int:
    """Unpause a flow and requeue its held runs. Do nothing if it is not paused.

    Returns:
        The number of runs that were held.

    Raises:
        UnknownFlow: The flow is not paused, and neither this client nor a live worker knows it.
            Its name may be mistyped.
    """
    if flow not in session.store.pauses.all():
        _check_known(session, flow)
    return session.store.pauses.remove(flow)


def _check_known(session: Session, flow: str) -> None:
    if flow not in (known := flows(session)):
        raise UnknownFlow(f"unknown flow {flow!r}; {suggest(flow, known)}")


def _decode_pauses(data: Any) -> dict[str, FlowPause]:
    """Return the paused flows of an HTTP response, with their times as datetimes."""
    return {
        flow: cast(FlowPause, {**pause, "at": datetime.fromisoformat(pause["at"])})
        for flow, pause in data.items()
    }


@operation(Http("GET", "/paused"), scope=Scope.READ, owner=Owner.NONE, decode=_decode_pauses)
def paused_flows(session: Session) -> dict[str, FlowPause]:
    """Return the paused flows by name. Each has ``at`` (datetime), ``by`` and ``reason``."""
    return {
        flow: cast(FlowPause, {**pause, "at": datetime.fromtimestamp(pause["at"] / 1000, UTC)})
        for flow, pause in session.store.pauses.all().items()
    }


@operation(Http("GET", "/doctor", route="examine"), scope=Scope.ADMIN, owner=Owner.NONE)
def doctor(session: Session) -> list[Finding]:
    """Check whether server, settings and process keep the guarantees.

    Returns:
        The findings, each with its remedy.
    """
    from perdure.worker.doctor import examine

    return examine(session.connection)
