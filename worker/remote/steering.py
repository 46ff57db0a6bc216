"""Steering: stop, resume, retry and delete one run. None of it is sent again once it may have been received: the caller looks first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.client import arguments
from worker.errors import RunNotFound
from worker.receipt import StopMode, StopReceipt
from worker.remote.connection import Connected, path_of
from worker.remote.refusing import not_here
from worker.run import Run


class Steering(Connected):
    """Moves runs."""

    def request_stop(
        self, run_id: str, mode: StopMode = "graceful", reason: str | None = None, requested_by: str | None = None
    ) -> StopReceipt:
        """Stop a run, in the name of the token's owner. One that has ended, or does not exist for them, is no error."""
        not_here(requested_by=requested_by)
        arguments.mode(mode)
        arguments.notes(reason=reason)
        try:
            return StopReceipt.from_dict(self._tell("POST", path_of(run_id, "stop"), {"mode": mode, "reason": reason}))
        except RunNotFound:
            return StopReceipt.of(run_id, ["missing"], mode, None, reason)

    def resume(
        self,
        run_id: str,
        answer: Any = None,
        add: Mapping[str, float] | None = None,
        interrupt: str | None = None,
        by: str | None = None,
    ) -> Run:
        """Go on with an interrupted run, giving the answer, or with a stopped one, in the name of the token's owner.

        After StoreUnavailable, send the answer again with ``interrupt``: it can then answer nothing else.
        """
        not_here(by=by)
        arguments.optional_texts(interrupt=interrupt)
        body = {"answer": answer, "add": arguments.budgets(add, "add") or None, "interrupt": interrupt}
        return Run.from_dict(self._tell("POST", path_of(run_id, "resume"), body))

    def retry(self, run_id: str) -> Run:
        """Take an errored run up again at the failed step; raises InvalidTransition where it is not errored, Stale, RunNotFound."""
        return Run.from_dict(self._tell("POST", path_of(run_id, "retry")))

    def delete(self, run_id: str) -> None:
        """Remove a run that has ended, or is too damaged to go on; raises InvalidTransition, RunNotFound."""
        self._tell("DELETE", path_of(run_id))
