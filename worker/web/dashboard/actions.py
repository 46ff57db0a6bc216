"""Actions of the pages' buttons. Each action redirects to a page that confirms it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from perdure.flows.core.errors import InvalidInput
from perdure.worker.domain.stop import StopMode, StopReceipt
from perdure.worker.operations.arguments import check_words
from perdure.worker.presentation.text import count
from perdure.worker.web.auth.permissions import Runs
from perdure.worker.web.dashboard.answer import json_or_text
from perdure.worker.web.dashboard.page import Filled, PageRoute, back_from

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.post("/runs/{run_id}/stop")
def stop(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Stop a run, after its current round or now."""
    receipt = runs.request_stop(run_id, mode_of(filled), _reason(filled))
    return back_from(request, filled, ("runs", run_id), _notice_of(receipt))


@router.post("/runs/{run_id}/resume")
def resume(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Resume a stopped or unfinished run.

    For an unfinished run, the form has the number of cycles to add.
    """
    runs.resume(
        run_id,
        add={"cycles": int(filled["cycles"])} if filled.get("cycles", "").isdecimal() else None,
    )
    return back_from(request, filled, ("runs", run_id), f"Run {run_id} was resumed.")


@router.post("/runs/{run_id}/retry")
def retry(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Retry an errored run."""
    runs.retry(run_id)
    return back_from(
        request, filled, ("runs", run_id), f"Run {run_id} will be retried from the failed step."
    )


@router.post("/runs/{run_id}/signals")
def send_signal(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Send a signal to a run. A form that is sent twice sends it once."""
    text = filled.get("payload", "").strip()
    receipt = runs.signal(
        run_id,
        filled.get("name", ""),
        _payload_of(text) if text else None,
        key=filled.get("key") or None,
    )
    notice = f"Signal {receipt.name} {receipt.number} of run {run_id} is stored."
    return back_from(request, filled, ("runs", run_id), notice)


@router.post("/runs/{run_id}/say")
def say(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Send a text to a live run, for its next round. A form that is sent twice sends it once."""
    words = filled.get("words", "").strip()
    check_words(words, "what to say")
    runs.say(run_id, words, key=filled.get("key") or None)
    notice = f"Said to run {run_id}. It hears it in its next round."
    return back_from(request, filled, ("runs", run_id), notice)


@router.post("/runs/{run_id}/delete")
def delete(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Delete a run that has ended or is damaged."""
    runs.delete(run_id)
    return back_from(request, filled, ("runs",), f"Run {run_id} was deleted.")


@router.post("/flows/{name}/pause")
def pause(request: Request, name: str, runs: Runs, filled: Filled) -> Response:
    """Pause a flow."""
    runs.pause_flow(name, _reason(filled))
    return back_from(
        request, filled, ("fleet",), f"Flow {name} is paused. Its runs wait until you unpause it."
    )


@router.post("/flows/{name}/unpause")
def unpause(request: Request, name: str, runs: Runs, filled: Filled) -> Response:
    """Unpause a flow."""
    queued = runs.unpause_flow(name)
    return back_from(
        request,
        filled,
        ("fleet",),
        f"Flow {name} was unpaused. {count(queued, 'waiting run')} queued again.",
    )


def mode_of(filled: Mapping[str, str]) -> StopMode:
    """Return the stop mode that a form names, ``graceful`` by default.

    Raises:
        InvalidInput: The form names an unknown mode.
    """
    mode = filled.get("mode", "graceful")
    if mode not in ("graceful", "now"):
        raise InvalidInput(f"expected mode 'graceful' or 'now', got {mode[:60]!r}")
    return "now" if mode == "now" else "graceful"


def _payload_of(text: str) -> Any:
    """Return the payload of a signal from a form's text.

    It is the text's JSON value, or else the text itself.

    Raises:
        InvalidInput: The text is not JSON, but begins like a JSON array, object or text.
    """
    payload = json_or_text(text)
    if payload is text and text[0] in '[{"':
        raise InvalidInput(f"the payload begins like JSON and is none: {text[:60]!r}; correct it")
    return payload


def _reason(filled: Filled) -> str | None:
    return filled.get("reason", "").strip() or None


def _notice_of(receipt: StopReceipt) -> str:
    if not receipt.known:
        return f"Run {receipt.run_id} does not exist, or was deleted."
    if receipt.why_not == "not-running":
        return f"Run {receipt.run_id} had already ended or was already stopped."
    if receipt.stopped:
        return f"Run {receipt.run_id} is stopped." + (
            f" In doubt: {receipt.in_doubt}." if receipt.in_doubt else ""
        )
    return f"Run {receipt.run_id} will stop after the current round."
