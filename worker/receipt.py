"""StopReceipt: what became of a request to stop a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal

StopMode = Literal["graceful", "now"]


@dataclass(frozen=True)
class StopReceipt:
    """The answer to a stop request, the same however often the request is repeated.

    Attributes:
        run_id: the run it was about.
        known: whether there is such a run.
        running: whether it was live when the request came in.
        why_not: ``no-state`` (no such run), ``not-running`` (it had ended or was stopped before), else None.
        stopped: whether the run is stopped now. False after ``graceful`` while a round is in flight: it may still
            finish, and no other is claimed.
        status: the run's phase as the request left it.
        mode, requested_by, reason: of the request.
        asked_at, seen_at, stopped_at: when it was asked for, seen by the worker, done; None for not yet.
        step: the number of committed rounds.
        in_doubt: ``step/node/attempt`` of the round that was in flight and fenced: nobody can vouch for its effects.
    """

    run_id: str
    known: bool
    running: bool
    why_not: str | None
    stopped: bool
    status: str | None
    mode: StopMode
    requested_by: str | None = None
    reason: str | None = None
    asked_at: datetime | None = None
    seen_at: datetime | None = None
    stopped_at: datetime | None = None
    step: int | None = None
    in_doubt: str | None = None

    @classmethod
    def of(cls, run_id: str, words: Sequence[str], mode: StopMode, by: str | None, reason: str | None) -> StopReceipt:
        """The receipt that the words of request_stop.lua make."""
        if words[0] == "missing":
            return cls(run_id, False, False, "no-state", False, None, mode, by, reason)
        word, phase, asked, seen, stopped, step, doubt = words
        live = word != "finished"
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
            asked_at=_when(asked),
            seen_at=_when(seen),
            stopped_at=_when(stopped),
            step=int(step),
            in_doubt=None if doubt == "-" else doubt,
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StopReceipt:
        """The receipt that ``to_dict`` told of; raises KeyError, ValueError where something is missing or cannot be."""
        known = {each.name: data[each.name] for each in fields(cls)}
        times = {name: known[name] and datetime.fromisoformat(known[name]) for name in ("asked_at", "seen_at", "stopped_at")}
        return cls(**{**known, **times})

    def to_dict(self) -> dict[str, Any]:
        """The receipt as JSON data."""
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(self).items()}


def _when(ms: str) -> datetime | None:
    return None if ms == "0" else datetime.fromtimestamp(int(ms) / 1000, UTC)
