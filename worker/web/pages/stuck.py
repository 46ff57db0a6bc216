"""Stuck: what does not move by itself, why, and what helps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fastapi import APIRouter, Request, Response

from worker.verdict import Verdict, VerdictCode
from worker.web.pages.letters import letters_for
from worker.web.pages.page import page
from worker.web.pages.route import PageRoute
from worker.web.permitted import Runs

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: What each kind is called, those first that only a person can mend.
HEADS: Mapping[VerdictCode, str] = {
    VerdictCode.QUARANTINED: "Damaged",
    VerdictCode.LOSSES: "Lose their workers",
    VerdictCode.NO_WORKER: "No worker for the role",
    VerdictCode.UNKNOWN_FLOW: "No worker knows the flow",
    VerdictCode.FLOW_NOT_ENABLED: "The flow is not enabled",
    VerdictCode.SERVER_SILENT: "A server is silent",
    VerdictCode.ENDED: "Errored",
    VerdictCode.FLOW_PAUSED: "The flow is paused",
    VerdictCode.WAITING_FOR_A_PROVIDER: "Wait for a provider",
    VerdictCode.BACKING_OFF: "Failing, and tried again",
}


@router.get("/stuck")
def stuck(request: Request, runs: Runs) -> Response:
    """The runs that stand still, by what keeps them, and the messages that were refused."""
    letters = letters_for(runs)
    return page(request, "stuck.html", groups=grouped(runs.stuck()), letters=letters)


def grouped(verdicts: Iterable[Verdict]) -> list[tuple[VerdictCode, str, dict[str, list[Verdict]]]]:
    """The verdicts by their code, in the order of HEADS (what is in none of them comes last), and those of a code by their sentence."""
    found: dict[VerdictCode, dict[str, list[Verdict]]] = {}
    for verdict in verdicts:
        # A sentence that names its run is the same for all: whoever reads it sees which runs it is about.
        sentence = verdict.sentence.replace(str(verdict.details["run"]), "RUN")
        found.setdefault(verdict.code, {}).setdefault(sentence, []).append(verdict)
    order = [*HEADS, *(code for code in found if code not in HEADS)]
    return [(code, HEADS.get(code, code.value), found[code]) for code in order if code in found]
