"""Forms that answer the questions of runs, and a question's page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from perdure.flows.core.errors import InvalidInput
from perdure.worker.domain.interrupt import PendingInterrupt
from perdure.worker.errors import Forbidden, InvalidTransition
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.dashboard.page import Filled, PageRoute, back_from, page
from perdure.worker.web.dashboard.schema_form import MissingField

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/runs/{run_id}/answer")
def ask(request: Request, run_id: str, runs: Runs) -> Response:
    """Show a run's open question on a page of its own.

    Links outside of the dashboard lead to this page.
    """
    return _page(request, _waiting(runs, run_id), {})


@router.post("/runs/{run_id}/answer")
def answer(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Answer a run's open question.

    An answer that is invalid, or that an approval does not accept from this caller, shows the form
    again with the fault. An answer that repeats a command in doubt first needs a confirmation.

    Raises:
        Stale: The question was answered in the meantime.
        InvalidTransition: The run has no open question.
    """
    waiting = _waiting(runs, run_id)
    try:
        answer_value, additions = answer_of(waiting, filled)
        if is_repeat(waiting, filled) and filled.get("sure") != "yes":
            return page(request, "repeat.html", waiting=waiting, back=filled.get("back", ""))
        runs.resume(run_id, answer_value, additions, filled.get("interrupt") or None)
    except (MissingField, InvalidInput) as error:
        return _page(request, waiting, filled, str(error), 422)
    except Forbidden as error:
        if waiting.kind != "approval":
            raise
        return _page(request, waiting, filled, str(error), 403)
    return back_from(
        request, filled, ("runs", run_id), f"Run {run_id} received your answer and continues."
    )


def answer_of(
    waiting: PendingInterrupt, filled: Mapping[str, str]
) -> tuple[Any, dict[str, float] | None]:
    """Return the answer and the added amounts in a form.

    Only a question about a budget takes amounts, and its answer is None. For other questions, the
    amounts are None. A pause takes neither.

    Raises:
        MissingField: No answer was chosen, or the text is not the required JSON or number.
    """
    choice, text = filled.get("way", ""), filled.get("text", "").strip()
    match waiting.kind, choice:
        case "pause", _:
            return None, None
        case "approval", "approve":
            return "approve", None
        case "approval", "refuse":
            return {"refuse": text} if text else "refuse", None
        case "approval", "edit":
            return {"edit": _json(filled.get("edit", ""), "the arguments")}, None
        case "in_doubt", "retry":
            return "retry", None
        case "in_doubt", "tell":
            return {"tell": text}, None
        case "in_doubt", "result":
            return {"result": json_or_text(text)}, None
        case "budget", _:
            return None, {str((waiting.data or {})["budget"]): _amount(filled.get("amount", ""))}
        case "question", "json":
            return _json(text, "the answer"), None
        case "question", _:
            if not text:
                raise MissingField("expected an answer, but the field is empty")
            return text, None
        case _:
            raise MissingField(f"expected one of the offered answers, got {choice!r}")


def is_repeat(waiting: PendingInterrupt, filled: Mapping[str, str]) -> bool:
    """Return whether an answer repeats a command in doubt.

    The command may already have happened, so such an answer needs a confirmation.
    """
    return waiting.kind == "in_doubt" and filled.get("way") == "retry"


def _waiting(runs: Runs, run_id: str) -> PendingInterrupt:
    run = runs.get(run_id)
    waiting = PendingInterrupt.of(run)
    if waiting is None:
        raise InvalidTransition(f"run {run_id} is {run.status.value} and has no open question")
    return waiting


def _page(
    request: Request,
    waiting: PendingInterrupt,
    filled: Mapping[str, str],
    fault: str = "",
    status: int = 200,
) -> Response:
    return page(
        request,
        "ask.html",
        status,
        waiting=waiting,
        filled=filled,
        fault=fault,
        back=filled.get("back", ""),
    )


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MissingField(f"expected {what} as JSON: {error}") from error


def json_or_text(text: str) -> Any:
    """Return the JSON value of a text.

    If the text is not JSON, return the text itself.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _amount(text: str) -> float:
    try:
        return int(text) if text.strip().isdecimal() else float(text)
    except ValueError as error:
        raise MissingField(f"expected a number to add, got {text[:60]!r}") from error
