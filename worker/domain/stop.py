"""StopReceipt: the reply to a request to stop a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from perdure.worker.domain.document import Document

StopMode = Literal["graceful", "now"]


@dataclass(frozen=True)
class StopReceipt(Document):
    """Reply to a stop request: the state of the run after the request."""

    run_id: str
    """Id of the run to stop."""
    known: bool
    """Whether the run exists."""
    running: bool
    """Whether the run was live when the request came in. True for a damaged run."""
    why_not: str | None
    """``no-state`` (no such run) or ``not-running`` (it had already ended or stopped).

    For a damaged run, it is the text of the damage. Not set for any other live run.
    """
    stopped: bool
    """Whether the run is stopped now.

    After ``graceful`` it is false while a round is in flight: that round may still finish, and no
    further round is claimed.
    """
    status: str | None
    """The run's phase after the request."""
    mode: StopMode
    """Taken from the request."""
    requested_by: str | None = None
    """Taken from the request."""
    reason: str | None = None
    """Taken from the request."""
    asked_at: datetime | None = None
    """When the stop was requested."""
    seen_at: datetime | None = None
    """When the worker saw the request. Not set if it has not."""
    stopped_at: datetime | None = None
    """When the run stopped. Not set if it has not."""
    step: Annotated[int, Field(ge=0)] | None = None
    """Number of committed rounds."""
    in_doubt: str | None = None
    """``step/node/attempt`` of the round that was in flight and fenced.

    Its effects may or may not have happened.
    """
    stops_children: bool = False
    """Whether this request stopped the children of a run that had been stopped alone before."""

    _later: ClassVar[tuple[str, ...]] = ("stops_children",)

    @classmethod
    def of(
        cls, run_id: str, reply: Sequence[str], mode: StopMode, by: str | None, reason: str | None
    ) -> StopReceipt:
        """Build the receipt for a stop request from the reply of request_stop.lua."""
        if reply[0] == "missing":
            return cls(run_id, False, False, "no-state", False, None, mode, by, reason)
        result, phase, requested, seen, stopped, step, doubt, *follow_ups = reply
        live = result != "finished"
        return cls(
            run_id=run_id,
            known=True,
            running=live,
            why_not=None if live else "not-running",
            stopped=phase == "stopped",
            status=phase,
            mode=mode,
            requested_by=by,
            reason=reason,
            asked_at=_when(requested),
            seen_at=_when(seen),
            stopped_at=_when(stopped),
            step=int(step),
            in_doubt=None if doubt == "-" else doubt,
            stops_children=result == "finished" and bool(follow_ups),
        )

    @classmethod
    def of_damaged(
        cls, run_id: str, damage: str, mode: StopMode, by: str | None, reason: str | None
    ) -> StopReceipt:
        """Build the receipt for a run that cannot be stopped because it is damaged."""
        return cls(run_id, True, True, damage, False, "damaged", mode, by, reason)


def _when(ms: str) -> datetime | None:
    return None if ms == "0" else datetime.fromtimestamp(int(ms) / 1000, UTC)
