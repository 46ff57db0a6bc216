"""Committing: what a round came to is made real, and the next round is taken in the same write where this worker has a place for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from flows.base import Role
from worker.calls import ENDS, ON_END, Calls
from worker.dispatch import Dispatcher, Draft, Message
from worker.draining import Draining
from worker.fetching import Delivery, Fetching
from worker.ids import new_digits
from worker.processes import process_name
from worker.record import SCHEMA, Record
from worker.staying import next_claim
from worker.store import Fetch, Fetched, Granted, Store, StoreUnavailable
from worker.store.keys import role_of
from worker.transitions import Settlement

T = TypeVar("T")
logger = logging.getLogger("holdfast.rounds")

#: A result is kept and offered for so many seconds while the server is away: longer than a restart or a failover takes.
COMMIT_PATIENCE = 300.0
COMMIT_PAUSE = 0.5
#: And for so many from when its worker was told to leave: whoever ended it waits, usually for 30 seconds.
DRAIN_PATIENCE = 10.0


class Committing:
    """Commits rounds for one worker process.

    Args:
        flows: the names of the flows that the worker plays.
        owner: the worker's name.
        lease: of what is fetched, in ms.
        draining: whether the worker leaves.
        in_flight: how many rounds the process plays.
        fetching: what of its commits fetch; None: nothing.
        calls: who is called at the end of a run; None: that is left to the sweeps.
    """

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        flows: Iterable[str],
        owner: str,
        lease: int,
        draining: Draining,
        in_flight: Callable[[], int],
        fetching: Fetching | None = None,
        calls: Calls | None = None,
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._flows = flows
        self._owner = owner
        self._lease = lease
        self._draining = draining
        self._in_flight = in_flight
        self._fetching = fetching
        self._calls = calls

    def commit(
        self,
        record: Record,
        claim: Granted,
        settlement: Settlement,
        nodes: Mapping[str, Role],
        took: int,
        delivery: Delivery | None,
        beside: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Commit what the round of ``claim`` came to.

        Args:
            nodes: the nodes of the run's flow, each with its role.
            took: ms.
            delivery: takes what the commit fetches; None: it is to fetch nothing.
            beside: further fields to write.

        Returns:
            ``fenced``, ``missing`` or ``damaged``; else what the commit came to (``continued``, ``completed``, ...).

        Raises:
            StoreUnavailable: the server was away for too long.
        """
        options = dict(settlement.options)
        fields = {**settlement.fields, **beside}
        draft: Draft | None = None
        if settlement.message is not None:
            wanted = settlement.message
            who = None if delivery is None else delivery.sender
            draft = self._dispatcher.draft(nodes[wanted.node], record.id, wanted.epoch, wanted.step, who)
            fields |= {"task": draft.task, "queue": draft.queue}
        if settlement.kind == "next":  # with the others, what stands may have to be written again after something took it away
            fields = {name: text for name, text in fields.items() if record.fields.get(name) != text}
        fetch = self._fetch() if delivery is not None and not self._draining.is_on() else None
        if draft is not None and delivery is not None and fetch is not None and settlement.kind == "next" and delivery.stays:
            fetched = self._stay(record, claim, settlement, fields, took, draft, fetch) if draft.queue in fetch.lists else None
            if fetched is not None:
                self._keep(delivery, fetched)
                return "continued"
        if draft is not None:
            message = draft.message
            options["message"] = message.text
        else:
            message = Message(record.fields["message"], record.fields.get("task", ""), record.fields["queue"])
            # The run stayed, and somebody is to push it: at once, or when the retry is due. That may be a worker of an older
            # version, which cannot make the message.
            if settlement.kind in ("give_back", "failed") and not message.text:
                message = self._dispatcher.message(role_of(message.queue), record.id, record.epoch, record.step)
                options["own"] = message.text
        word, detail, fetched = self._patiently(
            record,
            lambda: self._store.commit_and_fetch(
                record.id,
                epoch=record.epoch,
                step=record.step,
                token=claim.token,
                claim=claim.claim,
                kind=settlement.kind,
                fields=fields,
                additions=settlement.additions,
                artifacts=settlement.artifacts,
                idempotency_key=record.fields.get("idem"),
                took=took,
                fetch=fetch,
                **options,
            ),
            is_result=settlement.kind != "give_back",
        )
        if fetched is not None and delivery is not None:
            self._keep(delivery, fetched)
        if word == "fenced":
            logger.warning(
                "run %s, step %d: the result came too late and was refused (%s); the round belongs to another worker, or was stopped",
                record.id,
                record.step,
                settlement.kind,
            )
        elif word != "ok":
            logger.error("run %s, step %d: the commit was refused: %s %s", record.id, record.step, word, detail)
        elif detail in ("continued", "queued"):
            self._dispatcher.hand_over([(message.queue, message.text)])
        elif detail in ENDS and ON_END in record.fields and self._calls is not None:
            self._calls.make(record.id, record.epoch)
        return detail if word == "ok" else word

    def _stay(
        self,
        record: Record,
        claim: Granted,
        settlement: Settlement,
        fields: Mapping[str, str],
        took: int,
        draft: Draft,
        fetch: Fetch,
    ) -> Fetched | None:
        """The run's next round, where it stays; None: it is to be committed like any other."""
        content = draft.read()
        text = "" if content is not None else draft.write()
        stayed = self._patiently(
            record,
            lambda: self._store.commit_and_stay(
                record.id,
                epoch=record.epoch,
                step=record.step,
                token=claim.token,
                claim=claim.claim,
                next_claim=fetch.claim,
                queue=draft.queue,
                message=text,
                fields=fields,
                additions=settlement.additions,
                artifacts=settlement.artifacts,
                took=took,
                data=settlement.options.get("data"),
            ),
        )
        if stayed is None:
            return None
        claimed = next_claim(record, claim, fields, settlement.additions, text, stayed, fetch.claim)
        return Fetched(draft.queue, text, claimed, content)

    def _patiently(self, record: Record, ask: Callable[[], T], is_result: bool = True) -> T:
        """The server's answer, asked for again while it is away."""
        began = time.monotonic()
        what = ""
        while True:
            try:
                answer = ask()
            except StoreUnavailable as error:
                if time.monotonic() > self._patience_ends(began, is_result):
                    self._store.outage.dropped(what)
                    raise
                what = f"run {record.id}, step {record.step}: the result waits to be committed"
                self._store.outage.failed(what, error)
                time.sleep(COMMIT_PAUSE)
            else:
                if what:
                    self._store.outage.passed(what)
                return answer

    def _patience_ends(self, began: float, is_result: bool) -> float:
        leaves = self._draining.since
        if not leaves:
            return began + COMMIT_PATIENCE
        return max(began, leaves) + DRAIN_PATIENCE if is_result else began  # a claim that is not given back lapses by itself

    def _keep(self, delivery: Delivery, fetched: Fetched) -> None:
        if self._fetching is not None:
            self._fetching.keep(delivery, fetched)

    def _fetch(self) -> Fetch | None:
        lists = self._fetching.lists(self._in_flight()) if self._fetching is not None else ()
        return Fetch(lists, new_claim(), self._owner, self._lease, self._flows, SCHEMA) if lists else None


def new_claim() -> str:
    """The id of one claim; by its beginning forfeit_lease.lua knows whose it is."""
    return f"{process_name()}.{new_digits(32)}"
