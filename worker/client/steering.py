"""Steering: stop, resume, retry and delete one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.values import canonical, storable
from worker.client import arguments
from worker.client.answers import (
    asked_by,
    check_answer,
    check_approver,
    check_enough,
    check_takes_answer,
    counting_anew,
    going_on,
    more_cycles,
    raised,
    raising,
)
from worker.client.connection import damaged, not_found, operation
from worker.client.reading import Reading
from worker.errors import InvalidInput, InvalidTransition, Stale
from worker.receipt import StopMode, StopReceipt
from worker.record import SCHEMA
from worker.run import Run, status_of
from worker.store.remains import idempotency_key, is_there

#: In whose name a question is answered whose deadline has passed.
DEADLINE = "deadline"


class Steering(Reading):
    """Moves runs; each call is one operation, done once however often it is sent."""

    def request_stop(
        self, run_id: str, mode: StopMode = "graceful", reason: str | None = None, requested_by: str | None = None
    ) -> StopReceipt:
        """Stop a run. ``graceful``: the round in flight may finish. ``now``: stopped when this returns.

        A run that has ended, or does not exist, is no error: the receipt says so.
        """
        arguments.mode(mode)
        arguments.notes(reason=reason, requested_by=requested_by)
        known = arguments.is_run_id(run_id)
        words = self._store.request_stop(run_id, op=operation(), mode=mode, by=requested_by, reason=reason) if known else ["missing"]
        if words[0] == "damaged":
            raise damaged(run_id, words)
        return StopReceipt.of(run_id, words, mode, requested_by, reason)

    def resume(
        self,
        run_id: str,
        answer: Any = None,
        add: Mapping[str, float] | None = None,
        interrupt: str | None = None,
        by: str | None = None,
    ) -> Run:
        """Go on with an interrupted run, giving the answer, with a stopped one, or with one that used up its cycles.

        A run that paused behind the node that ended it completes with this.

        Args:
            answer: any JSON. An approval takes "approve", "refuse", {"refuse": "why"} or {"edit": {...the arguments}}.
            add: what to add to the limits of the run's budgets, by name; ``cycles`` for a run that ended unfinished.
            interrupt: the id of what is answered (``Waiting.id``), so that nothing that was asked since is answered unseen.
            by: who answers; it is kept with the run, and the run's node learns it.

        Raises:
            Forbidden: the flow wants another person's approval than the submitter's.
            InvalidTransition: the run is none of these. Stale: another answer came first. RunNotFound.
            InvalidInput, UnstorableValue: the answer is too large, no JSON, or does not fit what is asked; there is no such limit.
        """
        arguments.optional_texts(interrupt=interrupt)
        arguments.notes(by=by)
        if by == DEADLINE:
            raise arguments.wrong("by", f"the name of a person; {by!r} says that no person answered in time", by)
        more = arguments.budgets(add, "add")
        record = self._record(run_id)
        if interrupt is not None and (record.fields.get("i_id") != interrupt or "i_answer" in record.fields):
            raise Stale(f"run {run_id} does not ask that (any more); look at it again (holdfast show {run_id})")
        asked = asked_by(record)
        if answer is not None and record.fields.get("phase") == "stopped" and ("i_id" not in record.fields or "i_answer" in record.fields):
            raise InvalidTransition(f"run {run_id} was stopped and asks nothing; resume it without an answer")
        if answer is not None:
            check_takes_answer(record)
        text = None if answer is None else canonical(storable(answer, "the answer"))
        if text is not None and len(text.encode()) > self.settings.max_addition_bytes:
            raise InvalidInput(
                f"the answer takes {len(text.encode())} bytes, at most {self.settings.max_addition_bytes} are accepted "
                "(max_addition_bytes); pass a reference to large things"
            )
        if asked is not None and (answer is not None or record.fields.get("phase") == "interrupted"):
            check_answer(asked, answer)
            check_approver(asked, answer, by, record.fields.get("submitted_by"))
        cycles = more_cycles(record, more, answer)
        limits = raised(record, {name: amount for name, amount in more.items() if not (cycles and name == "cycles")})
        if cycles:
            text = text or "null"  # also where it paused, or was stopped, before it ended
        if asked is not None and asked.kind == "budget" and (more or record.fields.get("phase") == "interrupted"):
            check_enough(asked, limits, more)
            text = text or "null"  # also of a stopped run: it asks for more no longer
        message = self._message(record, 1)
        words = self._store.resume(
            run_id,
            op=operation(),
            epoch=record.epoch,
            step=record.step,
            message=message,
            after=self._message(record, 2),
            interrupt=record.fields.get("i_id"),
            answer=text,
            fields=going_on(record, limits, cycles) if cycles else raising(record, limits) if more else None,
            digest=record.fields.get("digest") if more else None,
            data=canonical({"added": more}) if more else None,
            more=cycles > 0,
            idempotency_key=record.fields.get("idem"),
            by=by,
        )
        self._hand_over(record, words, message)
        match words:
            case ["queued" | "waiting" | "interrupted" | "completed", *_]:
                return self.get(run_id)
            case ["stale", *_]:
                raise Stale(
                    f"run {run_id} has moved on: another answer, a resume or a round came first; look at it again (holdfast show {run_id})"
                )
            case ["running", *_]:
                raise InvalidTransition(
                    f"run {run_id} is {self.get(run_id).status.value}; only an interrupted or a stopped run can be resumed"
                )
            case ["finished", phase]:
                hint = "; retry takes it up again" if phase == "errored" else ""
                raise InvalidTransition(f"run {run_id} has {phase}; only an interrupted or a stopped run can be resumed{hint}")
            case _:
                raise damaged(run_id, words)

    def retry(self, run_id: str) -> Run:
        """Take an errored run up again at the failed step; raises InvalidTransition where it is not errored, Stale, RunNotFound."""
        record = self._record(run_id)
        message = self._message(record, 1)
        anew = counting_anew(record)
        words = self._store.retry(
            run_id,
            op=operation(),
            epoch=record.epoch,
            step=record.step,
            message=message,
            after=self._message(record, 2),
            idempotency_key=record.fields.get("idem"),
            fields=anew,
            digest=record.fields.get("digest") if anew else None,
        )
        self._hand_over(record, words, message)
        match words:
            case ["queued" | "waiting" | "interrupted", *_]:
                return self.get(run_id)
            case ["running", *_]:
                raise InvalidTransition(f"run {run_id} is {self.get(run_id).status.value}; only an errored run can be retried")
            case ["stale", *_]:
                raise Stale(f"run {run_id} has moved on: another retry or a round came first; look at it again (holdfast show {run_id})")
            case _:
                raise damaged(run_id, words)

    def delete(self, run_id: str) -> None:
        """Remove a run that has ended (completed, errored or stopped), or that is so damaged that it can neither go on nor be stopped.

        Raises:
            InvalidTransition: it is live. RunNotFound.
        """
        if not arguments.is_run_id(run_id) or not is_there(self._store, run_id):
            raise not_found(run_id)
        words = self._store.delete(run_id, idempotency_key(self._store, run_id), SCHEMA)
        # It was there a moment ago, so "missing" is our own call, sent again after a lost reply.
        if words[0] == "live":
            status = status_of({**(self._store.fields(run_id) or {}), "phase": words[1]})
            raise InvalidTransition(f"run {run_id} is {status.value}; stop it before deleting it")
        if words[0] == "newer":
            raise InvalidTransition(
                f"run {run_id} was written by a newer version (schema {words[1]}, this one reads {SCHEMA}), and does not read here as one "
                "that has ended; delete it with that version"
            )
        if words[0] == "damaged":
            raise damaged(run_id, words)
