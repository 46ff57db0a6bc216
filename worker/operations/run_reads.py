"""Operations that read one run."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from perdure.flows.core.outcomes import Turn
from perdure.flows.core.reply_extras import FEEDBACK, public
from perdure.worker.domain.record import ARRIVED, Record
from perdure.worker.domain.run import Page, Run
from perdure.worker.domain.token import Scope
from perdure.worker.domain.turn_texts import unpack_turns
from perdure.worker.errors import ValueNotFound
from perdure.worker.operations import validation
from perdure.worker.operations.arguments import by_value
from perdure.worker.operations.child_pages import read_children
from perdure.worker.operations.intervals import pauses, seconds_of
from perdure.worker.operations.operation import RUN_PROBLEMS, Http, Owner, operation
from perdure.worker.operations.run_events import events
from perdure.worker.operations.run_list import RunFilter
from perdure.worker.operations.session import Session, not_found

if TYPE_CHECKING:
    from perdure.worker.domain.prompt import PromptOfRound
    from perdure.worker.domain.run_tree import RunTree
    from perdure.worker.domain.transcript import SubmitOptions, Transcript, TranscriptTurn
    from perdure.worker.domain.verdict import Verdict


@operation(
    Http("GET", "/runs/{run_id}", route="get_run", problems=RUN_PROBLEMS),
    scope=Scope.READ,
    owner=Owner.RUN,
)
def get(session: Session, run_id: str) -> Run:
    """Return the current state of the run.

    Raises:
        RunNotFound: No run has this id.
        DamagedRun: A field of the run cannot be read.
    """
    return Run.of(session.record(run_id))


@operation(
    Http("GET", "/runs/{run_id}/why", route="why", problems=RUN_PROBLEMS),
    scope=Scope.READ,
    owner=Owner.RUN,
)
def why(session: Session, run_id: str) -> Verdict:
    """Return why the run is in its current state: one code, one sentence, since when.

    If the state server refuses writes, the verdict of a run that has not ended says so.

    Raises:
        RunNotFound: No run has this id.
    """
    # Imported here, because few clients ask for the reason of a state.
    from perdure.worker.diagnostics.why import verdict_of, while_refused
    from perdure.worker.domain.verdict import VerdictCode
    from perdure.worker.store.lookups import look, write_refusal

    lengths = session.connection.publisher.lengths() if session.store.outbox else None
    standing = look(session.store, run_id, lengths) if validation.is_run_id(run_id) else None
    if standing is None:
        raise not_found(run_id)
    verdict = verdict_of(standing, session.settings)
    # A run that has ended needs no write.
    refusal = None if verdict.code is VerdictCode.ENDED else write_refusal(session.store)
    return verdict if refusal is None else while_refused(verdict, *refusal)


@operation(
    Http("GET", "/runs/{run_id}/transcript", route="get_transcript", problems=RUN_PROBLEMS),
    scope=Scope.READ,
    owner=Owner.RUN,
)
def transcript(session: Session, run_id: str) -> Transcript:
    """Return the whole run as JSON data: ``run``, ``history`` and ``events``.

    ``run`` includes its ``options`` and its named ``values``. For a live run, ``run`` and
    ``history`` are of the same step, but ``events`` may include events of later steps.

    Raises:
        RunNotFound: No run has this id.
    """
    from perdure.worker.domain.transcript import WholeRun

    record = session.record(run_id)
    run = WholeRun(**vars(Run.of(record)), options=_options(record), values=public(record.values))
    turns = unpack_turns(run_id, session.store.reads.memory(run_id))[
        : record.turns - record.forgotten
    ]
    return {
        "run": run.to_dict(),
        "history": [_turn(turn) for turn in turns],
        "events": [event.to_dict() for event in events(session, run_id, follow=False)],
    }


@operation(
    Http(
        "GET",
        "/runs/{run_id}/children",
        route="list_children",
        problems=("invalid-input", *RUN_PROBLEMS),
    ),
    scope=Scope.READ,
    owner=Owner.RUN,
    checks={"cursor": by_value(validation.offset)},
)
def children(session: Session, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
    """Return a run's children in order of their start.

    Deleted and expired children are left out. If the run's oldest events are gone
    (``keep_events``), so are the children that only these events name. But the children of
    groups that the run still has are always listed.

    Args:
        limit: Maximum number of children to look at.
        cursor: Cursor of the previous page. None means the first page.

    Raises:
        RunNotFound: No run has this id.
    """
    return read_children(session, run_id, RunFilter(), limit, limit, cursor)


@operation(
    Http("GET", "/runs/{run_id}/tree", route="get_tree", problems=("invalid-input", *RUN_PROBLEMS)),
    scope=Scope.READ,
    owner=Owner.RUN,
)
def tree(session: Session, run_id: str, depth: int = 3, width: int = 10) -> RunTree:
    """Return a run with the runs below it.

    For each run, the tree lists at most ``width`` children of each flow and status, and counts
    the others. It reads the status of at most 10,000 runs. ``not_read`` is the number of
    further children.

    Args:
        depth: Number of generations below the run, at most 32.
        width: Maximum number of listed children per flow and status.

    Raises:
        RunNotFound: No run has this id.
    """
    from perdure.worker.operations.tree import TreeReader

    return TreeReader(session.store, width).read(session.record(run_id), depth)


@operation(
    Http(
        "GET",
        "/runs/{run_id}/prompt",
        route="get_prompt",
        problems=("invalid-request", "invalid-input", "unknown-flow", *RUN_PROBLEMS),
    ),
    scope=Scope.READ,
    owner=Owner.RUN,
)
def prompt(session: Session, run_id: str, step: int) -> PromptOfRound:
    """Return the prompt of a committed or next round.

    The code of the flow rebuilds the prompt from the stored run. ``exact`` says whether the
    rebuilt prompt is equal to the prompt that was sent. For the next round, ``exact`` is None.

    Raises:
        RunNotFound: No run has this id.
        UnknownFlow: The process that rebuilds the prompt does not know the run's flow.
        InvalidInput: The run has no such step, the event of this step is gone (``keep_events``),
            or the round of this step asks no model.
    """
    # Imported here, because few clients make prompts.
    from perdure.worker.operations.prompt import prompt_of_run

    return prompt_of_run(session, run_id, step)


@operation(Http("GET", "/runs/{run_id}/signals"), scope=Scope.READ, owner=Owner.RUN)
def unread(session: Session, run_id: str) -> dict[str, int]:
    """Return the number of unread signals per name.

    Names without unread signals are left out.

    Raises:
        RunNotFound: No run has this id.
    """
    if ARRIVED not in session.record(run_id).fields:
        return {}
    counts = session.store.signals.counts_of(run_id, session.store.signals.names(run_id))
    return {name: last - taken for name, (taken, last) in counts.items() if last > taken}


@operation(Http("GET", "/runs/{run_id}/values"), scope=Scope.READ, owner=Owner.RUN)
def values(session: Session, run_id: str) -> dict[str, Any]:
    """Return the values that a run's rounds returned, by name.

    They are the values of the last commit. Values of a round in progress are not among them.

    Raises:
        RunNotFound: No run has this id.
    """
    return public(session.record(run_id).values)


@operation(Http("GET", "/runs/{run_id}/values/{name}"), scope=Scope.READ, owner=Owner.RUN)
def value(session: Session, run_id: str, name: str, wait: float | timedelta = 0.0) -> Any:
    """Return one value that a run's rounds returned.

    Args:
        wait: Seconds to wait for the value. With 0, the call does not wait. The wait ends early
            when the run completes.

    Raises:
        ValueNotFound: The run has no such value (yet). The message lists the run's values.
        RunNotFound: No run has this id.
    """
    for pause in pauses(seconds_of(wait)):
        record = session.record(run_id)
        found = public(record.values)
        if name in found:
            return found[name]
        if record.fields["phase"] == "completed":
            break
        time.sleep(pause)
    found = values(session, run_id)
    if name in found:
        return found[name]
    known = f"it has {', '.join(found)}" if found else "it has none"
    raise ValueNotFound(f"run {run_id} has no value {name!r} yet; {known}")


def _turn(turn: Turn) -> TranscriptTurn:
    """Return a turn of a run's history as JSON data.

    A turn is a command and its observation. The command is None for a turn that has none. Data that
    only the model needs is left out.
    """
    command = turn.command
    data: dict[str, Any] = {"command": None, "observation": turn.observation}
    if command is not None:
        data["command"] = {
            "name": command.name,
            "args": dict(command.args),
            **public(command.extras),
        }
        if FEEDBACK in command.extras:
            data["human_feedback"] = command.extras[FEEDBACK]
    return cast("TranscriptTurn", data)


def _options(record: Record) -> SubmitOptions:
    """Return a run's pauses at nodes, limit of cycles and idempotency key, as JSON data."""
    return {
        "interrupt_before": record.json("interrupt_before", []),
        "interrupt_after": record.json("interrupt_after", []),
        "max_rounds": record.max_rounds,
        "idempotency_key": record.fields.get("idem"),
    }
