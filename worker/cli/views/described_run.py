"""The output of ``perdure show``: pairs of a name and a value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perdure.flows.core.files import BYTES
from perdure.worker.cli.celery_command import program
from perdure.worker.cli.views.asked_question import asked
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.domain.remedy import command_of
from perdure.worker.presentation.questions import what
from perdure.worker.presentation.text import (
    count,
    duration,
    lines,
    moment,
    parked_text,
    plain,
    progress_of,
    since,
    value_text,
    waits_for_code,
    waits_for_provider,
)
from perdure.worker.presentation.usage import budgets, used, used_below, used_in_all

if TYPE_CHECKING:
    from perdure.flows.core.files import FileReference
    from perdure.worker.domain.run import Run

#: Functions that describe a run's wait from its beginning and end, by the reason of the wait.
WAITS_SINCE = {"provider": waits_for_provider, "code": waits_for_code}


def described(
    run: Run,
    models: str = "",
    artifacts: Mapping[str, int] | None = None,
    unread: Mapping[str, int] | None = None,
    children: Mapping[str, int] | None = None,
    files: Sequence[FileReference] = (),
) -> list[tuple[str, str]]:
    """Return the output of ``perdure show`` as pairs of name and value.

    Args:
        run: The run.
        models: The names of the models that the run has asked, as one text.
        artifacts: The sizes of the run's artifacts in bytes, by name.
        unread: The numbers of unread signals, by name.
        children: The numbers of child runs, by status.
        files: The files that were submitted with the run.
    """
    return [
        *_describe_purpose(run),
        *_describe_position(run),
        *_describe_wait(run),
        *_describe_relations(run, unread or {}, children or {}),
        *_describe_progress(run),
        *_describe_interruption(run),
        *_describe_failure(run),
        *_describe_usage(run, models),
        *_describe_submission(run),
        *_describe_output(run, artifacts or {}, files),
    ]


def _describe_purpose(run: Run) -> list[tuple[str, str]]:
    """Return pairs with a run's id, flow, goal, status, and its command if it has only one."""
    pairs = [("run", run.id), ("flow", plain(run.flow)), ("goal", plain(run.goal))]
    if run.details.get("call"):
        pairs.append(("carries out", plain(run.title)))
    return [*pairs, ("status", run.status_text)]


def _describe_position(run: Run) -> list[tuple[str, str]]:
    """Return pairs with a run's step, origin, generation, dropped turns and worker, if set."""
    details = run.details
    position = "at" if run.status.ended else "next"
    pairs = [("step", f"{run.state.step}, {position} {run.state.current_node}")]
    if details.get("forked"):
        pairs.append(("forked", _origin_of(details["forked"])))
    if details.get("generation"):
        pairs.append(("generation", f"{details['generation']}: the run was renewed"))
    if details.get("forgotten"):
        pairs.append(("history", _left_of(details)))
    if details.get("owner"):
        held_for = duration(since(details["claimed_at"]))
        claim = f"on {details['owner']}, attempt {details['attempt']}, for {held_for}"
        pairs.append(("in flight", claim))
    return pairs


def _describe_wait(run: Run) -> list[tuple[str, str]]:
    """Return a pair with the reason why a run waits. Return no pair for a run that does not."""
    if run.phase == "parked":
        return [("waits", parked_text(run.details))]
    if run.phase != "waiting":
        return []
    details = run.details
    if details.get("waiting_for") == "paused":
        unpause = f"{program()} flows unpause {run.flow}"
        return [("waits", f"the flow is paused; to continue: {unpause}")]
    if short := details.get("waits_for_budget"):
        reason = (
            f"for {short['budget']} of run {short['of']}; to add: "
            f"{program()} add {short['of']} {short['budget']}=AMOUNT"
        )
    elif (waits := WAITS_SINCE.get(details.get("waiting_for", ""))) is not None:
        began, again = (
            _milliseconds(details.get(name)) for name in ("waiting_since", "waiting_until")
        )
        reason = waits(began, again).removeprefix("waits ")
    else:
        until = f" until {moment(details['waiting_until'])}" if details.get("waiting_until") else ""
        reason = f"{details.get('waiting_for', '')}{until}".strip()
    return [("waits", reason)]


def _milliseconds(at: str | None) -> float | None:
    return None if at is None else datetime.fromisoformat(at).timestamp() * 1000


