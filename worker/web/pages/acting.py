"""Acting: the buttons of the pages. Each does one thing and leads back."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from flows.errors import InvalidInput
from worker.receipt import StopMode, StopReceipt
from worker.web.pages.filled import Filled, back_from
from worker.web.pages.route import PageRoute
from worker.web.permitted import Runs
from worker.words.texts import count

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.post("/runs/{run_id}/stop")
def stop(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Stop a run: after the round in flight, or now."""
    receipt = runs.request_stop(run_id, _mode(filled), _reason(filled))
    return back_from(request, filled, ("runs", run_id), _became(receipt))


@router.post("/stops")
def stop_many(request: Request, runs: Runs, filled: Filled) -> Response:
    """Stop all live runs of a flow, a status, or both."""
    receipts = runs.request_stop_many(filled.get("flow") or None, filled.get("status") or None, _mode(filled), _reason(filled))
    stopped = sum(receipt.stopped for receipt in receipts)
    later = len(receipts) - stopped
    said = f"{count(stopped, 'run')} stopped" + (f"; {later} more after the round in flight" if later else "")
    return back_from(request, filled, ("runs",), f"{said}.")


@router.post("/runs/{run_id}/resume")
def resume(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Go on with a stopped run, or with an unfinished one, which is given more cycles."""
    runs.resume(run_id, add={"cycles": int(filled["cycles"])} if filled.get("cycles", "").isdecimal() else None)
    return back_from(request, filled, ("runs", run_id), f"Run {run_id} goes on.")


@router.post("/runs/{run_id}/retry")
def retry(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Take an errored run up again."""
    runs.retry(run_id)
    return back_from(request, filled, ("runs", run_id), f"Run {run_id} is tried again from the failed step.")


@router.post("/runs/{run_id}/delete")
def delete(request: Request, run_id: str, runs: Runs, filled: Filled) -> Response:
    """Remove a run that has ended, or is damaged."""
    runs.delete(run_id)
    return back_from(request, filled, ("runs",), f"Run {run_id} is removed.")


@router.post("/flows/{name}/pause")
def pause(request: Request, name: str, runs: Runs, filled: Filled) -> Response:
    """Pause a flow."""
    runs.pause_flow(name, _reason(filled))
    return back_from(request, filled, ("fleet",), f"Flow {name} is paused: no round of its runs begins.")


@router.post("/flows/{name}/unpause")
def unpause(request: Request, name: str, runs: Runs, filled: Filled) -> Response:
    """Let a paused flow go on."""
    held = runs.unpause_flow(name)
    return back_from(request, filled, ("fleet",), f"Flow {name} goes on; {count(held, 'run')} that it held are offered again.")


def _mode(filled: Filled) -> StopMode:
    mode = filled.get("mode", "graceful")
    if mode not in ("graceful", "now"):
        raise InvalidInput(f"mode should be 'graceful' or 'now'; it is {mode[:60]!r}")
    return "now" if mode == "now" else "graceful"


def _reason(filled: Filled) -> str | None:
    return filled.get("reason", "").strip() or None


def _became(receipt: StopReceipt) -> str:
    if not receipt.known:
        return f"There is no run {receipt.run_id} (any more)."
    if receipt.why_not == "not-running":
        return f"Run {receipt.run_id} had ended or was stopped before; nothing was done."
    if receipt.stopped:
        return f"Run {receipt.run_id} is stopped" + (f"; in doubt: {receipt.in_doubt}." if receipt.in_doubt else ".")
    return f"Run {receipt.run_id} stops when the round in flight has finished."
