"""The operation that submits a goal."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Unpack

from perdure.flows.core.files import files_of
from perdure.flows.core.json_values import storable
from perdure.flows.core.retry import tightening
from perdure.worker.domain.fleet import check_announced, describe
from perdure.worker.domain.record import KEY_SALT, Record, version_of
from perdure.worker.domain.run import Run
from perdure.worker.domain.submission import (
    SUBMITTED_AS,
    SUBMITTED_AS_DIGITS,
    Submission,
    from_now,
    is_duration,
)
from perdure.worker.domain.token import Scope
from perdure.worker.errors import (
    Conflict,
    DamagedRun,
    InvalidInput,
    RunExists,
    RunNotFound,
    Taken,
    UnknownFlow,
)
from perdure.worker.ids import RUN_ID
from perdure.worker.messaging.message import TASKS
from perdure.worker.operations.fleet import workers
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.session import Session
from perdure.worker.operations.submission_options import SubmissionOptions
from perdure.worker.store import StoreUnavailable
from perdure.worker.store.keys import OWN_KEYS
from perdure.worker.tracing import traced_submission


class AlreadyHeard(Exception):
    """Raised when another run of the topic already has the message.

    Attributes:
        run_id: Id of the run that has the message.
    """

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


@operation(Http("POST", "/runs", is_repeatable=True), scope=Scope.SUBMIT, owner=Owner.CALLER)
def submit(
    session: Session,
    flow: str,
    goal: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    **options: Unpack[SubmissionOptions],
) -> Run:
    """Submit a goal. Once this returns, the run is stored and will not be lost.

    Args:
        flow: Name of a flow that this client or a live worker knows.
        goal: The goal. None if the flow needs no goal, such as a workflow without a parameter
            ``goal``. The goal is then empty.
        inputs: Further inputs of the flow.
        run_id: An id of your own. None generates an id.
        idempotency_key: A call with the same key and the same content returns the existing run.
            The content is the flow, goal, inputs and options as passed here. So a duration is
            the same content however late the call is repeated, and defaults do not count.
        interrupt_before, interrupt_after: Nodes to pause at. None means the flow's own.
        max_rounds: Maximum number of cycles. None means the flow's own.
        not_before, deadline: The earliest start of the run, and the latest end. Each is an aware
            datetime, or a duration (timedelta, seconds) from now. The start is before the end.
        thread_id: Your name for the conversation that the run belongs to.
        labels: Texts by name.
        budgets: Limits on the run's spending (``tokens``, ``money``, ``seconds``, ``cycles``,
            ``commands.NAME``). They override the flow's own.
        retry: Tightens the flow's retry policies: ``max_attempts``, ``within``, ``not_on``. See
            ``perdure.Retry``.
        submitted_by: Owner of the run: a person or a service, by a name of yours. It is not
            part of an idempotency key's content.
        on_end: A Celery signature (an object, its dict or JSON), called at least once when the
            run has completed, errored or stopped. Its first argument is a dict: ``run_id``,
            ``flow``, ``status``, ``finished``, ``answer``, ``output``, ``error``, ``labels``,
            ``epoch``. The signature's own arguments follow. An immutable signature gets no
            dict. A run that continues after its end calls the signature again at its next end.
            Perdure's own workers need ``queue`` in the signature's options
            (docs/guides/celery.md).
        nonce: An unguessable text of letters and digits, unique to this call. If the reply is
            lost, repeat the call with the same ``run_id`` and nonce: it returns the run that
            the first call made. Its arguments must be the same, too. None generates a nonce.
        topic: A name of your own, such as an order number. Signals to the topic reach the run.
            One live run holds a topic. Signals that wait for the topic go into the new run's
            mailbox.
        model: The model that the run asks, one of the flow's ``allowed_models``. None means the
            flow's own.
        files: Pictures, documents and texts, as ``File`` or paths. A model sees them with the
            goal, and the run's code reads them with ``context.file``. At most 20, of 8 MiB each
            and 16 MiB together.

    Raises:
        UnknownFlow, InvalidInput, UnstorableValue: The submission is not valid. Nothing was
            stored.
        UnsafeServer: The server could lose the run (see the setting ``durability``). Nothing
            was stored.
        RunExists: Another submission has used this run id.
        Conflict: The idempotency key, or the nonce with this run id, was used with different
            content.
        Taken: Another live run holds the topic.
    """
    read_files = files_of(options.get("files"))
    on_end = options.get("on_end")
    on_end_text = None if on_end is None else signature_text(on_end)
    session.check_durability()
    description, accepted, checked = checked_flow(session, flow, dict(inputs or {}))
    submission = Submission(
        flow=flow,
        description=description,
        goal=_goal(flow, goal, description),
        inputs=accepted,
        checked=checked,
        interrupt_before=options.get("interrupt_before"),
        interrupt_after=options.get("interrupt_after"),
        max_rounds=options.get("max_rounds"),
        thread_id=options.get("thread_id"),
        labels=options.get("labels") or {},
        given=inputs or {},
        not_before=options.get("not_before"),
        deadline=options.get("deadline"),
        budgets=options.get("budgets"),
        retry=tightening(options.get("retry")),
        submitted_by=options.get("submitted_by"),
        on_end=on_end_text,
        topic=options.get("topic"),
        model=options.get("model"),
        files=read_files,
        has_own_topics=session.has_own_topics,
    )
    return make_run(
        session,
        submission,
        options.get("run_id"),
        options.get("idempotency_key"),
        options.get("nonce"),
    )


def make_run(
    session: Session,
    submission: Submission,
    run_id: str | None = None,
    idempotency_key: str | None = None,
    nonce: str | None = None,
    said: tuple[str, str] | None = None,
) -> Run:
    """Store the run of a submission, publish its message, and return the run.

    If the submission was stored before, return the existing run.

    Args:
        run_id: The id of the new run. None generates an id.
        nonce: A text that identifies this submission if it is sent again. None generates a nonce.
        said: For a message to a thread, its key as mailboxes store it, and the digest of its
            payload. None for any other submission.

    Raises:
        AlreadyHeard: Another run of the topic already has this message.
        RunExists, Conflict, Taken: As for ``submit``. Conflict also means that the key in ``said``
            belongs to another message.
        InvalidInput: The run id is not valid, or the deadline has passed.
        StoreUnavailable: The state server stored the run, and has lost it since.
    """
    submission_nonce = nonce or uuid.uuid4().hex
    salt: dict[str, str] = {}
    if run_id is None:
        run_id = uuid.uuid4().hex[:16]
    else:
        _check_id(run_id)
        # Receivers must not confuse the effects of this run with a deleted run's.
        salt = {KEY_SALT: sha256(submission_nonce.encode()).hexdigest()[:16]}
    description = submission.description
    role = description["nodes"][submission.first_node]
    fields = submission.fields(session.settings, TASKS[role], session.store.keys.queue(role)) | salt
    if nonce is not None:
        fields[SUBMITTED_AS] = submission.content()[:SUBMITTED_AS_DIGITS]
    fields["schema"] = version_of(fields)
    now = time.time()
    delay = from_now(submission.not_before, "not_before", now)
    until = from_now(submission.deadline, "deadline", now)
    if until is not None and until <= 0:
        raise InvalidInput(f"the deadline passed {-until / 1000:g} s ago; pass a later one")
    delay = delay if delay is not None and delay > 0 else None
    if (
        delay is not None
        and until is not None
        and delay >= until
        # A repeated call must not be refused because it is late.
        and is_duration(submission.not_before) == is_duration(submission.deadline)
    ):
        raise InvalidInput(
            f"the deadline passes in {until / 1000:g} s, before the run may begin: not_before is "
            f"{delay / 1000:g} s ahead. Pass a later deadline, or an earlier not_before"
        )
    phase = "interrupted" if submission.interrupted_at_once else "waiting" if delay else "queued"
    message = session.connection.publisher.message(
        role, run_id, 1 if phase == "interrupted" else 0, submission.step
    )
    with traced_submission(submission.flow, run_id) as root:
        reply, detail, written = session.store.runs.submit_and_tell(
            run_id,
            {**fields, **root.fields},
            nonce=submission_nonce,
            message=message.text,
            phase=phase,
            delay=delay,
            deadline=until,
            idempotency_key=idempotency_key,
            content=submission.content() if idempotency_key is not None else None,
            submitted_by=submission.submitted_by,
            topic=submission.topic,
            said=None if said is None else said[0],
            said_content=None if said is None else said[1],
            artifacts=submission.artifacts,
            step=submission.step,
            turns=() if submission.fork is None else submission.fork.packed(run_id),
            values=submission.first_values,
        )
        root.made = reply == "ok" and (nonce is None or _has(session, run_id, root.fields))
    if reply not in ("ok", "existing"):
        raise _refusal(reply, detail, run_id, submission.topic, idempotency_key)
    if reply == "ok" and phase == "queued":
        session.connection.publisher.publish([(message.queue, message.text)])
    if written is not None:
        return Run.of(Record(written))
    record = _accepted(session, detail)
    if reply == "ok":
        _check_same_call(record, submission, fields)
    return Run.of(record)


def signature_text(on_end: Mapping[str, Any] | str) -> str:
    """Return a Celery signature as a JSON text.

    Raises:
        InvalidInput: ``on_end`` is not a signature.
    """
    from perdure.worker.messaging import callbacks  # Imports Celery, which is slow.

    return callbacks.signature_text(on_end)


def _has(session: Session, run_id: str, fields: Mapping[str, str]) -> bool:
    """Return whether the stored run comes from this call, not from an earlier one.

    The reply ``ok`` does not show this, because a repeated submission with the same nonce gets the
    same reply.

    Args:
        fields: The tracing fields of this call, which the stored run must have. If they are empty,
            the result is True.
    """
    return not fields or session.store.reads.some_fields([run_id], list(fields)) == [dict(fields)]


def _accepted(session: Session, run_id: str) -> Record:
    """Return the stored record of a run that the server has just accepted, or had before."""
    try:
        return session.record(run_id)
    except RunNotFound as error:
        raise StoreUnavailable(
            f"run {run_id}: the server accepted it but no longer has it; "
            "a failover lost it, or it was deleted. Submit it again"
        ) from error


def run_exists(run_id: str) -> RunExists:
    """Return the error for a submission whose run id belongs to another submission."""
    return RunExists(
        f"run {run_id} exists already, from another submission; "
        "choose another id, or use an idempotency key"
    )


def _check_same_call(record: Record, submission: Submission, fields: Mapping[str, str]) -> None:
    """Raise an error if a run with a submission's nonce was made by another call.

    A run of an earlier release does not say by which call it was made, so nothing is compared.

    Args:
        fields: The fields that this submission would have stored.

    Raises:
        Conflict: The call that made the run had other arguments.
        RunExists: The same, and the run has another owner, who must not be told about it.
    """
    stored = record.fields
    if stored.get(SUBMITTED_AS, fields.get(SUBMITTED_AS)) == fields.get(SUBMITTED_AS):
        return
    if stored.get("submitted_by") != submission.submitted_by:
        raise run_exists(record.id)
    # The flow may have added defaults to the stored inputs, so only those of the call are compared.
    accepted = json.loads(fields["inputs"])
    has_other_inputs = any(
        record.inputs.get(name) != accepted.get(name) for name in submission.given
    )
    differing = [name for name in ("flow", "goal") if stored.get(name) != fields[name]]
    differing += ["inputs"] if has_other_inputs else []
    raise Conflict(
        f"run {record.id} was made under this nonce by a call with different arguments "
        f"({', '.join(differing) or 'inputs or options'}). Repeat the call with the same "
        "arguments, or use another run_id and nonce for another run",
        record.id,
    )


def checked_flow(
    session: Session, name: str, inputs: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Return a flow's description, the inputs, and whether the flow has checked the inputs.

    If this process does not know the flow, the description comes from a live worker's announcement.
    Then the inputs are checked only against the announced schema, and the third value is False.

    Raises:
        UnknownFlow: Neither this process nor a live worker knows the flow.
        InvalidInput, UnstorableValue: The inputs do not fit the flow, or are not JSON data.
    """
    from perdure.flows.rounds import registry  # Loads flows, which reads do not need.

    try:
        flow = session.make_flow(name)
    except registry.FlowNotFound as error:
        announced = [worker["flows"] for worker in workers(session) if worker["alive"]]
        descriptions = [flows[name] for flows in announced if name in flows]
        if descriptions:
            plain_inputs = dict(storable(inputs, "the inputs"))
            return _fitting(name, descriptions, plain_inputs), plain_inputs, False
        text = registry.not_found_text(name, {each for flows in announced for each in flows})
        raise UnknownFlow(
            f"{text}; no live worker has announced it either. "
            "Name its module in flow_modules (PERDURE_FLOW_MODULES)"
        ) from error
    return describe(flow), flow.check_inputs(inputs), True


