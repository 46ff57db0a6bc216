"""AsyncClient: the methods of Client, awaited. Waiting costs no thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from flows.retries import Retry
from worker.client import Client, Inbox, Page, arguments
from worker.client.many import Done
from worker.event import LAST, Event
from worker.queues import QueueSeen
from worker.receipt import StopMode, StopReceipt
from worker.run import Run, RunStatus
from worker.settings import Settings
from worker.submission import When
from worker.verdict import Verdict

if TYPE_CHECKING:
    from celery import Celery

    from worker.doctor import Finding

P = ParamSpec("P")
T = TypeVar("T")
#: Seconds between two looks at a run that is waited for: short at first, then longer.
FIRST_LOOK, LAST_LOOK = 0.02, 0.5


class AsyncClient:
    """A client of the runs on one server, for programs with an event loop; see Client for what each method does and raises."""

    def __init__(self, url: str | None = None, settings: Settings | None = None, app: Celery | None = None) -> None:
        self._client = Client(url, settings, app)
        self.settings = self._client.settings

    async def submit(
        self,
        flow: str,
        goal: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        interrupt_before: Sequence[str] | None = None,
        interrupt_after: Sequence[str] | None = None,
        max_rounds: int | None = None,
        not_before: When | None = None,
        deadline: When | None = None,
        thread_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        budgets: Mapping[str, float] | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        submitted_by: str | None = None,
        on_end: Mapping[str, Any] | str | None = None,
        nonce: str | None = None,
    ) -> Run:
        """Hand over a goal; once this returns, the run is not lost."""
        return await _threaded(
            self._client.submit,
            flow,
            goal,
            inputs,
            run_id=run_id,
            idempotency_key=idempotency_key,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            max_rounds=max_rounds,
            not_before=not_before,
            deadline=deadline,
            thread_id=thread_id,
            labels=labels,
            budgets=budgets,
            retry=retry,
            submitted_by=submitted_by,
            on_end=on_end,
            nonce=nonce,
        )

    async def get(self, run_id: str) -> Run:
        """The run as it is now."""
        return await _threaded(self._client.get, run_id)

    async def runs(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        submitted_by: str | None = None,
        look: int | None = None,
    ) -> Page:
        """Runs, newest first, some at a time."""
        return await _threaded(self._client.runs, status, flow, limit, cursor, labels=labels, submitted_by=submitted_by, look=look)

    async def ids_beginning(self, text: str) -> list[str]:
        """The ids that begin with ``text``, of the newest 10,000 runs of each index."""
        return await _threaded(self._client.ids_beginning, text)

    async def status_counts(self, submitted_by: str | None = None) -> dict[str, int]:
        """How many runs there are of each status; of one submitter, among their newest 1,000."""
        return await _threaded(self._client.status_counts, submitted_by)

    async def request_stop(
        self, run_id: str, mode: StopMode = "graceful", reason: str | None = None, requested_by: str | None = None
    ) -> StopReceipt:
        """Stop a run."""
        return await _threaded(self._client.request_stop, run_id, mode, reason, requested_by)

    async def resume(
        self,
        run_id: str,
        answer: Any = None,
        add: Mapping[str, float] | None = None,
        interrupt: str | None = None,
        by: str | None = None,
    ) -> Run:
        """Go on with an interrupted run, giving the answer, or with a stopped one; ``add`` raises its budgets."""
        return await _threaded(self._client.resume, run_id, answer, add, interrupt, by)

    async def retry(self, run_id: str) -> Run:
        """Take an errored run up again at the failed step."""
        return await _threaded(self._client.retry, run_id)

    async def delete(self, run_id: str) -> None:
        """Remove a run that has ended."""
        await _threaded(self._client.delete, run_id)

    async def matching(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        older_than: timedelta | None = None,
        now: datetime | None = None,
        submitted_by: str | None = None,
    ) -> list[str]:
        """The ids of the runs of this status and flow."""
        return await _threaded(self._client.matching, status, flow, older_than, now, submitted_by)

    async def request_stop_many(
        self,
        flow: str | None = None,
        status: RunStatus | str | None = None,
        mode: StopMode = "graceful",
        reason: str | None = None,
        requested_by: str | None = None,
        submitted_by: str | None = None,
    ) -> list[StopReceipt]:
        """Stop all live runs of a flow, a status, or both."""
        return await _threaded(self._client.request_stop_many, flow, status, mode, reason, requested_by, submitted_by)

    async def retry_many(self, flow: str | None = None, submitted_by: str | None = None) -> list[Done]:
        """Take all errored runs (of a flow) up again."""
        return await _threaded(self._client.retry_many, flow, submitted_by)

    async def delete_many(
        self, status: RunStatus | str, flow: str | None = None, older_than: timedelta | None = None, submitted_by: str | None = None
    ) -> list[Done]:
        """Remove all runs of an ended status."""
        return await _threaded(self._client.delete_many, status, flow, older_than, submitted_by)

    async def pause_flow(self, flow: str, reason: str | None = None, requested_by: str | None = None) -> bool:
        """Pause a flow: no round of its runs is claimed any more."""
        return await _threaded(self._client.pause_flow, flow, reason, requested_by)

    async def unpause_flow(self, flow: str) -> int:
        """Let a paused flow go on."""
        return await _threaded(self._client.unpause_flow, flow)

    async def paused_flows(self) -> dict[str, dict[str, Any]]:
        """The paused flows."""
        return await _threaded(self._client.paused_flows)

    async def wait(self, run_id: str, timeout: float | timedelta | None = None) -> Run:  # noqa: ASYNC109  the same signature as Client.wait
        """The run once it has ended or is interrupted; raises TimeoutError, RunNotFound."""
        timeout = arguments.timeout(timeout)
        patience = None if timeout is None else time.monotonic() + timeout
        pause = FIRST_LOOK
        while True:
            run = await self.get(run_id)
            if run.status.ended or run.status is RunStatus.INTERRUPTED:
                return run
            if patience is not None and time.monotonic() >= patience:
                raise TimeoutError(f"run {run_id} is still {run.status.value} at step {run.state.step} after {timeout:g} s; it goes on")
            await asyncio.sleep(pause if patience is None else max(0.0, min(pause, patience - time.monotonic())))
            pause = min(pause * 1.5, LAST_LOOK)

    async def events(self, run_id: str, after: str | None = None, follow: bool = True) -> AsyncIterator[Event]:
        """What happened to the run, oldest first; with ``follow`` until the run has ended."""
        arguments.after(after)
        arguments.flag(follow, "follow")
        pause = FIRST_LOOK
        ended = False
        while True:
            finished = ended or (await self.get(run_id)).status.ended
            batch = await _threaded(lambda since: list(self._client.events(run_id, since, follow=False)), after)
            for event in batch:
                after, ended = event.id, event.type in LAST
                yield event
            if not follow or (finished and not batch):
                return
            pause = FIRST_LOOK if batch else min(pause * 1.5, LAST_LOOK)
            await asyncio.sleep(pause)

    async def latest_events(self, run_id: str, limit: int = 100, before: str | None = None) -> list[Event]:
        """What happened to the run last (before the event ``before``), oldest first."""
        return await _threaded(self._client.latest_events, run_id, limit, before)

    async def inbox(self, limit: int = 50, cursor: str | None = None, submitted_by: str | None = None) -> Inbox:
        """The runs that wait for a person, those that have waited longest first."""
        return await _threaded(self._client.inbox, limit, cursor, submitted_by)

    async def stuck(self, limit: int = 50, submitted_by: str | None = None) -> list[Verdict]:
        """Why runs stand still that nobody waits for on purpose."""
        return await _threaded(self._client.stuck, limit, submitted_by)

    async def queues(self) -> list[QueueSeen]:
        """The broker's queues."""
        return await _threaded(self._client.queues)

    async def dead_letters(self, limit: int = 20) -> list[dict[str, Any]]:
        """The newest messages that workers refused."""
        return await _threaded(self._client.dead_letters, limit)

    async def transcript(self, run_id: str) -> dict[str, Any]:
        """The whole run as JSON data: the run, its history and its events."""
        return await _threaded(self._client.transcript, run_id)

    async def artifacts(self, run_id: str) -> dict[str, int]:
        """What the run keeps whole beside its history: names and sizes in bytes."""
        return await _threaded(self._client.artifacts, run_id)

    async def artifact(self, run_id: str, name: str) -> str:
        """One of them."""
        return await _threaded(self._client.artifact, run_id, name)

    async def workers(self) -> list[dict[str, Any]]:
        """The workers that announced themselves lately."""
        return await _threaded(self._client.workers)

    async def flows(self) -> dict[str, dict[str, Any]]:
        """The flows that this client or a live worker knows."""
        return await _threaded(self._client.flows)

    async def why(self, run_id: str) -> Verdict:
        """Why the run is where it is."""
        return await _threaded(self._client.why, run_id)

    async def doctor(self) -> list[Finding]:
        """What voids or endangers the promises."""
        return await _threaded(self._client.doctor)

    async def close(self) -> None:
        """Close the connections."""
        await _threaded(self._client.close)


async def _threaded(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The call in a thread: each takes one short exchange with the server."""
    return await asyncio.to_thread(call, *args, **kwargs)
