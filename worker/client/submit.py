"""The client part that submits goals."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from perdure.flows.core.files import File, files_of
from perdure.flows.core.json_values import storable
from perdure.flows.core.retry import Retry, tightening
from perdure.worker.client.api import ClientApi
from perdure.worker.client.read import RunReads
from perdure.worker.domain.fleet import check_announced, describe
from perdure.worker.domain.record import KEY_SALT, Record, version_of
from perdure.worker.domain.run import Run
from perdure.worker.domain.submission import Submission, When, from_now
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
from perdure.worker.operations import validation
from perdure.worker.store import StoreUnavailable
from perdure.worker.store.keys import OWN_KEYS
from perdure.worker.tracing import traced_submission


class AlreadyHeard(Exception):
    """An earlier run of the topic already has the message.

    Attributes:
        run_id: Id of the earlier run.
    """

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


class Submitter(RunReads, ClientApi):
    """Creates runs."""

    def submit(
        self,
        flow: str,
        goal: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        interrupt_before: Sequence[str] | None = None,
        interrupt_after: Sequence[str] | None = None,
        max_rounds: int | None = None,
        not_before: When | None = None,
        deadline: When | None = None,
        thread_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        budgets: Mapping[str, float] | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        submitted_by: str | None = None,
        on_end: Mapping[str, Any] | str | None = None,
        nonce: str | None = None,
        topic: str | None = None,
        model: str | None = None,
        files: Sequence[File | str | os.PathLike[str]] | None = None,
    ) -> Run:
        validation.text(flow, "flow")
        validation.optional_texts(goal=goal)
        validation.mapping(inputs, "inputs")
        validation.optional_texts(thread_id=thread_id, model=model)
        validation.topic(topic)
        validation.pauses(interrupt_before, interrupt_after)
        validation.options(labels, submitted_by, idempotency_key, nonce, budgets)
        read_files = files_of(files)
        on_end_text = None if on_end is None else self._signature_text(on_end)
        self._session.check_durability()
        description, accepted, checked = self._checked(flow, dict(inputs or {}))
        submission = Submission(
            flow=flow,
            description=description,
            goal=_goal(flow, goal, description),
            inputs=accepted,
            checked=checked,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            max_rounds=max_rounds,
            thread_id=thread_id,
            labels=labels or {},
            given=inputs or {},
            not_before=not_before,
            deadline=deadline,
            budgets=budgets,
            retry=tightening(retry),
            submitted_by=submitted_by,
            on_end=on_end_text,
            topic=topic,
            model=model,
            files=read_files,
        )
        return self._submit(submission, run_id, idempotency_key, nonce)

    def _submit(
        self,
        submission: Submission,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        nonce: str | None = None,
        said: str | None = None,
    ) -> Run:
        """Make the run of a submission.

        Args:
            said: Stored key of the message with which the run continues a conversation.

        Raises:
            AlreadyHeard: An earlier run of the topic already has this message.
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
        fields = submission.fields(self.settings, TASKS[role], self._store.keys.queue(role)) | salt
        fields["schema"] = version_of(fields)
        now = time.time()
        delay = from_now(submission.not_before, "not_before", now)
        until = from_now(submission.deadline, "deadline", now)
        if until is not None and until <= 0:
            raise InvalidInput(f"the deadline passed {-until / 1000:g} s ago; pass a later one")
        delay = delay if delay is not None and delay > 0 else None
        phase = (
            "interrupted" if submission.interrupted_at_once else "waiting" if delay else "queued"
        )
        message = self._connection.publisher.message(
            role, run_id, 1 if phase == "interrupted" else 0, submission.step
        )
        with traced_submission(submission.flow, run_id) as root:
            reply, detail, written = self._store.runs.submit_and_tell(
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
                said=said,
                artifacts=submission.artifacts,
                step=submission.step,
                turns=() if submission.fork is None else submission.fork.packed(run_id),
                values=submission.first_values,
            )
            root.made = reply == "ok" and (nonce is None or self._has(run_id, root.fields))
        if reply not in ("ok", "existing"):
            raise _refusal(reply, detail, run_id, submission.topic, idempotency_key)
        if reply == "ok" and phase == "queued":
            self._connection.publisher.publish([(message.queue, message.text)])
        return self._get_accepted(detail) if written is None else Run.of(Record(written))

    def _signature_text(self, on_end: Mapping[str, Any] | str) -> str:
        from perdure.worker.messaging.callbacks import (
            signature_text,
        )  # imports Celery, which is slow

        return signature_text(on_end)

    def _has(self, run_id: str, fields: Mapping[str, str]) -> bool:
        """Return whether the stored run comes from this very submission.

        It compares the tracing fields. The reply ``ok`` does not show this, because a repeated
        submission with the same nonce gets it too.
        """
        return not fields or self._store.reads.some_fields([run_id], list(fields)) == [dict(fields)]

    def _get_accepted(self, run_id: str) -> Run:
        try:
            return self.get(run_id)
        except RunNotFound as error:
            raise StoreUnavailable(
                f"run {run_id}: the server accepted it but no longer has it; "
                "a failover lost it, or it was deleted. Submit it again"
            ) from error

    def _checked(
        self, name: str, inputs: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any], bool]:
        """Return a flow's description, the inputs, and a flag.

        The flag tells whether the flow could check the inputs. If this process does not know the
        flow, the description comes from a live worker's announcement.

        Raises:
            UnknownFlow: Neither this process nor a live worker knows the flow.
        """
        from perdure.flows.rounds import (
            registry,  # Loads flows, which clients that only read do not need.
        )

        self._find_flows()
        try:
            flow = registry.make(name)
        except registry.FlowNotFound as error:
            announced = [worker["flows"] for worker in self.workers() if worker["alive"]]
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

    During a rollout live workers announce different versions of the flow.

    Raises:
        InvalidInput: No description accepts them.
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
    """Return a submission's goal, empty if none is needed.

    Raises:
        InvalidInput: The flow needs one.
    """
    if goal is None and description.get("needs_goal", True):
        raise InvalidInput(
            f"the flow {flow} needs a goal, and none was given. Say what the run is to achieve: "
            f'perdure submit {flow} "GOAL". A flow with needs_goal = False needs none'
        )
    return goal or ""


def _check_id(run_id: object) -> None:
    """Raise InvalidInput unless a run can have this id."""
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id) or run_id.endswith(OWN_KEYS):
        raise InvalidInput(
            f"{run_id!r} cannot be a run id; expected at most 200 of "
            "a-z, A-Z, 0-9 and _ . : @ -, a letter or digit first, "
            f"and not {', '.join(OWN_KEYS)} at the end"
        )


def _refusal(
    reply: str, detail: str, run_id: str, topic: str | None, idempotency_key: str | None
) -> Exception:
    """Return the error for a submission that was not accepted."""
    match reply:
        case "exists":
            return RunExists(
                f"run {run_id} exists already, from another submission; "
                "choose another id, or use an idempotency key"
            )
        case "taken":
            return Taken(
                f"another live run holds the topic {topic!r}, and one run at a "
                "time holds a topic. Signal it, or submit again when it has ended or was "
                "stopped",
                detail,
            )
        case "heard":
            return AlreadyHeard(detail)
        case "conflict":
            return Conflict(
                f"the idempotency key {idempotency_key!r} belongs to run {detail} with "
                "different content; use another key"
            )
        case _:
            return DamagedRun(
                f"run {run_id} was not submitted: the server replied {reply} {detail}; "
                "inspect that key with redis-cli"
            )
