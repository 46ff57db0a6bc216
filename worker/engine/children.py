"""The children of a run: the plan for their start, and the reading of their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from perdure.flows.core.budgets import OWN, RUNS
from perdure.flows.core.errors import InvalidInput, UnstorableValue
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.rounds import registry
from perdure.flows.rounds.children import Child, Ended, InvalidChild, KnownGroup, OneRound
from perdure.worker.domain.children import (
    PlannedChild,
    ended,
    flows_of_plan,
    is_long,
    pack_plan,
)
from perdure.worker.domain.fleet import WorkerInfo, check_announced, describe
from perdure.worker.domain.record import VALUE, Record
from perdure.worker.domain.submission import PLAIN_TOPICS, Submission, from_now
from perdure.worker.domain.tree_amounts import ADDED, TREE, Payer
from perdure.worker.errors import DamagedRun
from perdure.worker.messaging.message import TASKS
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.tracing import current_trace

#: Maximum number of runs above a run: each commit that spends writes to all these runs.
MOST_PAYERS = 8
#: Fields from which the number of runs below a run is checked.
RUN_FIELDS = ("id", "nonce", "budgets", f"{TREE}{RUNS}", f"{ADDED}{RUNS}")


class KnownFlow(NamedTuple):
    """A flow of which a child run can be started.

    Attributes:
        description: the description of the flow, as workers announce it.
        flow: the flow object. None if only other workers have the flow.
    """

    description: Mapping[str, Any]
    flow: Any = None

    def beginning_at(self, node: str) -> KnownFlow:
        """Return a copy of the flow for a run that begins at ``node``.

        The run pauses before and after no node, and has no budgets of its own.

        Raises:
            InvalidInput: The flow has no such node.
        """
        if node not in self.description["nodes"]:
            raise InvalidInput(f"the flow has no node {node!r}")
        begin = {"first": node, "interrupt_before": [], "interrupt_after": [], "budgets": {}}
        return self._replace(description={**self.description, **begin})


class Planner:
    """Checks and plans the children that a round starts.

    Args:
        record: the run of the round: the parent.
        now: the time of the round's claim in ms.
    """

    def __init__(self, store: Store, settings: Settings, record: Record, now: int) -> None:
        self._store, self._settings, self._record, self._now = store, settings, record, now
        self._flows: dict[str, KnownFlow] = {}

    def plan(self, children: Sequence[Child]) -> tuple[str, ...]:
        """Check a group of children, and return the plan of their start.

        Nothing is created or stored here.

        Returns:
            The plan as JSON texts (``pack_plan``). They hold all fields of the children, so that a
                worker can create the children from them.

        Raises:
            InvalidChild: One of the children cannot be started, or there are too many.
        """
        record, settings = self._record, self._settings
        where = f"run {record.id}, step {record.step}"
        if len(children) > settings.max_children:
            raise InvalidChild(
                f"{where}: the node wants {len(children)} children; the limit is "
                f"{settings.max_children} (max_children). Start fewer at a time, or let children "
                "start children"
            )
        depth = record.count("depth") + 1
        if depth > settings.max_depth:
            raise InvalidChild(
                f"{where}: its child would be the {depth}th generation; the limit is "
                f"{settings.max_depth} (max_depth). A flow that starts itself needs an end"
            )
        payers = self._payers(len(children), where)
        inherited = {
            "depth": str(depth),
            "root": record.fields.get("root", record.id),
            "payers": "\n".join(payer.line for payer in payers),
        }
        inherited |= {
            name: record.fields[name]
            for name in ("retention", "submitted_by", PLAIN_TOPICS)
            if name in record.fields
        }
        if trace := current_trace():
            inherited["trace_from"] = trace
        planned = []
        for place, child in enumerate(children):
            try:
                planned.append(self._planned(child, inherited))
            except (InvalidInput, UnstorableValue) as error:
                raise InvalidChild(
                    f"{where}: child {place} (flow {child.flow}): {error}"
                ) from error
        plan = pack_plan(planned)
        size = sum(len(text.encode()) for text in plan)
        if size > settings.max_state_bytes:
            raise InvalidChild(
                f"{where}: goals and inputs of the {len(children)} children take {size} bytes; the "
                f"limit is {settings.max_state_bytes} (max_state_bytes). Pass references, or let "
                "children start children"
            )
        return plan

    def _payers(self, count: int, where: str) -> tuple[Payer, ...]:
        """Return the runs that count the children's spending: the parent and all runs above.

        Args:
            count: the number of children.
            where: run and step, for the error's text.

        Raises:
            InvalidChild: There are more than ``MOST_PAYERS`` such runs, or one of them may not have
                ``count`` more runs below it.
        """
        record = self._record
        names = tuple(name for name in record.budgets if name not in OWN)
        payers = (Payer(record.id, record.fields.get("nonce", ""), names), *record.payers)
        if len(payers) > MOST_PAYERS:
            raise InvalidChild(
                f"{where}: its child would have {len(payers)} runs above it; the limit is "
                f"{MOST_PAYERS}, whatever max_depth is"
            )
        counting = {payer.run_id: RUN_FIELDS for payer in payers}
        for payer, fields in zip(payers, self._store.reads.fields_by_run(counting), strict=True):
            if fields.get("nonce", "") != payer.nonce:
                continue
            above = Record(fields)
            is_root = payer is payers[-1]
            limit = above.limits.get(RUNS, self._settings.max_tree if is_root else None)
            below = int(above.tree.get(RUNS, 0))
            if limit is not None and below + count > limit:
                what, then = (
                    ("its budget runs", f"perdure add {payer.run_id} {RUNS}=N")
                    if RUNS in above.limits
                    else ("max_tree", "start fewer, or raise the setting")
                )
                raise InvalidChild(
                    f"{where}: the node wants {count} children; run {payer.run_id} has {below} "
                    f"runs below it already and may have {limit:g} ({what}). To go on: {then}"
                )
        return payers

    def _planned(self, child: Child, inherited: Mapping[str, str]) -> PlannedChild:
        known = self._known(child.flow)
        given = dict(child.inputs)
        values = {}
        if isinstance(child, OneRound):
            known = known.beginning_at(child.node)
            values = {
                VALUE + name: canonical(storable(each, name)) for name, each in child.values.items()
            }
            inputs = dict(storable(given, "the inputs"))
        elif known.flow is not None:
            inputs = known.flow.check_inputs(given)
        else:
            inputs = dict(storable(given, "the inputs"))
            check_announced(child.flow, known.description["inputs"], inputs)
        submission = Submission(
            flow=child.flow,
            description=known.description,
            goal=child.goal,
            inputs=inputs,
            checked=known.flow is not None,
            max_rounds=child.max_rounds,
            labels=child.labels,
            given=given,
            budgets=child.budgets,
        )
        role = known.description["nodes"][known.description["first"]]
        queue = self._store.keys.queue(role)
        fields = submission.unsealed_fields(self._settings, TASKS[role], queue)
        deadline = from_now(child.deadline, "deadline", self._now / 1000)
        return PlannedChild({**fields, **values, **inherited}, deadline)

    def _known(self, name: str) -> KnownFlow:
        """Return the flow of this name, from this worker or as another worker announced it.

        Raises:
            InvalidInput: Neither this worker nor another live worker has such a flow.
        """
        if not isinstance(name, str):
            raise InvalidInput(f"expected the name of a flow, got {name!r:.80}")
        if name not in self._flows:
            try:
                flow = registry.make(name)
                self._flows[name] = KnownFlow(describe(flow), flow)
            except registry.FlowNotFound as error:
                self._flows[name] = KnownFlow(self._announced(name, error))
        return self._flows[name]

    def _announced(self, name: str, error: Exception) -> Mapping[str, Any]:
        now = self._store.time()
        announced: set[str] = set()
        for each in self._store.fleet.workers():
            worker = WorkerInfo(*each)
            if not worker.is_alive(now, self._settings.heartbeat_seconds):
                continue
            if worker.knows(name):
                description: Mapping[str, Any] = worker.info["flows"][name]
                return description
            announced.update(worker.info.get("flows", ()))
        text = registry.not_found_text(name, announced)
        raise InvalidInput(f"{text}; no other live worker has announced it") from error


def read_group(store: Store, record: Record, name: str, fields: Mapping[str, str]) -> KnownGroup:
    """Parse a group of children and the children's results.

    The result of a child is read from the child's own hash if it is too long for the group.

    Args:
        name: the name of the group.
        fields: the fields of the group's hash (parts/family.lua).

    Raises:
        DamagedRun: The group, or a child's answer, cannot be read.
    """
    try:
        total, flow_at = int(fields["total"]), flows_of_plan(fields)
        places = [int(each.removeprefix("end:")) for each in fields if each.startswith("end:")]
        flows = {place: flow_at(place) for place in places}
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedRun(
            f"run {record.id}: what the server has of its group {name} cannot be read: {error!r}"
        ) from error
    ends = []
    for place, flow in flows.items():
        text = fields[f"end:{place}"]
        end = ended(record, name, place, flow, text)
        ends.append(_in_full(store, end) if is_long(text) else end)
    return KnownGroup(total, ends)


def _in_full(store: Store, end: Ended) -> Ended:
    """Return a child's end with the whole answer or error.

    It was too long for the group, so answer and error are read from the child's own hash. If the
    child was deleted, the status is ``gone``.

    Raises:
        DamagedRun: The child's answer is not JSON.
    """
    [fields] = store.reads.some_fields([end.run_id], ["answer", "error"])
    try:
        answer = json.loads(fields["answer"]) if "answer" in fields else None
    except ValueError as error:
        raise DamagedRun(f"run {end.run_id}: its answer cannot be read") from error
    gone = not fields
    return Ended(
        end.place,
        end.run_id,
        end.flow,
        "gone" if gone else end.status,
        answer,
        fields.get("error"),
        end.order,
    )
