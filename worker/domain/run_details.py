"""The details of a run (``Run.details``)."""

from __future__ import annotations

from typing import Annotated, Any, Required

from pydantic import with_config
from typing_extensions import TypedDict

from perdure.worker.domain.document import (
    CLOSED,
    OPEN,
    MaybeText,
    TimeText,
    absent,
)


@with_config(CLOSED)
class RunInterrupt(TypedDict):
    """The run's open question, or its last one."""

    id: str
    """An answer that names this id applies to no other question."""
    kind: str | None
    reason: str | None
    data: Any
    answered: bool
    deadline: TimeText | None
    """When ``default`` is taken as the answer. Not set: never."""
    default: Any


@with_config(CLOSED)
class UsedCycles(TypedDict):
    """The cycles that a run used, and its limit."""

    cycles: int
    of: int | None


@with_config(CLOSED)
class RunCall(TypedDict):
    """The only command that a child run executes."""

    command: str
    args: dict[str, Any]


@with_config(CLOSED)
class RunFile(TypedDict):
    """A file of the run: everything but its bytes."""

    file: str
    """Its name in the run."""
    media_type: str
    bytes: int
    digest: str
    """The first 16 hexadecimal digits of its SHA-256."""


@with_config(CLOSED)
class ForkOrigin(TypedDict):
    """The run that a fork was made from. The fork begins with the rounds of that run."""

    run: str
    step: int
    """The first step that the fork executes itself. The steps before it come from ``run``."""
    turns: int
    """Number of turns that the fork's history has from ``run``."""
    spent: dict[str, float]
    """The spending of the rounds before ``step``. The fork's own spending does not include it."""


class ShortBudget(TypedDict):
    """A budget that is used up, and the run that has it."""

    budget: str
    of: str


@with_config(OPEN)
class RunDetails(TypedDict, total=False):
    """Facts about the run beyond its status.

    Fields that do not apply are left out. Times are those of the state server.
    """

    submitted_by: MaybeText
    """The run's owner."""
    topic: MaybeText
    """The topic that the run took, see ``Client.submit``. Another run may hold it by now."""
    model: MaybeText
    """The model that the submission chose for the run."""
    files: list[RunFile]
    """The files that were submitted with the run. Left out if there are none."""
    interrupt_before: list[str]
    """The nodes before which the run pauses for a person."""
    interrupt_after: list[str]
    """The nodes after which the run pauses for a person."""
    max_rounds: int
    """Maximum number of cycles, with what was added to it. Left out if there is none."""
    chosen: list[str]
    """The limits and pauses that the submission chose or that were raised.

    They are `interrupt_before`, `interrupt_after`, `max_rounds` and `budgets.NAME`. The others come
    from the flow. Left out if an earlier release of Perdure stored the run without these names.
    """
    retry: dict[str, Any]
    """The stricter limits for the flow's retry policies that the submission chose.

    Left out if there are none.
    """
    exposed: list[str]
    """The protocols through which the run's flow was exposed to clients at the submission.

    They are ``mcp`` and ``openai``. Left out if there are none.
    """
    forked: ForkOrigin | None
    """The run and the step from which this run was forked. Set for a fork."""
    owner: MaybeText
    """The worker that runs the round in flight, or ran the last one."""
    waiting_for: MaybeText
    last_error: MaybeText
    traceback: MaybeText
    """The traceback of the last failed round, until a later round is committed.

    Lists of runs leave it out.
    """
    last_node: MaybeText
    stop_mode: MaybeText
    stop_by: MaybeText
    stop_reason: MaybeText
    in_doubt: MaybeText
    """``step/node/attempt`` of a round that was in flight and fenced.

    Its effects may or may not have happened.
    """
    quarantined: MaybeText
    parent: MaybeText
    """The run that started this one, and waits for it."""
    group: MaybeText
    """The group of children of its parent that the run belongs to: ``STEP.NAME``."""
    place: int
    """The run's position in its group, from 0. Set for runs that have a parent."""
    depth: int
    """Its generation: 1 for a child of a run without parent. Set for runs that have a parent."""
    root: MaybeText
    """The run without parent at the top of its tree."""
    call: RunCall | None
    """Set for a child run that executes one of several commands of its parent in parallel."""
    resumed_by: MaybeText
    """The last to answer or resume the run. ``deadline`` if a question's deadline did."""
    epoch: Required[int]
    attempt: Required[int]
    failures: Required[int]
    losses: Required[int]
    """Number of workers lost during this step."""
    cycles: Required[int]
    turns: Required[int]
    """Number of turns of the history, with the ``forgotten`` ones."""
    forgotten: int
    """Number of the oldest turns, which are gone. Set if any are."""
    generation: int
    """How often the run was renewed. Set if it was."""
    earlier_cycles: int
    """The cycles before the last renewal. Set if the run was renewed."""
    keep_events: int
    """Number of the newest events that the run keeps. Set if it does not keep all."""
    remedy: MaybeText
    """Set for an errored run that a retry does not help, since it would fail in the same way.

    ``fork``: fork it before the failed step. ``again``: submit it again.
    """
    budgets: dict[str, float]
    """The limits by name, with the added amounts. They also count the spending of runs below it."""
    spent: dict[str, float]
    """What the run itself has spent, by name."""
    spent_below: dict[str, float]
    """What the runs below it have spent, by name, and how many they are (``runs``)."""
    waits_for_budget: ShortBudget | None
    """The used-up budget that the run waits for. It belongs to a run above.

    Another run already asks a person to add to this budget.
    """
    unfinished: UsedCycles | None
    """Set for a completed run that used up its cycles.

    To continue it, resume it with ``add: {"cycles": N}``.
    """
    idle_seconds: Annotated[float, absent(0)]
    """How long the run has waited for people."""
    progress: Any
    interrupt: RunInterrupt | None
    started_at: TimeText | None
    claimed_at: TimeText | None
    lease_until: TimeText | None
    beat_at: TimeText | None
    waiting_until: TimeText | None
    waiting_since: TimeText | None
    """When this step first failed or began to wait, for a run that waits for its provider.

    For a run that waits for a worker whose code fits: when this wait began. Else left out.
    """
    wait_until: TimeText | None
    """When the node's wait times out."""
    signals: list[str] | None
    """The signals for which the node waits."""
    received: int
    """The number of signals that were sent to the run. Left out if there are none."""
    waits_for_children: list[str] | None
    """The groups of children for which the node waits."""
    trace_id: MaybeText
    not_before: TimeText | None
    deadline: TimeText | None
    ended_at: TimeText | None
    stop_asked_at: TimeText | None
    stop_seen_at: TimeText | None
    stopped_at: TimeText | None
    resumed_at: TimeText | None
