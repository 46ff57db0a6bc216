"""Submitting: hand a goal over."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from flows import registry
from flows.retries import Retry, tightening
from flows.values import storable
from worker.announcement import check_announced, describe
from worker.client import arguments
from worker.client.fleet import Fleet
from worker.errors import Conflict, DamagedRun, InvalidInput, RunExists, RunNotFound, UnknownFlow
from worker.record import Record
from worker.run import Run
from worker.store import StoreUnavailable
from worker.submission import OWN_KEYS, RUN_ID, Submission, When, from_now
from worker.task_names import TASKS
from worker.telemetry.submissions import traced_submission


class Submitting(Fleet):
    """Makes runs."""

    def submit(
        self,
        flow: str,
        goal: str,
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
    ) -> Run:
        """Hand over a goal; once this returns, the run is not lost.

        Args:
            flow: the name of a flow that this client or a live worker knows.
            goal: what to pursue.
            inputs: what the flow needs beside it.
            run_id: an id of your own; None for a new one.
            idempotency_key: the same key with the same content gets the same run. The content is flow, goal, inputs and options as they
                are given here: a duration is the same however late the call is repeated, and defaults are no part of it.
            interrupt_before, interrupt_after: nodes to pause at; None for the flow's own.
            max_rounds: cycles; None for the flow's own.
            not_before, deadline: an aware datetime, or a duration (timedelta, seconds) from now.
            thread_id: your name for the conversation this belongs to. labels: texts by name.
            budgets: what the run may spend (``tokens``, ``money``, ``seconds``, ``cycles``, ``commands.NAME``), over the flow's own limits.
            retry: tightens the policies of the flow: ``max_attempts``, ``within``, ``not_on``; see ``flows.Retry``.
            submitted_by: whose run it is: a person or a service, by a name of yours. It is no part of an idempotency key's content.
            on_end: a Celery signature (an object, its dict or JSON), called at least once when the run has ended: completed, errored or
                stopped. Its first argument is a dict: ``run_id``, ``flow``, ``status``, ``finished``, ``answer``, ``output``, ``error``,
                ``labels``, ``epoch``. The signature's own arguments follow; one that is immutable gets none. A run that goes on
                behind its end calls once more at the next. Workers of Holdfast's own need ``queue`` in its options (docs/celery.md).
            nonce: a text made for this call alone, of letters and digits that nobody guesses: the call sent again with the same
                ``run_id`` and nonce, as its answer was lost on the way, gets the run that it made. None for one of its own.

        Raises:
            UnknownFlow, InvalidInput, UnstorableValue: nothing was stored.
            UnsafeServer: the server would lose the run (see the setting ``durability``); nothing was stored.
            RunExists: another submission used the run id. Conflict: the idempotency key has other content.
        """
        arguments.text(flow, "flow")
        arguments.text(goal, "goal")
        arguments.mapping(inputs, "inputs")
        arguments.names(interrupt_before, "interrupt_before")
        arguments.names(interrupt_after, "interrupt_after")
        arguments.mapping(labels, "labels", of_texts=True)
        arguments.optional_texts(thread_id=thread_id)
        arguments.submitter(submitted_by)
        arguments.key(idempotency_key)
        arguments.nonce(nonce)
        arguments.budgets(budgets, "budgets")
        called = None if on_end is None else self._signature_text(on_end)
        self._check_durability()
        description, accepted, checked = self._checked(flow, dict(inputs or {}))
        submission = Submission(
            flow=flow,
            description=description,
            goal=goal,
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
            on_end=called,
        )
        if run_id is None:
            run_id = uuid.uuid4().hex[:16]
        elif not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id) or run_id.endswith(OWN_KEYS):
            raise InvalidInput(
                f"{run_id!r} cannot be a run id; expected letters, digits and _ . : @ -, at most 200, a letter or digit first, "
                f"and none of {', '.join(OWN_KEYS)} at the end"
            )
        role = description["nodes"][description["first"]]
        fields = submission.fields(self.settings, TASKS[role], self._store.keys.queue(role))
        now = time.time()
        delay = from_now(not_before, "not_before", now)
        until = from_now(deadline, "deadline", now)
        if until is not None and until <= 0:
            raise InvalidInput(f"the deadline has passed {-until / 1000:g} s ago; give a later one")
        delay = delay if delay is not None and delay > 0 else None
        phase = "interrupted" if submission.interrupted_at_once else "waiting" if delay else "queued"
        message = self._engine.dispatcher.message(role, run_id, 1 if phase == "interrupted" else 0, 0)
        with traced_submission(flow, run_id) as root:
            word, detail, written = self._store.submit_and_tell(
                run_id,
                {**fields, **root.fields},
                nonce=nonce or uuid.uuid4().hex,
                message=message.text,
                phase=phase,
                delay=delay,
                deadline=until,
                idempotency_key=idempotency_key,
                content=submission.content() if idempotency_key is not None else None,
                submitted_by=submitted_by,
            )
            root.made = word == "ok" and (nonce is None or self._has(run_id, root.fields))
        match word:
            case "ok" | "existing":
                if word == "ok" and phase == "queued":
                    self._engine.dispatcher.hand_over([(message.queue, message.text)])
                return self._kept(detail) if written is None else Run.of(Record(written))
            case "exists":
                raise RunExists(f"run {run_id} exists already, from another submission; choose another id, or use an idempotency key")
            case "conflict":
                raise Conflict(
                    f"the idempotency key {idempotency_key!r} belongs to run {detail}, submitted with other content; use another key"
                )
            case _:
                raise DamagedRun(f"run {run_id} was not submitted: the server answered {word} {detail}; look at that key with redis-cli")

    def _signature_text(self, on_end: Mapping[str, Any] | str) -> str:
        from worker.calls import signature_text  # with it comes Celery, which takes long to import

        return signature_text(on_end)

    def _has(self, run_id: str, fields: Mapping[str, str]) -> bool:
        """Whether the run is the one that these were submitted with: a call sent again under its nonce is told ``ok`` as well."""
        return not fields or self._store.some_fields([run_id], list(fields)) == [dict(fields)]

    def _kept(self, run_id: str) -> Run:
        try:
            return self.get(run_id)
        except RunNotFound as error:
            raise StoreUnavailable(
                f"run {run_id}: the server accepted it and does not know it any more; a failover has undone that, or somebody deleted "
                "it. Submit it again"
            ) from error

    def _checked(self, name: str, inputs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], bool]:
        """The flow's description, the inputs as accepted, and whether the flow itself has checked them."""
        self._find_flows()
        try:
            flow = registry.make(name)
        except registry.FlowNotFound as error:
            for worker in self.workers():
                if worker["alive"] and name in worker["flows"]:
                    description = worker["flows"][name]
                    check_announced(name, description["inputs"], inputs)
                    return description, dict(storable(inputs, "the inputs")), False
            raise UnknownFlow(
                f"{error}; no live worker has announced it either. Name its module in flow_modules (HOLDFAST_FLOW_MODULES)"
            ) from error
        return describe(flow), flow.check_inputs(inputs), True