def _describe_relations(
    run: Run, unread: Mapping[str, int], children: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Return pairs with a run's unread signals, child runs, topic, chosen model and parent."""
    details = run.details
    pairs = []
    if unread:
        counts = [f"{plain(name)} {number}" for name, number in unread.items()]
        pairs.append(("unread", ", ".join(counts)))
    if children:
        counts = [f"{number:,} {status}" for status, number in children.items()]
        pairs.append(("children", f"{', '.join(counts)}; see {program()} tree {run.id}"))
    if details.get("topic"):
        pairs.append(("topic", details["topic"]))
    if details.get("model"):
        pairs.append(("chosen model", plain(details["model"])))
    if details.get("parent"):
        pairs.append(("parent", details["parent"]))
    return pairs


def _describe_progress(run: Run) -> list[tuple[str, str]]:
    """Return pairs with a run's progress and last failure, but not the error that ended it."""
    pairs = []
    reported = run.details.get("progress")
    text = reported.get("text") if isinstance(reported, dict) else None
    progress = " ".join(plain(str(part)) for part in (progress_of(reported), text) if part)
    if progress:
        pairs.append(("progress", progress))
    if run.details.get("last_error") and not run.error:
        pairs.append(("last failure", plain(run.details["last_error"])))
    return pairs


def _describe_interruption(run: Run) -> list[tuple[str, str]]:
    """Return pairs with the question of an interrupted run, or the stop of a stopped run.

    For any run that was resumed, a pair has the last resume.
    """
    details = run.details
    pairs = []
    waiting = PendingInterrupt.of(run)
    if run.status.value == "interrupted" and waiting is not None:
        pairs += asked(waiting)
    if run.status.value == "stopped":
        pairs += _describe_stop(run, waiting)
    if details.get("resumed_by"):
        resumed_at = moment(details["resumed_at"])
        pairs.append(("resumed", f"{resumed_at} by {plain(details['resumed_by'])}"))
    return pairs


def _describe_stop(run: Run, waiting: PendingInterrupt | None) -> list[tuple[str, str]]:
    """Return pairs with a run's stop (time, person, reason) and the command to resume.

    ``waiting`` is the question that the run asks again when it is resumed, or None.
    """
    details = run.details
    cause = "".join(
        f", {name} {plain(str(details[key]))}"
        for name, key in (("by", "stop_by"), ("because", "stop_reason"))
        if details.get(key)
    )
    stopped_at = moment(details["stopped_at"]) if "stopped_at" in details else ""
    pairs = [("stopped", f"{stopped_at}{cause}")]
    if details.get("in_doubt"):
        pairs.append(("in doubt", _in_flight_at_stop(details["in_doubt"])))
    if waiting is not None:
        pairs.append(("will ask", what(waiting)))
    return [*pairs, ("go on", f"{program()} resume {run.id}")]


def _in_flight_at_stop(doubt: str) -> str:
    """Return a sentence about the round that was in flight when the run was stopped.

    ``doubt`` names that round as ``step/node/attempt``.
    """
    step, _, rest = doubt.partition("/")
    node, _, attempt = rest.rpartition("/")
    return (
        f"{doubt}: step {step} ({plain(node)}, attempt {attempt}) was in flight at the stop; "
        "its effects may or may not have happened"
    )


def _describe_failure(run: Run) -> list[tuple[str, str]]:
    """Return pairs with a run's traceback and error, and the command that continues the run.

    For a run that used up its cycles, return only the command.
    """
    details = run.details
    pairs = []
    if details.get("traceback"):
        pairs.append(("traceback", "\n" + lines(details["traceback"])))
    if "unfinished" in details:
        cycles = details["unfinished"]["cycles"]
        pairs.append(("go on", f"{program()} resume {run.id} --add cycles={cycles}"))
    if run.error:
        pairs.append(("error", plain(run.error)))
        command = command_of(run.id, details.get("remedy"))
        pairs.append(("try again", f"{program()} {command}"))
    return pairs


def _describe_usage(run: Run, models: str) -> list[tuple[str, str]]:
    """Return pairs with a run's models, its usage, the usage below it, and its budgets."""
    pairs = []
    if models:
        pairs.append(("model", models))
    if spent := used_in_all(run.details.get("spent", {})):
        pairs.append(("used", spent))
    if below := used_below(run):
        pairs.append(("below", below))
    return [*pairs, *(("budget", text) for text in budgets(run))]


def _describe_submission(run: Run) -> list[tuple[str, str]]:
    """Return pairs with a run's inputs, labels, submission time, and duration if it has ended."""
    pairs = []
    if run.inputs:
        pairs.append(("inputs", plain(json.dumps(dict(run.inputs), ensure_ascii=False))))
    if run.labels:
        labels = [f"{plain(key)}={plain(value)}" for key, value in run.labels.items()]
        pairs.append(("labels", ", ".join(labels)))
    pairs.append(("submitted", moment(run.created_at)))
    if run.details.get("ended_at"):
        pairs.append(("took", duration((run.updated_at - run.created_at).total_seconds())))
    return pairs


def _describe_output(
    run: Run, artifacts: Mapping[str, int], files: Sequence[FileReference]
) -> list[tuple[str, str]]:
    """Return pairs with the files and artifacts of a run, and its answer if it has completed."""
    pairs = [
        ("file", f"{plain(each.name)} ({each.media_type}, {each.bytes:,} bytes)") for each in files
    ]
    sizes = [
        f"{plain(name)} ({size:,} bytes)"
        for name, size in artifacts.items()
        if not name.startswith(BYTES)
    ]
    if sizes:
        pairs.append(("artifacts", ", ".join(sizes)))
    if run.status.value == "completed":
        pairs.append(("answer", value_text(run.answer)))
    return pairs


def _origin_of(forked: Mapping[str, Any]) -> str:
    """Return a fork's origin as text: run, step, and the usage before it."""
    spent = used(forked["spent"])
    before = f", which had used {spent}" if spent else ""
    return f"from {forked['run']} before step {forked['step']}{before}"


def _left_of(details: Mapping[str, Any]) -> str:
    """Return the number of turns that are still stored, as a sentence."""
    turns, forgotten = details["turns"], details["forgotten"]
    return f"{turns - forgotten} of {count(turns, 'turn')} are left; the older ones are gone"
