"""Pages of the inbox, the fleet and stuck runs.

The fleet consists of queues, workers and flows. The page of stuck runs also shows dead letters:
messages that workers refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from perdure.worker.domain.fleet import WorkerStatus, shown
from perdure.worker.domain.verdict import Verdict, VerdictCode
from perdure.worker.errors import DamagedRun, RunNotFound
from perdure.worker.web.auth import AuthorizedClient
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.dashboard.page import PageRoute, page

#: Number of the newest refused messages on the page of stuck runs.
REFUSED_MESSAGES_SHOWN = 20
#: Maximum number of runs shown with the worker that runs their rounds. Each is read.
HELD_SHOWN = 10


def refused_messages_for(runs: AuthorizedClient) -> list[dict[str, Any]]:
    """Return the newest dead letters: messages that workers refused.

    Returns:
        An empty list if the caller is no admin, because a message may belong to any owner.
    """
    if not runs.caller.is_admin:
        return []
    return [
        {**message, "at": datetime.fromtimestamp(message["at"], UTC)}
        for message in runs.dead_letters(REFUSED_MESSAGES_SHOWN)
    ]


router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/fleet")
def fleet(request: Request, runs: Runs, every: Annotated[str, Query(alias="all")] = "") -> Response:
    """Show the queues, the workers, and the flows with their pauses.

    Args:
        every: If not empty, all flows are shown. If empty, flows that come with Perdure may be left
            out (``domain.fleet.shown``), unless they are paused.
    """
    workers = sorted(runs.workers(), key=lambda worker: (not worker["alive"], worker["name"]))
    held = {worker["name"]: _held(runs, worker) for worker in workers}
    flows, paused = runs.flows(), runs.paused_flows()
    listed_flows = (
        flows
        if every
        else {
            **shown(flows, runs.client.settings.enabled_flows),
            **{name: flows[name] for name in paused if name in flows},
        }
    )
    alive = [worker for worker in workers if worker["alive"]]
    return page(
        request,
        "fleet.html",
        queues=runs.queues(),
        workers=workers,
        held=held,
        now=datetime.now(UTC).timestamp(),
        rounds=sum(worker["rounds"] for worker in alive),
        slots=sum(worker["concurrency"] for worker in alive),
        flows=listed_flows,
        more=len(flows) - len(listed_flows),
        paused=paused,
    )


def _held(runs: AuthorizedClient, worker: WorkerStatus) -> list[tuple[str, str]]:
    """Return the ids and titles of a worker's current runs.

    They are at most HELD_SHOWN runs whose rounds the worker executes. Runs that the caller may not
    see, that cannot be read, or that have ended since the worker's last heartbeat are left out. The
    list is empty if the worker is not alive.
    """
    found = []
    for run_id in worker.get("holds", [])[:HELD_SHOWN] if worker["alive"] else []:
        try:
            run = runs.get(run_id)
        except (DamagedRun, RunNotFound):
            continue
        if not run.status.ended:
            found.append((run.id, run.title))
    return found


#: Heading of each verdict code. Problems that only a person can repair come first.
HEADS: Mapping[VerdictCode, str] = {
    VerdictCode.QUARANTINED: "Damaged",
    VerdictCode.LOSSES: "Workers lost repeatedly",
    VerdictCode.NO_WORKER: "No worker for the role",
    VerdictCode.UNKNOWN_FLOW: "No worker knows the flow",
    VerdictCode.FLOW_NOT_ENABLED: "Flow not enabled",
    VerdictCode.SERVER_SILENT: "Server or broker not responding",
    VerdictCode.ENDED: "Errored",
    VerdictCode.FLOW_PAUSED: "Flow paused",
    VerdictCode.CODE_DOES_NOT_FIT: "Code does not fit",
    VerdictCode.WAITING_FOR_A_PROVIDER: "Waiting for a provider",
    VerdictCode.BACKING_OFF: "Failing, will be retried",
}


#: Replacement for a run and its id in a sentence about several runs.
THE_RUN = {"r": "the run", "R": "The run"}


@router.get("/stuck")
def stuck(request: Request, runs: Runs) -> Response:
    """Show the stuck runs by reason, and the dead letters."""
    refused = refused_messages_for(runs)
    verdicts = runs.stuck()
    return page(
        request,
        "stuck.html",
        groups=grouped(verdicts),
        refused=refused,
        words=runs.titles([str(each.details["run"]) for each in verdicts]),
    )


def grouped(verdicts: Iterable[Verdict]) -> list[tuple[VerdictCode, str, dict[str, list[Verdict]]]]:
    """Group verdicts on stuck runs by code and sentence.

    A group has a code, its heading, and the verdicts by their sentence. The codes have the order of
    HEADS. Codes without a heading come last. Verdicts whose sentences differ only in the run's id
    have one common sentence, without the id.
    """
    groups: dict[VerdictCode, dict[str, list[Verdict]]] = {}
    for verdict in verdicts:
        sentence = _of_any_run(verdict.sentence, str(verdict.details["run"]))
        groups.setdefault(verdict.code, {}).setdefault(sentence, []).append(verdict)
    order = [*HEADS, *(code for code in groups if code not in HEADS)]
    return [(code, HEADS.get(code, code.value), groups[code]) for code in order if code in groups]


def _of_any_run(sentence: str, run_id: str) -> str:
    """Return a verdict's sentence without the id of its run.

    Only an id after the word ``run``, or as the argument of a `perdure` command, is removed.
    Elsewhere the same word may be a part of an error's text.
    """
    own = rf"{re.escape(run_id)}(?![\w-])"
    sentence = re.sub(rf"\b[Rr]un {own}, (?=step \d)", "", sentence)
    sentence = re.sub(rf"\b([Rr])un {own}", lambda found: THE_RUN[found[1]], sentence)
    return re.sub(rf"\b(perdure [a-z]+) {own}", r"\1 RUN", sentence)


#: Questions on one page: people answer them one by one.
QUESTIONS_SHOWN = 25


@router.get("/inbox")
def inbox(request: Request, runs: Runs, cursor: str | None = None) -> Response:
    """Show the open questions for people, each with its form, the longest wait first."""
    return page(request, "inbox.html", inbox=runs.inbox(QUESTIONS_SHOWN, cursor or None))
