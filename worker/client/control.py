"""The client part that stops, resumes, retries and deletes a run.

It validates answers to waiting runs against the question, and raises budgets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from perdure.flows.core.json_values import canonical
from perdure.worker.client.answer_checks import (
    asked_above,
    asked_by,
    check_answer,
    check_approver,
    check_takes_answer,
    text_of,
)
from perdure.worker.client.limits import RunLimits
from perdure.worker.client.raised_limits import (
    check_enough,
    counting_anew,
    going_on,
    more_cycles,
    raised,
    raising,
)
from perdure.worker.domain.children import child_of
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.record import (
    GROUPS,
    RETRIED,
    SCHEMA,
    Record,
)
from perdure.worker.domain.run import Run, status_of
from perdure.worker.domain.stop import StopMode, StopReceipt
from perdure.worker.errors import (
    InvalidInput,
    InvalidTransition,
    RunNotFound,
    Stale,
)
from perdure.worker.operations import validation
from perdure.worker.operations.inbox import asked_below
from perdure.worker.operations.session import damaged, new_operation_id, not_found
from perdure.worker.operations.tree import ids_below, live_among
from perdure.worker.store.lookups import idempotency_key, is_there

logger = logging.getLogger("perdure.client")


#: Name under which a question is answered by default after its deadline.
DEADLINE = "deadline"
#: Phase in the reply of delete_run.lua for a run whose children are still to be stopped.
STOPPING_CHILDREN = "stopping its children"


class RunControl(RunLimits):
    """Methods that move runs. Each call is one operation, done once however often it is sent."""

    def request_stop(
        self,
        run_id: str,
        mode: StopMode = "graceful",
        reason: str | None = None,
        requested_by: str | None = None,
        children: bool = True,
    ) -> StopReceipt:
        validation.mode(mode)
        validation.notes(reason=reason, requested_by=requested_by)
        validation.flag(children, "children")
        is_valid_id = validation.is_run_id(run_id)
        reply = (
            self._store.runs.request_stop(
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
        self._look_after(reply[7:])
        return StopReceipt.of(run_id, reply, mode, requested_by, reason)

    def resume(
        self,
        run_id: str,
        answer: Any = None,
        add: Mapping[str, float] | None = None,
        interrupt: str | None = None,
        by: str | None = None,
    ) -> Run:
        validation.optional_texts(interrupt=interrupt)
        validation.notes(by=by)
        if by == DEADLINE:
            raise validation.wrong(
                "by", f"the name of a person; {by!r} says that no person answered in time", by
            )
        more = validation.budgets(add, "add")
        record = self._record(run_id)
        if interrupt is not None and (
            record.fields.get("i_id") != interrupt or "i_answer" in record.fields
        ):
            raise Stale(
                f"run {run_id} has no open interrupt {interrupt!r:.80}; read it again: "
                f"perdure show {run_id}"
            )
        question = asked_by(record)
        if answer is not None:
            check_takes_answer(record)
        text = None if answer is None else text_of(answer, self.settings.max_addition_bytes)
        if question is not None and (
            answer is not None or record.fields.get("phase") == "interrupted"
        ):
            check_answer(question, answer)
            check_approver(question, answer, by, record.fields.get("submitted_by"))
        payer = asked_above(question)
        if payer is not None and more:
            assert question is not None
            self._add_above(record, question, payer, more, by)
            more, record = {}, self._record(run_id)
            if record.fields.get("phase") != "stopped" and "i_answer" in record.fields:
                return self.get(run_id)  # it went on in the write that raised the limit
        cycles = more_cycles(record, more, answer)
        limits = raised(
            record,
            {name: amount for name, amount in more.items() if not (cycles and name == "cycles")},
        )
        if cycles:
            text = text or "null"  # needed too if it paused or was stopped before its end
        if (
            question is not None
            and question.kind == "budget"
            and (more or payer or record.fields.get("phase") == "interrupted")
        ):
            if payer is None:
                added = {name: record.limits[name] - record.budgets[name] for name in limits}
                raised_limits = {name: limits[name] + added[name] for name in limits}
                check_enough(question, raised_limits, more)
            text = text or "null"  # a stopped run needs it too: it then asks nothing more
        message = self._message(record, 1)
        reply = self._store.runs.resume(
            run_id,
            op=new_operation_id(),
            epoch=record.epoch,
            step=record.step,
            message=message,
            after=self._message(record, 2),
            interrupt=record.fields.get("i_id"),
            answer=text,
            fields=going_on(record, limits, cycles)
            if cycles
            else raising(record, limits)
            if more
            else None,
            digest=record.fields.get("digest") if more else None,
            data=canonical({"added": more}) if more else None,
            more=cycles > 0,
            idempotency_key=record.fields.get("idem"),
            by=by,
        )
        self._publish(record, reply, message)
        return self._resumed(run_id, reply)

    def _resumed(self, run_id: str, reply: Sequence[str]) -> Run:
        """Return the run, or raise the error, by resume.lua's reply."""
        match reply:
            case ["queued" | "waiting" | "interrupted" | "completed", *follow_ups]:
                self._look_after(follow_ups)
                return self.get(run_id)
            case ["stale", *_]:
                raise Stale(
                    f"run {run_id} has changed: another answer, resume or round came first; "
                    f"read it again: perdure show {run_id}"
                )
            case ["running", *_]:
                run = self.get(run_id)
                raise InvalidTransition(
                    f"run {run_id} is {run.status.value}; "
                    "only an interrupted or a stopped run can be resumed"
                    f"{asked_below(self._session, run)}"
                )
            case ["finished", phase]:
                hint = f"; to retry it: perdure retry {run_id}" if phase == "errored" else ""
                raise InvalidTransition(
                    f"run {run_id} has {phase}; only an interrupted or a stopped run can be "
                    f"resumed{hint}"
                )
            case _:
                raise damaged(run_id, reply)

    def _add_above(
        self,
        record: Record,
        question: PendingInterrupt,
        payer: str,
        more: Mapping[str, float],
        by: str | None,
    ) -> None:
        """Raise the budget limit of the run above (``payer``).

        The other amounts raise limits of the run itself.
        """
        data = question.data or {}
        name = data["budget"]
        own = {each: amount for each, amount in more.items() if each != name}
        if unknown := [each for each in own if each not in record.budgets]:
            raise InvalidInput(
                f"run {record.id} asks for more {name} of run {payer}, and has itself no budget "
                f"{unknown[0]!r}; it has: {', '.join(record.budgets) or 'no budgets'}. Answer it "
                f"with {question.how()[0]}. To raise {unknown[0]} of the run above, if it has "
                f"that budget: perdure add {payer} {unknown[0]}={own[unknown[0]]:g}"
            )
        if name in more:
            check_enough(question, {name: data["limit"] + more[name]}, more)
        if own:
            self._raise_limits(record.id, own, by)
        if name in more:
            self._raise_limits(payer, {name: more[name]}, by, child=record.id)

    def retry(self, run_id: str, children: bool = True) -> Run:
        validation.flag(children, "children")
        record = self._record(run_id)
        phase = record.fields.get("phase")
        if children and phase in ("errored", "parked"):
            retried = self._retry_children(record, only_held=phase == "parked")
            if retried and phase == "parked":
                return self.get(run_id)
        message = self._message(record, 1)
        reset_fields = counting_anew(record)
        reply = self._store.runs.retry(
            run_id,
            op=new_operation_id(),
            epoch=record.epoch,
            step=record.step,
            message=message,
            after=self._message(record, 2),
            idempotency_key=record.fields.get("idem"),
            fields={**reset_fields, RETRIED: str(record.epoch)},
            digest=record.fields.get("digest") if reset_fields else None,
        )
        self._publish(record, reply, message)
        match reply:
            case ["queued" | "waiting" | "interrupted", *follow_ups]:
                self._look_after(follow_ups)
                return self.get(run_id)
            case ["running", *_]:
                raise InvalidTransition(
                    f"run {run_id} is {self.get(run_id).status.value}; "
                    "only an errored run can be retried"
                )
            case ["stale", *_]:
                raise Stale(
                    f"run {run_id} has changed: another retry or round came first; "
                    f"read it again: perdure show {run_id}"
                )
            case _:
                raise damaged(run_id, reply)

    def _retry_children(self, record: Record, only_held: bool) -> int:
        """Retry a run's errored children.

        These are the children for which the run's step waits, or waited when it failed. The run
        itself is retried last, so a call that was cut off can be repeated.

        Args:
            only_held: Leave out children whose failure the run already knows.

        Returns:
            Number of retried children.
        """
        retried = 0
        for group in record.fields.get(GROUPS, "").split():
            for place in self._store.family.failed(record.id, group, only_held):
                child_id, _ = child_of(record.id, record.fields.get("nonce", ""), group, place)
                try:
                    self.retry(child_id)
                    retried += 1
                except (InvalidTransition, Stale, RunNotFound):
                    logger.info("child run %s was retried or deleted meanwhile", child_id)
        return retried

    def _delete_below(self, run_id: str) -> None:
        """Delete all runs below a run, deepest first.

        This order lets a failed call be repeated.

        Raises:
            InvalidTransition: The run or a run below it is live. This is checked before the first
                deletion.
        """
        below = ids_below(self._store, run_id)
        live = live_among(self._store, [run_id, *below])
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
                self.delete(each)

    def delete(self, run_id: str, tree: bool = False) -> None:
        validation.flag(tree, "tree")
        if not validation.is_run_id(run_id) or not is_there(self._store, run_id):
            raise not_found(run_id)
        if tree:
            self._delete_below(run_id)
        reply = self._store.runs.delete(run_id, idempotency_key(self._store, run_id), SCHEMA)
        # The run existed a moment ago. So the reply "missing" means that our own call was sent
        # again after a lost reply.
        if reply[0] == "live" and reply[1] == STOPPING_CHILDREN:
            raise InvalidTransition(
                f"run {run_id} has child runs that are being stopped; delete it in a moment"
            )
        if reply[0] == "live":
            status = status_of({**(self._store.reads.fields(run_id) or {}), "phase": reply[1]})
            raise InvalidTransition(f"run {run_id} is {status.value}; stop it before deleting it")
        if reply[0] == "newer":
            raise InvalidTransition(
                f"run {run_id} was written by a newer version (schema {reply[1]}, "
                f"this one reads {SCHEMA}), which may still "
                "run it; delete it with that version"
            )
        if reply[0] == "damaged":
            raise damaged(run_id, reply)
