"""Answering: what a person says to a run that waits, by a form; a page for one question, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from flows.errors import InvalidInput
from worker.errors import Forbidden, InvalidTransition
from worker.waiting import Waiting
from worker.web.pages.filled import Filled, back_from
from worker.web.pages.form import NotFilledIn
from worker.web.pages.page import page
from worker.web.pages.route import PageRoute
from worker.web.permitted import Runs

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/runs/{run_id}/answer")
def ask(request: Request, run_id: str, runs: Runs) -> Response:
    """The question by itself, to be linked to."""
    return _page(request, _waiting(runs, run_id), {})


@router.post("/runs/{run_id}/answer")
def answer(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Give the answer. What does not fit is told beside what was filled in; a question that was answered meanwhile is a Stale."""
    waiting = _waiting(runs, run_id)
    try:
        given, more = answer_of(waiting, filled)
        if is_repeat(waiting, filled) and filled.get("sure") != "yes":
            return page(request, "repeat.html", waiting=waiting, back=filled.get("back", ""))
        runs.resume(run_id, given, more, filled.get("interrupt") or None)
    except (NotFilledIn, InvalidInput) as error:
        return _page(request, waiting, filled, str(error), 422)
    except Forbidden as error:
        if waiting.kind != "approval":
            raise
        return _page(request, waiting, filled, str(error), 403)
    return back_from(request, filled, ("runs", run_id), f"Run {run_id} has your answer and goes on.")


def answer_of(waiting: Waiting, filled: Mapping[str, str]) -> tuple[Any, dict[str, float] | None]:
    """The answer that the form stands for, and what it adds to a budget.

    Raises:
        NotFilledIn: nothing was chosen, or what was filled in is no JSON or no number.
    """
    way, text = filled.get("way", ""), filled.get("text", "").strip()
    match waiting.kind, way:
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
            return {"result": _json_or_text(text)}, None
        case "budget", _:
            return None, {str((waiting.data or {})["budget"]): _amount(filled.get("amount", ""))}
        case "question", "json":
            return _json(text, "the answer"), None
        case "question", _:
            if not text:
                raise NotFilledIn("expected an answer; the field is empty")
            return text, None
        case _:
            raise NotFilledIn(f"expected one of the ways to answer that are offered; it is {way!r}")


def is_repeat(waiting: Waiting, filled: Mapping[str, str]) -> bool:
    """Return whether the answer repeats a command that may have happened: that is asked once more."""
    return waiting.kind == "in_doubt" and filled.get("way") == "retry"


def _waiting(runs: Runs, run_id: str) -> Waiting:
    run = runs.get(run_id)
    waiting = Waiting.of(run)
    if waiting is None:
        raise InvalidTransition(f"run {run_id} is {run.status.value} and asks nothing (any more)")
    return waiting


def _page(request: Request, waiting: Waiting, filled: Mapping[str, str], fault: str = "", status: int = 200) -> Response:
    return page(request, "ask.html", status, waiting=waiting, filled=filled, fault=fault, back=filled.get("back", ""))


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotFilledIn(f"expected {what} as JSON; {error}") from error


def _json_or_text(text: str) -> Any:
    """What reads as JSON is meant so; everything else is a text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _amount(text: str) -> float:
    try:
        return int(text) if text.strip().isdecimal() else float(text)
    except ValueError as error:
        raise NotFilledIn(f"expected a number to add; it is {text[:60]!r}") from error
