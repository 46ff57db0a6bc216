"""The operation that forks a run: a new run begins with the first rounds of another run."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from perdure.flows.core.json_values import storable
from perdure.flows.core.names import is_name
from perdure.flows.core.retry import tightening
from perdure.worker.domain.event import Event
from perdure.worker.domain.fleet import describe
from perdure.worker.domain.fork import Fork
from perdure.worker.domain.record import LIMITS_AND_PAUSES, Record
from perdure.worker.domain.run import Run
from perdure.worker.domain.submission import Submission
from perdure.worker.domain.token import Scope
from perdure.worker.domain.value_log import is_recorded, values_before
from perdure.worker.errors import InvalidInput, NotForkable, Stale
from perdure.worker.operations.fleet import workers
from perdure.worker.operations.fork_reads import moment_of, read_fork
from perdure.worker.operations.operation import Http, Owner, operation
from perdure.worker.operations.run_events import events as events_of
from perdure.worker.operations.session import Session
from perdure.worker.operations.submission_options import ForkOptions
from perdure.worker.operations.submit import checked_flow, make_run, signature_text

#: Maximum number of reads of a live run that drops turns during each read.
ATTEMPTS = 5


@operation(
    Http("POST", "/runs/{run}/fork", is_repeatable=True), scope=Scope.SUBMIT, owner=Owner.CALLER
)
def fork(
    session: Session,
    run: Run | str,
    at: int,
    *,
    goal: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    **options: Unpack[ForkOptions],
) -> Run:
    """Submit a new run from a step of another run.

    The fork begins with the turns of the other run's rounds before the step. It runs the step
    and everything after it again, with the workers' current code. Effects of earlier rounds are
    not repeated, and the other run does not change.

    The fork takes over labels, limits, pauses, model and files of the other run, unless you
    pass others. It does not take over deadline, topic, thread, callback, mailbox and parent.
    Budgets and ``max_rounds`` count only the fork's rounds.

    Args:
        run: The other run, or its id. It may be live, or have ended.
        at: The first step to run again. In a flow with a Controller it must be a controller
            round.
        goal: The fork's goal. None means the other run's.
        inputs: Inputs that replace the other run's inputs of the same names.
        values: Named values that the code of the other run had remembered before the step. They
            override the recorded values. They are needed if the run remembers values, the step
            is not its newest, and its events do not record the values before the step. None
            means only the recorded values.
        run_id, idempotency_key, interrupt_before, interrupt_after, max_rounds, not_before,
            deadline, thread_id, labels, budgets, retry, submitted_by, on_end, nonce, model:
            As for ``submit``. But for labels, model, limits and pauses, None means those of the
            other run.

    Raises:
        NotForkable: The run cannot be forked there. The message names the steps (if any) at
            which a fork can begin.
        RunNotFound: No run has this id.
        InvalidInput: The run has no such step, or values are missing.
        Stale: The other run drops old turns all the time, so it could not be read as of one
            moment.
        UnknownFlow, UnstorableValue, UnsafeServer, RunExists, Conflict: As for ``submit``.
    """
    interrupt_before = options.get("interrupt_before")
    interrupt_after = options.get("interrupt_after")
    max_rounds = options.get("max_rounds")
    labels = options.get("labels")
    budgets = options.get("budgets")
    retry = options.get("retry")
    model = options.get("model")
    on_end = options.get("on_end")
    on_end_text = None if on_end is None else signature_text(on_end)
    session.check_durability()
    old_id = run.id if isinstance(run, Run) else run
    record, begin = _read(session, old_id, at, values)
    fields = record.fields
    flow = fields["flow"]
    description, accepted, checked = checked_flow(
        session, flow, {**record.inputs, **(inputs or {})}
    )
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
            max_rounds, options.get("thread_id"), model, on_end_text,
            None if (start := options.get("not_before")) is None else str(start),
            None if (end := options.get("deadline")) is None else str(end),
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
        thread_id=options.get("thread_id"),
        labels=record.mapping("labels") if labels is None else labels,
        not_before=options.get("not_before"),
        deadline=options.get("deadline"),
        budgets=record.limits if budgets is None else budgets,
        retry=tightening(record.json("retry", None) if retry is None else retry),
        submitted_by=options.get("submitted_by"),
        on_end=on_end_text,
        model=fields.get("model") if model is None else model,
        chosen=_chosen(record, options),
        has_own_topics=session.has_own_topics,
        fork=replace(begin, asked=storable(asked, "the inputs")),
    )
    return make_run(
        session,
        submission,
        options.get("run_id") or uuid.uuid4().hex[:16],
        options.get("idempotency_key"),
        options.get("nonce"),
    )


def _chosen(record: Record, options: ForkOptions) -> list[str] | None:
    """Return the names of a fork's limits and pauses that do not come from the flow.

    The caller chose them for the fork (``options``), or they were chosen for the other run
    (``record``).

    Returns:
        The names. None if the other run does not record which of its limits were chosen.
    """
    if record.chosen is None:
        return None
    passed = [name for name in LIMITS_AND_PAUSES if options.get(name) is not None]
    budgets = options.get("budgets")
    inherited = [
        name
        for name in record.chosen
        if name not in passed and (budgets is None or name in LIMITS_AND_PAUSES)
    ]
    return [*inherited, *passed, *(f"budgets.{name}" for name in budgets or {})]


def _read(
    session: Session, run_id: str, step: int, values: Mapping[str, Any] | None
) -> tuple[Record, Fork]:
    """Return a run and the parts that its fork takes over.

    Args:
        step: The first step of the fork.
        values: Named values that override the recorded ones.

    Raises:
        RunNotFound: No run has this id.
        DamagedRun: The content of the run is damaged.
        NotForkable: The run cannot be forked at this step.
        InvalidInput: The run has no such step, or values are missing.
        Stale: The run dropped turns during each of ``ATTEMPTS`` reads.
    """
    for _ in range(ATTEMPTS):
        record = session.record(run_id)
        record.check()
        description = _description(session, record.fields["flow"])
        nodes = description.get("fork_nodes") or []
        if not nodes:
            raise NotForkable(
                f"run {run_id} cannot be forked: the rounds of its flow "
                f"{record.fields['flow']!r} do not follow from a history. Rings, flows "
                "with a Controller and workflows have forks; for a LangGraph graph use "
                "perdure.langgraph.fork"
            )
        events = list(events_of(session, run_id, follow=False))
        moment = moment_of(record, events, step, nodes)
        own = description.get("own_values") or []
        fork = read_fork(session.store, record, moment, _values(record, events, step, values, own))
        again = session.record(run_id).fields
        unchanged = ("forgotten", "generation", "nonce")
        if all(again.get(name) == record.fields.get(name) for name in unchanged):
            return record, fork
    raise Stale(
        f"run {run_id} drops old turns all the time (keep_turns, or Renew), so it was not "
        "read as of one moment. Stop it, then fork it"
    )


def _description(session: Session, name: str) -> Mapping[str, Any]:
    """Return a flow's description, from this process or else from a live worker's announcement.

    Raises:
        UnknownFlow: Neither this process nor a live worker knows the flow.
    """
    from perdure.flows.rounds import registry  # Loads flows, which reads do not need.

    try:
        return describe(session.make_flow(name))
    except registry.FlowNotFound:
        for worker in workers(session):
            if worker["alive"] and name in worker["flows"]:
                found: Mapping[str, Any] = worker["flows"][name]
                return found
        return checked_flow(session, name, {})[0]  # raises UnknownFlow


def _values(
    record: Record,
    events: Sequence[Event],
    step: int,
    values: Mapping[str, Any] | None,
    own: Sequence[str],
) -> dict[str, Any]:
    """Return the named values with which a fork begins.

    Args:
        step: The first step of the fork.
        values: Values that the caller passed. They override recorded values.
        own: The names of values that the flow itself writes. A fork begins without them.

    Raises:
        InvalidInput: The values before this step are not recorded and ``values`` is None, or a name
            in ``values`` is not valid.
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
