"""The part of the client that stops, resumes, retries and deletes one run.

It validates answers to waiting runs against the question, and raises budgets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from perdure.flows.core.budgets import check_budgets
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import BAD_REPLIES
from perdure.worker.client import validation
from perdure.worker.client.connection import damaged, not_found, operation
from perdure.worker.client.inbox import asked_below
from perdure.worker.client.limits import RunLimits, check_has_budgets
from perdure.worker.client.tree import ids_below, live_among
from perdure.worker.domain.children import child_of
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.record import (
    EARLIER_CYCLES,
    GROUPS,
    RETRIED,
    SCHEMA,
    UNFINISHED,
    VALUE,
    Record,
    digest_of,
)
from perdure.worker.domain.run import Run, status_of
from perdure.worker.domain.stop import StopMode, StopReceipt
from perdure.worker.errors import (
    DamagedRun,
    Forbidden,
    InvalidInput,
    InvalidTransition,
    RunNotFound,
    Stale,
)
from perdure.worker.store.lookups import idempotency_key, is_there

logger = logging.getLogger("perdure.client")


def asked_by(record: Record) -> PendingInterrupt | None:
    """Return the open interrupt of a run, which says what the run waits for.

    Returns:
        The interrupt, or None if the run has no open one or its fields are damaged. Lua scripts and
        workers detect damage themselves.
    """
    try:
        return PendingInterrupt.of(Run.of(record))
    except DamagedRun:
        return None


def check_takes_answer(record: Record) -> None:
    """Raise InvalidTransition if a run gets an answer that no node of it would receive.

    That is so if the open interrupt is a pause after a node, or asks for more budget.
    """
    fields = record.fields
    if "i_id" not in fields or "i_answer" in fields:
        return
    if fields.get("i_kind") == "after":
        raise InvalidTransition(
            f"run {record.id} paused after node {fields.get('i_node')}, which asks nothing; "
            "resume it without an answer"
        )
    if fields.get("i_kind") == "budget":
        raise InvalidTransition(
            f"run {record.id} waits for more of its budget and takes no answer; "
            "resume it with the amount to add"
        )


def check_answer(waiting: PendingInterrupt, answer: Any) -> None:
    """Raise InvalidInput unless a person's answer fits the interrupt of the run.

    Only approvals and commands in doubt expect answers of a certain form.
    """
    if waiting.kind == "approval":
        from perdure.flows.commands.approval import EXPECTED, read_answer
    elif waiting.kind == "in_doubt":
        from perdure.flows.commands.in_doubt import EXPECTED, read_answer  # type: ignore[assignment]
    else:
        return
    if answer is None:
        raise InvalidInput(
            f"run {waiting.run_id} needs an answer: expected {EXPECTED}. For example: "
            f"{waiting.how()[0]}"
        )
    try:
        read_answer(answer)
    except InvalidInput as error:
        raise InvalidInput(f"run {waiting.run_id}: {error}") from error
    if isinstance(answer, Mapping) and "edit" in answer and not waiting.may_be_edited:
        raise InvalidInput(
            f"run {waiting.run_id}: the arguments of {waiting.command} cannot be changed: "
            "approve or refuse it"
        )


def check_approver(
    waiting: PendingInterrupt, answer: Any, by: str | None, submitter: str | None
) -> None:
    """Raise Forbidden if a person approves a command of a run but is not allowed to.

    A flow with ``approvers: others`` needs the approval of another person than the run's submitter.
    Both must be named then.
    """
    from perdure.flows.commands.approval import Approved, read_answer

    if (
        waiting.kind != "approval"
        or waiting.approvers != "others"
        or not isinstance(read_answer(answer), Approved)
    ):
        return
    where = (
        f"run {waiting.run_id}: flow {waiting.flow} needs the approval of another person than "
        "the run's submitter (approvers: others)"
    )
    if submitter is None:
        raise Forbidden(
            f"{where}, but the run names no submitter; submit such runs with perdure submit "
            "--by NAME, or refuse the command"
        )
    if by is None:
        raise Forbidden(
            f"{where}; name the approver: by, or perdure resume {waiting.run_id} --by NAME"
        )
    if by == submitter:
        raise Forbidden(
            f"{where}, and {by} submitted it; {by} may refuse the command, "
            "another person may approve it"
        )


def asked_above(question: PendingInterrupt | None) -> str | None:
    """Return the run above whose budget a run asks for, or None if it asks for none."""
    if question is None or question.kind != "budget":
        return None
    of = (question.data or {}).get("of")
    return of if isinstance(of, str) else None


def raised(record: Record, add: Mapping[str, float]) -> dict[str, float]:
    """Return the limits of a run's budgets, raised by the amounts in ``add``.

    Raises:
        InvalidInput: The run has no budget of a name in ``add``.
    """
    limits = record.budgets
    check_has_budgets(record, add)
    return check_budgets(
        {**limits, **{name: limits[name] + amount for name, amount in add.items()}}
    )


def check_enough(
    waiting: PendingInterrupt, limits: Mapping[str, float], add: Mapping[str, float]
) -> None:
    """Raise InvalidInput if the budget that interrupted a run would still be used up after a raise.

    The run would be interrupted again at once.
    """
    data = waiting.data or {}
    name, spent = data["budget"], data["spent"]
    limit = limits.get(name)
    if limit is not None and limit <= spent:
        raise InvalidInput(
            f"run {waiting.run_id} has spent {spent:,} of its {name}, "
            f"and would stop here again with a limit of {limit:,}; "
            f"add more than {round(spent - limit + add.get(name, 0), 6):,}: {waiting.how()[0]}"
        )


def raising(record: Record, limits: Mapping[str, float]) -> dict[str, str]:
    """Return the fields to write to a run's hash when its budgets get these new limits.

    Raises:
        DamagedRun: The run's content is damaged already. A new digest would hide that.
    """
    record.check()
    changed = {"budgets": canonical(dict(limits))}
    return {**changed, "digest": digest_of({**record.fields, **changed})}


def is_unfinished(record: Record) -> bool:
    """Return whether a run has used up its limit of cycles and may be given more.

    Such a run has completed, or a person reviews it before it completes.
    """
    return UNFINISHED in record.fields and "i_answer" not in record.fields


def more_cycles(record: Record, add: Mapping[str, float], answer: Any) -> int:
    """Return the number of cycles that a resume adds to the limit of an unfinished run.

    Returns:
        The number, or 0 if the run is not unfinished or the resume adds no cycles.

    Raises:
        InvalidTransition: The run has completed, and ``add`` has no cycles or there is an answer.
        InvalidInput: The number of cycles is not whole.
    """
    if not is_unfinished(record):
        return 0
    cycles = add.get("cycles", 0)
    if cycles != int(cycles):
        raise InvalidInput(
            f"run {record.id}: expected a whole number of cycles to add, got {cycles!r}"
        )
    if record.fields.get("phase") == "completed" and (not cycles or answer is not None):
        used = record.count(UNFINISHED)
        asks = ", and asks nothing" if answer is not None else ""
        raise InvalidTransition(
            f"run {record.id} ended unfinished after {used} of {record.max_rounds} cycle"
            f"{'' if record.max_rounds == 1 else 's'}{asks}; "
            f"to continue it, raise the limit: perdure resume {record.id} --add cycles={used}"
        )
    return int(cycles)


def going_on(record: Record, limits: Mapping[str, float], cycles: int) -> dict[str, str]:
    """Return the fields to write to an unfinished run's hash when it is given more cycles.

    The new digest covers no answer and no output, because the resume removes both.

    Raises:
        DamagedRun: The run's content is damaged.
    """
    record.check()
    max_rounds = (record.max_rounds or 0) + cycles
    changed = {"max_rounds": str(max_rounds)}
    if "cycles" in limits:  # A lower budget would stop the run again.
        in_all = max_rounds + record.count(EARLIER_CYCLES)
        limits = {**limits, "cycles": max(limits["cycles"], in_all)}
    if limits:
        changed["budgets"] = canonical(dict(limits))
    remaining = {
        name: text for name, text in record.fields.items() if name not in ("answer", "output")
    }
    return {**changed, "digest": digest_of({**remaining, **changed})}


def counting_anew(record: Record) -> dict[str, str]:
    """Return the fields to write to a run's hash so that a retry resets its bad-reply counter.

    The counter says how many invalid replies the model of the controller gave in a row. A damaged
    run is left unchanged, because the worker that retries the round detects the damage.

    Returns:
        The fields. Empty if the counter is zero already or the run is damaged.
    """
    counter = f"{VALUE}{BAD_REPLIES}"
    if record.fields.get(counter, "0") == "0":
        return {}
    try:
        record.check()
    except DamagedRun:
        return {}
    changed = {counter: "0"}
    return {**changed, "digest": digest_of({**record.fields, **changed})}


#: Name under which a question is answered by default after its deadline.
DEADLINE = "deadline"
#: What delete_run.lua replies as the phase of a run whose children are still to be stopped.
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
            self._store.request_stop(
                run_id,
                op=operation(),
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
        if (
            answer is not None
            and record.fields.get("phase") == "stopped"
            and ("i_id" not in record.fields or "i_answer" in record.fields)
        ):
            raise InvalidTransition(
                f"run {run_id} was stopped and asks nothing; resume it without an answer"
            )
        if answer is not None:
            check_takes_answer(record)
        text = None if answer is None else canonical(storable(answer, "the answer"))
        if text is not None and len(text.encode()) > self.settings.max_addition_bytes:
            raise InvalidInput(
                f"the answer takes {len(text.encode())} bytes; the limit is "
                f"{self.settings.max_addition_bytes} "
                "(max_addition_bytes). Pass a reference to large things"
            )
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
            text = text or "null"  # needed too for a stopped run, which then asks no more
        message = self._message(record, 1)
        reply = self._store.resume(
            run_id,
            op=operation(),
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
                    f"only an interrupted or a stopped run can be resumed{asked_below(self, run)}"
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
        """Raise the limit of the run above that a run asks for. Other amounts are its own."""
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
        reply = self._store.retry(
            run_id,
            op=operation(),
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
        """Retry the errored children for which the run's step waits, or waited when it failed.

        The run itself comes last. So a call that was cut off can be repeated.

        Args:
            only_held: Leave out those of whose failure the run knows.

        Returns:
            How many were retried.
        """
        retried = 0
        for group in record.fields.get(GROUPS, "").split():
            for place in self._store.failed_children(record.id, group, only_held):
                child_id, _ = child_of(record.id, record.fields.get("nonce", ""), group, place)
                try:
                    self.retry(child_id)
                    retried += 1
                except (InvalidTransition, Stale, RunNotFound):
                    logger.info("child run %s was retried or deleted meanwhile", child_id)
        return retried

    def _delete_below(self, run_id: str) -> None:
        """Delete all runs below a run, the deepest first, so that a call can be repeated.

        Raises:
            InvalidTransition: The run, or one below it, is live. It is checked before the first is
                deleted.
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
        reply = self._store.delete(run_id, idempotency_key(self._store, run_id), SCHEMA)
        # The run existed a moment ago. So the reply "missing" means that our own call was sent
        # again after a lost reply.
        if reply[0] == "live" and reply[1] == STOPPING_CHILDREN:
            raise InvalidTransition(
                f"run {run_id} has child runs that are being stopped; delete it in a moment"
            )
        if reply[0] == "live":
            status = status_of({**(self._store.fields(run_id) or {}), "phase": reply[1]})
            raise InvalidTransition(f"run {run_id} is {status.value}; stop it before deleting it")
        if reply[0] == "newer":
            raise InvalidTransition(
                f"run {run_id} was written by a newer version (schema {reply[1]}, "
                f"this one reads {SCHEMA}), which may still "
                "run it; delete it with that version"
            )
        if reply[0] == "damaged":
            raise damaged(run_id, reply)
