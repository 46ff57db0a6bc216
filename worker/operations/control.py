"""Operations that stop, retry and delete a run.

If a request to the state server is sent again after a lost reply, it takes effect only once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from perdure.worker.domain.children import child_of
from perdure.worker.domain.record import GROUPS, RETRIED, SCHEMA, Record
from perdure.worker.domain.run import Run, status_of
from perdure.worker.domain.stop import StopMode, StopReceipt
from perdure.worker.domain.token import Scope
from perdure.worker.errors import InvalidTransition, RunNotFound, Stale
from perdure.worker.operations import validation
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.raised_limits import counting_anew
from perdure.worker.operations.run_reads import get
from perdure.worker.operations.session import Session, damaged, new_operation_id, not_found
from perdure.worker.operations.tree import ids_below, live_among
from perdure.worker.store.lookups import idempotency_key, is_there

logger = logging.getLogger("perdure.client")

#: Phase in the reply of delete_run.lua for a run whose children are still to be stopped.
STOPPING_CHILDREN = "stopping its children"


@operation(Http("POST", "/runs/{run_id}/stop"), scope=Scope.STOP, owner=Owner.RUN)
def request_stop(
    session: Session,
    run_id: str,
    mode: StopMode = "graceful",
    reason: str | None = None,
    requested_by: str | None = None,
    children: bool = True,
) -> StopReceipt:
    """Stop a run and its children.

    A run that has ended or does not exist is no error: the receipt reports it.

    Args:
        mode: With ``graceful``, the round in flight may finish. With ``now``, the run is
            stopped when this returns.
        reason, requested_by: Texts that are stored with the run.
        children: If False, started children continue. Their answers are available when the run
            is resumed.
    """
    is_valid_id = validation.is_run_id(run_id)
    reply = (
        session.store.runs.request_stop(
            run_id,
            op=new_operation_id(),
            mode=mode,
            by=requested_by,
            reason=reason,
            only=not children,
        )
        if is_valid_id
        else ["missing"]
    )
    if reply[0] == "damaged":
        raise damaged(run_id, reply)
    session.look_after(reply[7:])
    return StopReceipt.of(run_id, reply, mode, requested_by, reason)


@operation(Http("POST", "/runs/{run_id}/retry"), scope=Scope.SUBMIT, owner=Owner.RUN)
def retry(session: Session, run_id: str, children: bool = True) -> Run:
    """Retry an errored run at its failed step.

    Args:
        children: If True, the errored children that this step waited for are retried first.
            Their completed siblings keep their answers. If the run still waits for children
            that are held back (``on_failure``), only these children are retried. If False, no
            child is retried.

    Raises:
        InvalidTransition: The run is not errored, and no child was retried.
        Stale: Another retry or round came first.
        RunNotFound: No run has this id.
    """
    record = session.record(run_id)
    phase = record.fields.get("phase")
    if children and phase in ("errored", "parked"):
        retried = _retry_children(session, record, only_held=phase == "parked")
        if retried and phase == "parked":
            return get(session, run_id)
    message = session.message(record, 1)
    reset_fields = counting_anew(record)
    reply = session.store.runs.retry(
        run_id,
        op=new_operation_id(),
        epoch=record.epoch,
        step=record.step,
        message=message,
        after=session.message(record, 2),
        idempotency_key=record.fields.get("idem"),
        fields={**reset_fields, RETRIED: str(record.epoch)},
        digest=record.fields.get("digest") if reset_fields else None,
    )
    session.publish(record, reply, message)
    match reply:
        case ["queued" | "waiting" | "interrupted", *follow_ups]:
            session.look_after(follow_ups)
            return get(session, run_id)
        case ["running", *_]:
            raise InvalidTransition(
                f"run {run_id} is {get(session, run_id).status.value}; "
                "only an errored run can be retried"
            )
        case ["stale", *_]:
            raise Stale(
                f"run {run_id} has changed: another retry or round came first; "
                f"read it again: perdure show {run_id}"
            )
        case _:
            raise damaged(run_id, reply)


def _retry_children(session: Session, record: Record, only_held: bool) -> int:
    """Retry the errored children for which a run's step waits, or waited when it failed.

    The caller retries the run itself after its children, so that an aborted call can be repeated. A
    child that was retried or deleted meanwhile is logged and left out.

    Args:
        only_held: Retry only children whose failure the run has not received (``on_failure``).

    Returns:
        Number of retried children.
    """
    retried = 0
    for group in record.fields.get(GROUPS, "").split():
        for place in session.store.family.failed(record.id, group, only_held):
            child_id, _ = child_of(record.id, record.fields.get("nonce", ""), group, place)
            try:
                retry(session, child_id)
                retried += 1
            except (InvalidTransition, Stale, RunNotFound):
                logger.info("child run %s was retried or deleted meanwhile", child_id)
    return retried


def _encode_deletion(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {**arguments, "tree": arguments["tree"] or None}


@operation(
    Http("DELETE", "/runs/{run_id}"),
    scope=Scope.ADMIN,
    owner=Owner.RUN,
    encode=_encode_deletion,
)
def delete(session: Session, run_id: str, tree: bool = False) -> None:
    """Delete a run that has ended.

    A run that is too damaged to continue or to stop can be deleted too. The notes that it kept
    for later runs stay (``forget_notes``).

    Args:
        tree: Also delete the runs below it, deepest first. A call that failed midway can be
            repeated.

    Raises:
        InvalidTransition: The run is live, its children are still being stopped, or a newer
            version of Perdure wrote it. With ``tree``, also if a run below it is live. No run
            is deleted then.
        RunNotFound: No run has this id.
    """
    if not validation.is_run_id(run_id) or not is_there(session.store, run_id):
        raise not_found(run_id)
    if tree:
        _delete_below(session, run_id)
    reply = session.store.runs.delete(run_id, idempotency_key(session.store, run_id), SCHEMA)
    # The run existed a moment ago. So the reply "missing" means that our own call was sent
    # again after a lost reply.
    if reply[0] == "live" and reply[1] == STOPPING_CHILDREN:
        raise InvalidTransition(
            f"run {run_id} has child runs that are being stopped; delete it in a moment"
        )
    if reply[0] == "live":
        status = status_of({**(session.store.reads.fields(run_id) or {}), "phase": reply[1]})
        raise InvalidTransition(f"run {run_id} is {status.value}; stop it before deleting it")
    if reply[0] == "newer":
        raise InvalidTransition(
            f"run {run_id} was written by a newer version (schema {reply[1]}, "
            f"this one reads {SCHEMA}), which may still "
            "run it; delete it with that version"
        )
    if reply[0] == "damaged":
        raise damaged(run_id, reply)


def _delete_below(session: Session, run_id: str) -> None:
    """Delete all runs below a run, deepest first.

    Because of this order, a failed call can be repeated. Runs that are already deleted are skipped.

    Raises:
        InvalidTransition: The run or a run below it is live. This is checked before the first
            deletion.
    """
    below = ids_below(session.store, run_id)
    live = live_among(session.store, [run_id, *below])
    if live:
        child, status = live[0]
        others = f" and {len(live) - 1} more" if len(live) > 1 else ""
        raise InvalidTransition(
            f"the tree of run {run_id} is not deleted: run {child}{others} of it "
            f"{'have' if others else 'has'} not ended ({child} is {status}). "
            f"Stop it first: perdure stop {child}"
        )
    for each in reversed(below):
        with suppress(RunNotFound):
            delete(session, each)
