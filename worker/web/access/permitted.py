"""Permitted: the client's methods, as far as a caller may. Scopes and owners are enforced here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from worker.client import Client, Inbox, Page, arguments
from worker.client.connection import not_found
from worker.client.filters import SavedFilters
from worker.client.many import LIVE, Done
from worker.doctor import Finding
from worker.errors import RunExists
from worker.event import Event
from worker.metrics import exposition
from worker.queues import QueueSeen
from worker.receipt import StopMode, StopReceipt
from worker.run import Run, RunStatus
from worker.verdict import Verdict
from worker.web.access.caller import Caller, Scope

#: Runs looked at for one page: what it costs stays the same, however many there are and however few of them fit; some 70 ms.
LOOK = 500
#: The most that a page may be asked to hold.
MOST = 1000


class Permitted:
    """A client in a caller's hands.

    Raises, from every method beside what Client raises:
        Forbidden: the caller lacks the scope. RunNotFound: the run is another's, as if it were not there.
    """

    def __init__(self, client: Client, caller: Caller) -> None:
        self.client = client
        self.caller = caller

    # read

    def metrics(self, accept: str = "") -> tuple[bytes, str]:
        """What Prometheus is told: figures of everybody's runs together, which name flows and no run; ``accept`` as in worker.metrics."""
        self.caller.require(Scope.READ)
        return exposition(self.client, accept)

    def get(self, run_id: str) -> Run:
        """The run as it is now."""
        self._owned(run_id, Scope.READ)
        return self.client.get(run_id)

    def runs(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Page:
        """A page of their runs; it may hold fewer than ``limit`` and yet have a cursor."""
        self.caller.require(Scope.READ)
        only = self.caller.sees_only
        return self.client.runs(status, flow, limit, cursor, labels=labels, submitted_by=only, look=max(LOOK, limit))

    def status_counts(self) -> dict[str, int]:
        """How many of their runs there are of each status."""
        self.caller.require(Scope.READ)
        return self.client.status_counts(self.caller.sees_only)

    def live(self, status: RunStatus | str | None = None, flow: str | None = None) -> list[str]:
        """The ids of their live runs of this status and flow: those that stopping them all would reach."""
        self.caller.require(Scope.READ)
        wanted = arguments.status(status)
        only = self.caller.sees_only
        return [run_id for each in LIVE if wanted in (None, each) for run_id in self.client.matching(each, flow, submitted_by=only)]

    def events(self, run_id: str, after: str | None = None) -> Iterator[Event]:
        """What happened to the run until now."""
        self._owned(run_id, Scope.READ)
        return self.client.events(run_id, after, follow=False)

    def latest_events(self, run_id: str, limit: int = 100, before: str | None = None) -> list[Event]:
        """What happened to the run last."""
        self._owned(run_id, Scope.READ)
        return self.client.latest_events(run_id, limit, before)

    def transcript(self, run_id: str) -> dict[str, Any]:
        """The whole run."""
        self._owned(run_id, Scope.READ)
        return self.client.transcript(run_id)

    def artifacts(self, run_id: str) -> dict[str, int]:
        """What the run keeps whole beside its history."""
        self._owned(run_id, Scope.READ)
        return self.client.artifacts(run_id)

    def artifact(self, run_id: str, name: str) -> str:
        """One of them."""
        self._owned(run_id, Scope.READ)
        return self.client.artifact(run_id, name)

    def why(self, run_id: str) -> Verdict:
        """Why the run is where it is."""
        self._owned(run_id, Scope.READ)
        return self.client.why(run_id)

    def inbox(self, limit: int = 50, cursor: str | None = None) -> Inbox:
        """What waits for a person."""
        self.caller.require(Scope.READ)
        return self.client.inbox(limit, cursor, self.caller.sees_only)

    def stuck(self, limit: int = 50) -> list[Verdict]:
        """Why runs stand still that nobody waits for on purpose."""
        self.caller.require(Scope.READ)
        return self.client.stuck(limit, self.caller.sees_only)

    def queues(self) -> list[QueueSeen]:
        """The broker's queues."""
        self.caller.require(Scope.READ)
        return self.client.queues()

    def dead_letters(self, limit: int = 20) -> list[dict[str, Any]]:
        """The newest messages that workers refused; they may be anybody's."""
        self.caller.require(Scope.ADMIN)
        return self.client.dead_letters(limit)

    def workers(self) -> list[dict[str, Any]]:
        """The workers that announced themselves lately."""
        self.caller.require(Scope.READ)
        return self.client.workers()

    def flows(self) -> dict[str, dict[str, Any]]:
        """The flows that this server or a live worker knows."""
        self.caller.require(Scope.READ)
        return self.client.flows()

    def paused_flows(self) -> dict[str, dict[str, Any]]:
        """The paused flows."""
        self.caller.require(Scope.READ)
        return self.client.paused_flows()

    def saved_filters(self) -> dict[str, str]:
        """The views of the table of runs that the caller has named."""
        self.caller.require(Scope.READ)
        return SavedFilters(self.client, self.caller.name).all()

    def save_filter(self, name: str, query: str) -> None:
        """Name one."""
        self.caller.require(Scope.READ)
        SavedFilters(self.client, self.caller.name).save(name, query)

    def forget_filter(self, name: str) -> None:
        """Forget one."""
        self.caller.require(Scope.READ)
        SavedFilters(self.client, self.caller.name).forget(name)

    # submit

    def submit(self, flow: str, goal: str, inputs: Mapping[str, Any] | None = None, **options: Any) -> Run:
        """Hand over a goal. It is the caller's, and so is the idempotency key: under it nobody meets another's run."""
        self.caller.require(Scope.SUBMIT)
        if options.get("idempotency_key"):
            options["idempotency_key"] = f"{self.caller.name}/{options['idempotency_key']}"
        run = self.client.submit(flow, goal, inputs, **options, submitted_by=self.caller.name)
        if run.details.get("submitted_by") != self.caller.name:
            # It met a run that was there: with its id and its nonce, which somebody made too simple, it would be shown another's.
            raise RunExists(f"run {run.id} exists already, from another submission; choose another id")
        return run

    def retry(self, run_id: str) -> Run:
        """Take an errored run up again."""
        self._owned(run_id, Scope.SUBMIT)
        return self.client.retry(run_id)

    def retry_many(self, flow: str | None = None) -> list[Done]:
        """Take all errored runs (of a flow) up again."""
        self.caller.require(Scope.SUBMIT)
        return self.client.retry_many(flow, self.caller.sees_only)

    # answer

    def resume(self, run_id: str, answer: Any = None, add: Mapping[str, float] | None = None, interrupt: str | None = None) -> Run:
        """Go on with an interrupted run, giving the answer, or with a stopped one, in the caller's name."""
        self._owned(run_id, Scope.ANSWER)
        return self.client.resume(run_id, answer, add, interrupt, self.caller.name)

    # stop

    def request_stop(self, run_id: str, mode: StopMode = "graceful", reason: str | None = None) -> StopReceipt:
        """Stop a run, in the caller's name."""
        self._owned(run_id, Scope.STOP)
        return self.client.request_stop(run_id, mode, reason, self.caller.name)

    def request_stop_many(
        self, flow: str | None = None, status: RunStatus | str | None = None, mode: StopMode = "graceful", reason: str | None = None
    ) -> list[StopReceipt]:
        """Stop all live runs of a flow, a status, or both."""
        self.caller.require(Scope.STOP)
        return self.client.request_stop_many(flow, status, mode, reason, self.caller.name, self.caller.sees_only)

    # admin

    def delete(self, run_id: str) -> None:
        """Remove a run that has ended."""
        self.caller.require(Scope.ADMIN)
        self.client.delete(run_id)

    def delete_many(self, status: RunStatus | str, flow: str | None = None, older_than: timedelta | None = None) -> list[Done]:
        """Remove all runs of an ended status."""
        self.caller.require(Scope.ADMIN)
        return self.client.delete_many(status, flow, older_than)

    def pause_flow(self, flow: str, reason: str | None = None) -> bool:
        """Pause a flow, in the caller's name."""
        self.caller.require(Scope.ADMIN)
        return self.client.pause_flow(flow, reason, self.caller.name)

    def unpause_flow(self, flow: str) -> int:
        """Let a paused flow go on."""
        self.caller.require(Scope.ADMIN)
        return self.client.unpause_flow(flow)

    def doctor(self) -> list[Finding]:
        """What voids or endangers the promises."""
        self.caller.require(Scope.ADMIN)
        return self.client.doctor()

    def _owned(self, run_id: str, scope: Scope) -> None:
        """Refuse what the caller may not, and what is another's as if it were not there; the run need not read for that."""
        self.caller.require(scope)
        if self.caller.sees_only not in (None, self.client._submitter(run_id)):
            raise not_found(run_id)
