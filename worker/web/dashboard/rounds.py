"""Pages of one round of a run: its attempts, its command, its observation and its prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from perdure.flows.core.outcomes import Turn
from perdure.flows.core.reply_extras import public
from perdure.flows.core.summaries import digest as digest_of
from perdure.worker.domain.run import Run
from perdure.worker.errors import ArtifactNotFound, InvalidInput
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.dashboard.documents import part_of, text_of, tree_of
from perdure.worker.web.dashboard.fork import form_of
from perdure.worker.web.dashboard.outline import outline_of
from perdure.worker.web.dashboard.page import PageRoute, page
from perdure.worker.web.dashboard.run import nodes_of
from perdure.worker.web.dashboard.timeline import Entry, timeline

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Maximum number of events on the page of a step. A round that fails has one for each attempt.
EVENTS_OF_STEP = 100
#: Turns that one read asks for. A turn has up to 32,000 characters by default.
TURNS_PER_READ = 50


@router.get("/runs/{run_id}/steps/{step}")
def one_round(request: Request, run_id: str, step: int, runs: Runs) -> Response:
    """Show the round of a step.

    The page has its attempts, its command and its observation.

    Raises:
        InvalidInput: The run has no such step yet, or its events are gone.
    """
    run = runs.get(run_id)
    roles = nodes_of(runs, run)
    outline = outline_of(runs, run, roles)
    before = outline.before_step(step + 1)
    events = runs.latest_events(run_id, EVENTS_OF_STEP + 1, before)
    entries = timeline(run, events, roles, EVENTS_OF_STEP).entries[::-1]
    here = [entry for entry in entries if entry.event.step == step]
    if not here:
        raise InvalidInput(
            f"run {run_id} is at step {run.state.step}, and has no events of step {step}; "
            "open the run to see its steps"
        )
    committed = next((entry for entry in here if entry.row.is_round), None)
    decision = _decision(entries, committed, step)
    turn = _turn_near(runs, run, _digest_of(entries, step), step)
    return page(
        request,
        "round.html",
        run=run,
        step=step,
        node=here[-1].event.node,
        committed=committed,
        decision=decision,
        attempts=_attempts(here),
        traceback_sources=_traceback_sources(here),
        turn=turn and turn_document(*turn),
        number=turn and turn[0],
        asks_model=bool(committed and committed.event.data.get("prompt")),
        is_last=step >= run.state.step,
        forking=form_of(runs, run, here[-1].event.node, step),
    )


@router.get("/runs/{run_id}/steps/{step}/prompt")
def prompt(request: Request, run_id: str, step: int, runs: Runs) -> Response:
    """Show the prompt of a round. The flow's code builds it again from the stored run."""
    document = runs.prompt(run_id, step)
    messages = [
        (str(message.get("role", "")), part_of(text_of(message.get("content", message))))
        for message in document["messages"]
    ]
    return page(
        request,
        "prompt.html",
        run_id=run_id,
        step=step,
        prompt=document,
        messages=messages,
        tools=tree_of(document["tools"]) if document["tools"] else None,
    )


@router.get("/runs/{run_id}/turns/{digest}")
def turn(
    request: Request, run_id: str, digest: str, runs: Runs, begins: int = 0, step: int | None = None
) -> Response:
    """Show a whole turn.

    Events contain only the beginning of an observation.

    Args:
        digest: The digest of the turn's observation, which identifies the turn.
        begins: Position of the first character of the observation's text on the page.
        step: The step near which the search begins. None: the run's newest step.

    Raises:
        ArtifactNotFound: The stored history has no observation with this digest.
    """
    number, found = _turn(runs, run_id, digest, step)
    return page(
        request,
        "turn.html",
        run_id=run_id,
        number=number,
        digest=digest,
        step=step,
        turn=turn_document(number, found, begins),
    )


