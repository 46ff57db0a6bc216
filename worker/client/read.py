"""The client part that reads runs, once or continuously."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from perdure.flows.core.files import File, FileReference
from perdure.flows.core.outcomes import Turn
from perdure.flows.core.reply_extras import FEEDBACK, public
from perdure.worker.client.connection import ClientConnection
from perdure.worker.client.merged_runs import MergedRuns
from perdure.worker.client.results import RunResults, rests, still
from perdure.worker.client.run_counts import status_counts
from perdure.worker.client.run_list import RunFilter, list_runs
from perdure.worker.domain.event import LAST, Event, is_trimmed
from perdure.worker.domain.record import FORKED, GROUPS, KEEP_EVENTS, Record
from perdure.worker.domain.run import Page, Run, RunStatus, status_of
from perdure.worker.domain.run_query import BY_END, RunQuery
from perdure.worker.domain.turn_texts import unpack_turns
from perdure.worker.errors import ArtifactNotFound, DamagedRun, InvalidInput
from perdure.worker.operations import validation
from perdure.worker.operations.session import not_found
from perdure.worker.store.keys import CHILD_INDEXES, INDEXES
from perdure.worker.store.queries import ALWAYS

if TYPE_CHECKING:
    from perdure.worker.domain.error_groups import ErrorGroups
    from perdure.worker.domain.prompt import PromptOfRound
    from perdure.worker.domain.run_tree import RunTree
    from perdure.worker.domain.stream import StreamItem, StreamReader
    from perdure.worker.domain.transcript import SubmitOptions, Transcript, TranscriptTurn
    from perdure.worker.domain.verdict import Verdict


def read_turns(client: ClientConnection, run_id: str, start: int = 0) -> list[Turn]:
    """Return the stored turns of a run, oldest first.

    Args:
        start: Number of turns to leave out.

    Raises:
        DamagedRun: A turn cannot be read.
    """
    return unpack_turns(run_id, client._store.reads.memory(run_id, start))


#: Seconds of one blocking read for new events, after which the caller's timeout is checked again.
EVENT_BLOCK = 1.0
#: Number of ids per index that are searched for an abbreviated id.
MOST_IDS = 10_000


class RunReads(ClientConnection, RunResults):
    """Methods that change nothing."""

    def get(self, run_id: str) -> Run:
        return Run.of(self._record(run_id))

    def runs(
        self,
        status: RunStatus | str | None = None,
        flow: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        submitted_by: str | None = None,
        look: int | None = None,
        children: bool = False,
        parent: str | None = None,
        thread_id: str | None = None,
        query: str | None = None,
    ) -> Page:
        validation.limit(limit)
        validation.optional_texts(parent=parent, thread_id=thread_id, query=query)
        validation.flag(children, "children")
        validation.optional_texts(flow=flow)
        validation.mapping(labels, "labels", of_texts=True)
        validation.submitter(submitted_by)
        validation.look(look)
        status_filter = validation.status(status)
        asked = RunQuery.of(query) if query else RunQuery()
        now = self._store.time() if asked.terms or asked.sort != "newest" else 0
        wanted = RunFilter(
            status_filter, flow, labels or {}, submitted_by, children, thread_id, asked, now
        )
        if parent is not None:
            if asked.sort != "newest":
                raise InvalidInput("query: sort: is not for the children of one run; leave it out")
            return self._children(parent, wanted, limit, look, cursor)
        place = validation.cursor(cursor)
        return list_runs(
            self._store,
            wanted,
            limit,
            look,
            place,
            cursor,
        )

    def ids_beginning(self, text: str) -> list[str]:
        validation.text(text, "text")
        # Live runs first, since a run that ends while they are read is then found among the ended.
        pairs = list(zip(INDEXES, CHILD_INDEXES, strict=True))
        ids: dict[str, None] = {}
        for has_ended in (False, True):
            names = [name for pair in pairs if (pair[0] in BY_END) is has_ended for name in pair]
            merged = MergedRuns(self._store, dict.fromkeys(names, ALWAYS))
            entries = merged.take(MOST_IDS * len(names))
            ids |= dict.fromkeys(run_id for run_id, _ in entries if run_id.startswith(text))
        return list(ids)

    def status_counts(self, submitted_by: str | None = None) -> dict[str, int]:
        validation.submitter(submitted_by)
        return status_counts(self._store, submitted_by)

    def error_groups(
        self,
        flow: str | None = None,
        *,
        query: str | None = None,
        look: int | None = None,
        submitted_by: str | None = None,
    ) -> ErrorGroups:
        from perdure.worker.client.error_groups import error_groups

        return error_groups(self._store, flow, query, look, submitted_by)

    def wait(self, run_id: str, timeout: float | timedelta | None = None) -> Run:
        return self._run_when(run_id, rests, validation.timeout(timeout))

    def _run_when(
        self, run_id: str, is_awaited: Callable[[Run], bool], timeout: float | None
    ) -> Run:
        patience = None if timeout is None else time.monotonic() + timeout
        last: str | None = None
        while True:
            run = self.get(run_id)
            if is_awaited(run):
                return run
            left = (
                EVENT_BLOCK if patience is None else min(EVENT_BLOCK, patience - time.monotonic())
            )
            if left <= 0:
                raise still(run, timeout or 0.0, self.why(run_id))
            entries = self._store.events.read(run_id, last, block=max(1, round(left * 1000)))
            last = entries[-1][0] if entries else last

    def events(self, run_id: str, after: str | None = None, follow: bool = True) -> Iterator[Event]:
        validation.after(after)
        validation.flag(follow, "follow")
        fields = self._record(run_id).fields
        # The first commit of a run records whether its flow keeps only the newest events.
        is_new = fields.get("step") == "0" or FORKED in fields
        may_be_trimmed = KEEP_EVENTS in fields or (follow and is_new)
        return self._events(run_id, after, follow, may_be_trimmed)

    def latest_events(
        self, run_id: str, limit: int = 100, before: str | None = None
    ) -> list[Event]:
        validation.limit(limit)
        validation.after(before, "before")
        self._record(run_id)
        return [Event.of(*entry) for entry in self._store.events.latest(run_id, limit, before)]

    def _events(
        self, run_id: str, after: str | None, follow: bool, may_be_trimmed: bool
    ) -> Iterator[Event]:
        ended, last = False, after
        while True:
            block = None if ended or not follow else round(EVENT_BLOCK * 1000)
            if may_be_trimmed and last is not None:
                if block is not None:
                    self._store.events.read(run_id, last, block, count=1)
                entries, oldest = self._store.events.read_with_oldest(run_id, last)
            else:
                entries, oldest = self._store.events.read(run_id, last, block), None
            before = last
            for number, (last, entry) in enumerate(entries):
                event = Event.of(last, entry)
                if number == 0 and is_trimmed(before, event, oldest):
                    yield Event.trimmed(event)
                yield event
                ended = event.type in LAST
            if entries:
                continue
            if not follow or ended:
                return
            fields = self._store.reads.fields(run_id)
            ended = fields is None or status_of(fields).ended

    def stream(
        self, run_id: str, after: str | None = None, follow: bool = True
    ) -> Iterator[StreamItem]:
        # Imported here, as for trees and transcripts: a command reads only one of these.
        from perdure.worker.domain.stream import StreamReader

        validation.flag(follow, "follow")
        reader = StreamReader.after(after)
        self._record(run_id)
        return self._stream(run_id, reader, follow)

    def _stream(self, run_id: str, reader: StreamReader, follow: bool) -> Iterator[StreamItem]:
        from perdure.worker.client.event_batches import read_stream

        ended = False
        while True:
            block = None if ended or not follow else round(EVENT_BLOCK * 1000)
            items = read_stream(self, run_id, reader, block)
            for item in items:
                yield item
                ended = item.type in LAST
            if items:
                continue
            if not follow or ended:
                return
            fields = self._store.reads.fields(run_id)
            ended = fields is None or status_of(fields).ended

    def transcript(self, run_id: str) -> Transcript:
        from perdure.worker.domain.transcript import WholeRun

        record = self._record(run_id)
        run = WholeRun(
            **vars(Run.of(record)), options=_options(record), values=public(record.values)
        )
        turns = unpack_turns(run_id, self._store.reads.memory(run_id))[
            : record.turns - record.forgotten
        ]
        return {
            "run": run.to_dict(),
            "history": [_turn(turn) for turn in turns],
            "events": [event.to_dict() for event in self.events(run_id, follow=False)],
        }

    def children(self, run_id: str, limit: int = 50, cursor: str | None = None) -> Page:
        validation.limit(limit)
        return self._children(run_id, RunFilter(), limit, limit, cursor)

    def _children(
        self, run_id: str, wanted: RunFilter, limit: int, look: int | None, cursor: str | None
    ) -> Page:
        """Return a page of a run's matching children, in start order.

        Args:
            look: Number of children to read. None: all remaining children.
        """
        place, last = validation.offset(cursor)
        parent = self._record(run_id).fields
        groups = parent.get(GROUPS, "").split()
        ids = self._store.family.children(run_id, parent.get("nonce", ""), groups)
        if last and ids[place - 1 : place] != [last]:
            # The oldest children are gone with the events of their start, and the others have moved
            # up. If the last one is gone too, so are all before it.
            place = ids.index(last) + 1 if last in ids else 0
        end = len(ids) if look is None else min(len(ids), place + look)
        found: list[Run] = []
        damaged: list[str] = []
        while place < end and len(found) < limit:
            page = ids[place : min(end, place + limit - len(found))]
            place += len(page)
            for child_id, fields in zip(page, self._store.reads.records(page), strict=True):
                try:
                    if fields is not None and wanted.fits(fields):
                        found.append(Run.of(Record(fields)))
                except DamagedRun:
                    damaged.append(child_id)
        more = f"{place}:{ids[place - 1]}" if 0 < place < len(ids) else None
        return Page(found, more, tuple(damaged))

    def tree(self, run_id: str, depth: int = 3, width: int = 10) -> RunTree:
        from perdure.worker.client.tree import TreeReader

        validation.depth(depth)
        validation.width(width)
        return TreeReader(self._store, width).read(self._record(run_id), depth)

    def prompt(self, run_id: str, step: int) -> PromptOfRound:
        validation.step(step)
        # Imported here, because few clients make prompts.
        from perdure.worker.client.prompt import prompt_of_run

        return prompt_of_run(self, run_id, step)

    def artifacts(self, run_id: str) -> dict[str, int]:
        self._record(run_id)
        return self._store.reads.artifacts(run_id)

    def artifact(self, run_id: str, name: str) -> str:
        validation.text(name, "name")
        self._record(run_id)
        text = self._store.reads.artifact(run_id, name)
        if text is None:
            names = ", ".join(self._store.reads.artifacts(run_id))
            raise ArtifactNotFound(
                f"run {run_id} has no artifact {name!r}; "
                f"{f'it has {names}' if names else 'it has none'}"
            )
        return text

    def files(self, run_id: str) -> list[FileReference]:
        self._record(run_id)
        return self._store.reads.files(run_id)

    def file(self, run_id: str, name: str) -> File:
        validation.text(name, "name")
        child, _, own_name = name.rpartition("/")
        if not child:
            self._record(run_id)
        # A fork has copies of the files of child runs that its turns name.
        file = self._store.reads.file(run_id, name)
        if file is None and child:
            self._record(child)
            file = self._store.reads.file(child, own_name)
        if file is None:
            names = ", ".join(each.name for each in self._store.reads.files(child or run_id))
            raise ArtifactNotFound(
                f"run {child or run_id} has no file {own_name!r}; "
                f"{f'it has {names}' if names else 'it has none'}"
            )
        return file

    def why(self, run_id: str) -> Verdict:
        # Imported here, because few clients ask for the reason of a state.
        from perdure.worker.diagnostics.why import verdict_of, while_refused
        from perdure.worker.domain.verdict import VerdictCode
        from perdure.worker.store.lookups import look, write_refusal

        lengths = self._connection.publisher.lengths() if self._store.outbox else None
        standing = look(self._store, run_id, lengths) if validation.is_run_id(run_id) else None
        if standing is None:
            raise not_found(run_id)
        verdict = verdict_of(standing, self.settings)
        # A run that has ended needs no write.
        refusal = None if verdict.code is VerdictCode.ENDED else write_refusal(self._store)
        return verdict if refusal is None else while_refused(verdict, *refusal)


def _turn(turn: Turn) -> TranscriptTurn:
    """Return a turn of a run's history as JSON data.

    A turn is a command and its observation. Data that only the model needs is left out.
    """
    command = turn.command
    data: dict[str, Any] = {"command": None, "observation": turn.observation}
    if command is not None:
        data["command"] = {
            "name": command.name,
            "args": dict(command.args),
            **public(command.extras),
        }
        if FEEDBACK in command.extras:
            data["human_feedback"] = command.extras[FEEDBACK]
    return cast("TranscriptTurn", data)


def _options(record: Record) -> SubmitOptions:
    """Return a run's submit options as JSON data.

    They are its pauses before and after nodes, its limit of cycles and its idempotency key.
    """
    return {
        "interrupt_before": record.json("interrupt_before", []),
        "interrupt_after": record.json("interrupt_after", []),
        "max_rounds": record.max_rounds,
        "idempotency_key": record.fields.get("idem"),
    }