def _fitting(
    name: str, descriptions: Sequence[dict[str, Any]], inputs: dict[str, Any]
) -> dict[str, Any]:
    """Return a flow's first description that accepts these inputs.

    During a rollout, live workers announce different versions of the flow.

    Raises:
        InvalidInput: No description accepts the inputs. It is the error of the first description.
    """
    refusals = []
    for description in descriptions:
        try:
            check_announced(name, description["inputs"], inputs)
        except InvalidInput as error:
            refusals.append(error)
        else:
            return description
    raise refusals[0]


def _goal(flow: str, goal: str | None, description: Mapping[str, Any]) -> str:
    """Return a submission's goal. It is empty if no goal is passed and the flow needs none.

    Raises:
        InvalidInput: No goal is passed, but the flow needs one.
    """
    if goal is None and description.get("needs_goal", True):
        raise InvalidInput(
            f"the flow {flow} needs a goal, and none was given. Say what the run is to achieve: "
            f'perdure submit {flow} "GOAL". A flow with needs_goal = False needs none'
        )
    return goal or ""


def _check_id(run_id: object) -> None:
    """Raise InvalidInput unless this is a text that a run can have as its id."""
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id) or run_id.endswith(OWN_KEYS):
        raise InvalidInput(
            f"{run_id!r} cannot be a run id; expected at most 200 of "
            "a-z, A-Z, 0-9 and _ . : @ -, a letter or digit first, "
            f"and not {', '.join(OWN_KEYS)} at the end"
        )


def _refusal(
    reply: str, detail: str, run_id: str, topic: str | None, idempotency_key: str | None
) -> Exception:
    """Return the error for a reply of submit_run.lua by which no run was stored.

    Args:
        reply: The first word of the reply. It is neither ``ok`` nor ``existing``.
        detail: The second word: the id of the run that prevents the submission, or a damaged key.
    """
    match reply:
        case "exists":
            return run_exists(run_id)
        case "taken":
            return Taken(
                f"another live run holds the topic {topic!r}, and one run at a "
                "time holds a topic. Signal it, or submit again when it has ended or was "
                "stopped",
                detail,
            )
        case "heard":
            return AlreadyHeard(detail)
        case "said_other":
            return Conflict(f"run {detail} got another message under this key", detail)
        case "conflict":
            return Conflict(
                f"the idempotency key {idempotency_key!r} belongs to run {detail} with "
                "different content; use another key",
                detail,
            )
        case _:
            return DamagedRun(
                f"run {run_id} was not submitted: the server replied {reply} {detail}; "
                "inspect that key with redis-cli"
            )