@router.get("/runs/{run_id}/turns/{digest}/observation")
def observation(run_id: str, digest: str, runs: Runs, step: int | None = None) -> Response:
    """Return the observation of a turn as a file to download. For the arguments see ``turn``."""
    number, found = _turn(runs, run_id, digest, step)
    is_text = isinstance(found.observation, str)
    name = f"{run_id}-turn-{number}.{'txt' if is_text else 'json'}"
    return Response(
        text_of(found.observation).encode("utf-8", "replace"),
        media_type="text/plain" if is_text else "application/json",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def turn_document(number: int, found: Turn, begins: int = 0) -> dict[str, Any]:
    """Return the data of a turn for a page.

    It has the turn's command, and its observation as a tree and as text.

    Args:
        number: The number of the turn in the run's history.
        begins: Position of the first character of the observation's text on the page.
    """
    command = found.command
    args = dict(command.args) if command is not None else {}
    return {
        "number": number,
        "digest": digest_of(found.observation),
        "name": command.name if command is not None else "",
        "args": tree_of(args) if args else None,
        "args_text": text_of(args) if args else "",
        "extras": {
            name: text_of(value)
            for name, value in (public(command.extras) if command is not None else {}).items()
            if value not in (None, "", [])
        },
        "tree": tree_of(found.observation),
        "text": part_of(text_of(found.observation), begins),
    }


def _decision(entries: Sequence[Entry], committed: Entry | None, step: int) -> Entry | None:
    """Return the timeline entry with a step's command.

    A step of a workflow has the command in its own entry, ``committed``. Otherwise it is the entry
    of the step before, in which a controller chose the command.

    Returns:
        None if the step executed no command, or the entry is not among ``entries``.
    """
    if committed is not None and "did" in committed.event.data:
        return committed if committed.command else None
    return next(
        (
            entry
            for entry in entries
            if entry.event.step == step - 1
            and entry.event.data.get("command")
            and "did" not in entry.event.data
        ),
        None,
    )


def _attempts(here: list[Entry]) -> list[tuple[int, list[Entry]]]:
    """Return a step's entries by attempt number, lowest first."""
    attempts: dict[int, list[Entry]] = {}
    for entry in here:
        attempts.setdefault(entry.event.attempt, []).append(entry)
    return sorted(attempts.items())


def _traceback_sources(here: Sequence[Entry]) -> dict[str, Entry]:
    """Return the entry that has the traceback of a failure, by the id of that failure.

    Consecutive failures with the same traceback store it once, at the first of them
    (commit_round.lua). Only the other failures are in the result.

    Args:
        here: The entries of one step, oldest first.
    """
    sources: dict[str, Entry] = {}
    source: Entry | None = None
    for entry in here:
        data = entry.event.data
        if data.get("traceback"):
            source = entry
        elif entry.event.type == "failed" and source is not None:
            # Another error without a traceback never had one.
            if data.get("error") == source.event.data.get("error"):
                sources[entry.id] = source
            else:
                source = None
    return sources


def _digest_of(entries: Sequence[Entry], step: int) -> str:
    """Return the digest of a step's observation.

    Without it, return the digest of the next step's observation. '' if neither is known.
    """
    digests = {
        entry.event.step: str(entry.event.data["digest"])
        for entry in entries
        if entry.row.is_round and entry.event.data.get("digest")
    }
    return digests.get(step, digests.get(step + 1, ""))


def _turn(runs: AuthorizedClient, run_id: str, digest: str, step: int | None) -> tuple[int, Turn]:
    run = runs.get(run_id)
    found = _turn_near(runs, run, digest, run.state.step if step is None else step)
    if found is None:
        raise ArtifactNotFound(f"run {run_id} has no observation {digest[:40]!r} in its history")
    return found


def _turn_near(runs: AuthorizedClient, run: Run, digest: str, step: int) -> tuple[int, Turn] | None:
    """Find the turn whose observation has this digest. Return its number and the turn.

    The history is read in parts, first the part in which the turn of ``step`` is expected. If
    several turns of a part have the same observation, the newest is returned.

    Returns:
        None if ``digest`` is empty, or if the stored history has no such turn.
    """
    if not digest:
        return None
    forgotten = run.details.get("forgotten", 0)
    turns = run.details.get("turns", 0)
    stored = turns - forgotten
    expected = round(turns * step / (run.state.step or 1)) - forgotten
    for start in _starts(stored, expected):
        found = runs.turns_between(run.id, start, min(start + TURNS_PER_READ, stored))
        for position, each in reversed(list(enumerate(found, start))):
            if digest_of(each.observation) == digest:
                return forgotten + position + 1, each
    return None


def _starts(stored: int, expected: int) -> list[int]:
    """Return the positions at which to read the history.

    At each position, a part of TURNS_PER_READ turns begins. The positions are in the order of
    reading.

    Args:
        stored: The number of stored turns.
        expected: The position of the turn that is searched. The part nearest to it comes first.
    """
    middle = TURNS_PER_READ // 2
    starts = range(0, stored, TURNS_PER_READ)
    return sorted(starts, key=lambda start: abs(start + middle - expected))
