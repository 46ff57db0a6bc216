"""The part of the client that forks runs: a new run that begins with rounds of another one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perdure.flows.core.json_values import storable
from perdure.flows.core.names import is_name
from perdure.flows.core.retry import Retry, tightening
from perdure.worker.client.fork_reads import moment_of, read_fork
from perdure.worker.client.read import RunReads
from perdure.worker.client.submit import Submitter
from perdure.worker.domain.event import Event
from perdure.worker.domain.fleet import describe
from perdure.worker.domain.fork import Fork
from perdure.worker.domain.record import Record
from perdure.worker.domain.run import Run
from perdure.worker.domain.submission import Submission, When
from perdure.worker.domain.value_log import is_recorded, values_before
from perdure.worker.errors import InvalidInput, NotForkable, Stale
from perdure.worker.operations import validation

#: Number of reads of a live run that drops turns during a read.
ATTEMPTS = 5


class Forks(Submitter, RunReads):
    """Forks runs."""

    def fork(
        self,
        run: Run | str,
        at: int,
        *,
        goal: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        values: Mapping[str, Any] | None = None,
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
        model: str | None = None,
    ) -> Run:
        validation.step(at)
        validation.optional_texts(goal=goal, thread_id=thread_id, model=model)
        validation.mapping(inputs, "inputs")
        validation.mapping(values, "values")
        validation.pauses(interrupt_before, interrupt_after)
        validation.options(labels, submitted_by, idempotency_key, nonce, budgets)
        on_end_text = None if on_end is None else self._signature_text(on_end)
        self._session.check_durability()
        old_id = run.id if isinstance(run, Run) else run
        record, fork = self._fork(old_id, at, values)
        fields = record.fields
        flow = fields["flow"]
        description, accepted, checked = self._checked(flow, {**record.inputs, **(inputs or {})})
        asked = {
            "fork": [old_id, at],
            "goal": goal,
            "inputs": None if inputs is None else dict(inputs),
            "values": None if values is None else dict(values),
            "labels": None if labels is None else dict(labels),
            "budgets": budgets,
            "options": [
                interrupt_before and list(interrupt_before),
                interrupt_after and list(interrupt_after),
                max_rounds, thread_id, model, on_end_text,
                None if not_before is None else str(not_before),
                None if deadline is None else str(deadline),
                None if (tight := tightening(retry)) is None else tight.to_data(),
            ],
        }  # fmt: skip
        submission = Submission(
            flow=flow,
            description=description,
            goal=fields.get("goal", "") if goal is None else goal,
            inputs=accepted,
            checked=checked,
            interrupt_before=record.json("interrupt_before", [])
            if interrupt_before is None
            else interrupt_before,
            interrupt_after=record.json("interrupt_after", [])
            if interrupt_after is None
            else interrupt_after,
            max_rounds=record.max_rounds if max_rounds is None else max_rounds,
            thread_id=thread_id,
            labels=record.mapping("labels") if labels is None else labels,
            not_before=not_before,
            deadline=deadline,
            budgets=record.limits if budgets is None else budgets,
            retry=tightening(record.json("retry", None) if retry is None else retry),
            submitted_by=submitted_by,
            on_end=on_end_text,
            model=fields.get("model") if model is None else model,
            fork=replace(fork, asked=storable(asked, "the inputs")),
        )
        return self._submit(submission, run_id or uuid.uuid4().hex[:16], idempotency_key, nonce)

    def _fork(
        self, run_id: str, step: int, values: Mapping[str, Any] | None
    ) -> tuple[Record, Fork]:
        """Return a run and the parts that its fork takes over.

        Raises:
            NotForkable: The run cannot be forked at this step.
            InvalidInput: The run has no such step, or values are missing.
            Stale: The run dropped turns during each of ``ATTEMPTS`` reads.
        """
        for _ in range(ATTEMPTS):
            record = self._record(run_id)
            record.check()
            description = self._description(record.fields["flow"])
            nodes = description.get("fork_nodes") or []
            if not nodes:
                raise NotForkable(
                    f"run {run_id} cannot be forked: the rounds of its flow "
                    f"{record.fields['flow']!r} do not follow from a history. Rings, flows "
                    "with a Controller and workflows have forks; for a LangGraph graph use "
                    "perdure.langgraph.fork"
                )
            events = list(self.events(run_id, follow=False))
            moment = moment_of(record, events, step, nodes)
            own = description.get("own_values") or []
            fork = read_fork(
                self._store, record, moment, _values(record, events, step, values, own)
            )
            again = self._record(run_id).fields
            unchanged = ("forgotten", "generation", "nonce")
            if all(again.get(name) == record.fields.get(name) for name in unchanged):
                return record, fork
        raise Stale(
            f"run {run_id} drops old turns all the time (keep_turns, or Renew), so it was not "
            "read as of one moment. Stop it, then fork it"
        )

    def _description(self, name: str) -> Mapping[str, Any]:
        """Return a flow's description.

        It comes from this process, or from a live worker's announcement.
        """
        from perdure.flows.rounds import (
            registry,  # Loads flows, which clients that only read do not need.
        )

        self._find_flows()
        try:
            return describe(registry.make(name))
        except registry.FlowNotFound:
            for worker in self.workers():
                if worker["alive"] and name in worker["flows"]:
                    found: Mapping[str, Any] = worker["flows"][name]
                    return found
            return self._checked(name, {})[0]  # raises UnknownFlow


def _values(
    record: Record,
    events: Sequence[Event],
    step: int,
    values: Mapping[str, Any] | None,
    own: Sequence[str],
) -> dict[str, Any]:
    """Return the named values with which a fork begins.

    Raises:
        InvalidInput: The values at this step are not known and not given, or a name is not valid.
    """
    for name in values or {}:
        if not is_name(name) or name.startswith("_") or name in own:
            raise InvalidInput(
                f"values: {name!r} cannot be given; expected a name of a value that the code of "
                f"the flow {record.fields['flow']!r} remembers"
            )
    stored = {name: value for name, value in record.values.items() if is_recorded(name, own)}
    given: dict[str, Any] = storable(dict(values or {}), "the values")
    if step == record.step:
        return {**stored, **given}
    recorded = values_before(events, step, stored)
    if recorded is not None:
        return {**recorded, **given}
    if stored and step and values is None:
        raise InvalidInput(
            f"run {record.id} remembers values ({', '.join(sorted(stored))}), and what they were "
            f"before step {step} is not recorded. Pass values, with what they were then; "
            "values={} for none"
        )
    return given
