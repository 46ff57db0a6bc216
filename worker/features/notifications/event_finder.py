"""The search in the run indexes for events that match rules of ``notify``.

No transition of a run writes anything for notifications. The search finds events as entries of the
indexes. So a run without a matching rule costs nothing, and a new rule also applies to runs that
are live already.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping

from perdure.flows.core.json_values import read
from perdure.worker.domain.record import Record
from perdure.worker.domain.run import Run
from perdure.worker.errors import DamagedRun
from perdure.worker.features.notifications.notification import (
    Notification,
    event_of,
    moment,
    notification_of,
)
from perdure.worker.features.notifications.records import (
    DONE_KEPT,
    NotificationRecords,
    RestingRuns,
)
from perdure.worker.features.notifications.rules import NotificationRule
from perdure.worker.store import Store

logger = logging.getLogger("perdure.notify")

#: Milliseconds by which each search overlaps the one before. Scripts write the state server's time,
#: so less would do.
OVERLAP = 2_000
#: Milliseconds that a search goes back if the state server's clock is behind the last search:
#: another server has taken over, or its clock was set.
CLOCK_BACK = 60_000
#: Runs of one page, and pages of one search.
PAGE, MOST_PAGES = 500, 20
#: A search of the runs that wait or are stopped takes at most this part of a CPU, whatever their
#: number.
MOST_OF_CPU = 0.01
#: Indexes in the order of the runs' end, by event.
ENDED = ("completed", "errored")
#: Indexes in the order of the runs' submission. People answer questions of child runs too. The end
#: of a child run concerns only its parent.
WAITING, STOPPED = ("interrupted", "interrupted:children"), ("stopped",)


class EventFinder:
    """Finds events of runs, and stores notifications for matching rules.

    Args:
        records: stores the notifications.
        rules: the rules by name.
        link: returns the URL of a run's page by run id, or None if the dashboard's URL is not
            known.
    """

    def __init__(
        self,
        store: Store,
        records: NotificationRecords,
        rules: Mapping[str, NotificationRule],
        link: Callable[[str], str | None],
    ) -> None:
        self._store = store
        self._records = records
        self._runs = RestingRuns(store)
        self._rules = rules
        self._link = link
        #: Events (run id and time in ms) of the last searches.
        self._seen: dict[tuple[str, int], None] = {}
        #: Time (ms) at which the worker began. None if ``begin`` was not called.
        self._began: int | None = None
        #: When the runs at rest may be searched again (monotonic seconds), the start of the last
        #: search (ms), and the number of stops then.
        self._next_search = 0.0
        self._last_search: int | None = None
        self._stops: int | None = None

    def begin(self) -> None:
        """Record the present time as the time from which a new rule gets events.

        The first search goes back to that time, but by ``CLOCK_BACK`` at most.

        Raises:
            StoreUnavailable: the state server does not answer. A new rule then gets events from the
                time of the first search.
        """
        self._began = self._store.time()

    def look(self) -> int:
        """Find new events, store their notifications, and return the number of notifications.

        Ended runs are searched in each call. Waiting and stopped runs are searched less often if
        there are many, so that this search takes at most ``MOST_OF_CPU`` of a CPU.
        """
        now = self._store.time()
        looked = self._records.looked()
        found = self._look_at_ended(now, looked)
        if time.monotonic() >= self._next_search:
            began = time.thread_time()  # not by the clock: a server that stands still is no work
            found += self._look_at_rest(now, looked)
            took = time.thread_time() - began
            self._next_search = time.monotonic() + took / MOST_OF_CPU
        oldest = min((at for name, at in looked.items() if self._is_mine(name)), default=now)
        self._records.forget_done(oldest - DONE_KEPT)
        self._seen = {event: None for event in self._seen if event[1] >= oldest - CLOCK_BACK}
        return found

    def _is_mine(self, name: str) -> bool:
        return name.partition(":")[0] in self._rules

    def _look_at_ended(self, now: int, looked: Mapping[str, int]) -> int:
        """Find completed and errored runs, and store their notifications.

        One call reads a bounded number of runs. The next call continues.

        Args:
            now: the time of the state server (ms).
            looked: the progress of each rule, as ``NotificationRecords.looked`` returns it.

        Returns:
            The number of new notifications.
        """
        source = "ended"
        indexes = [event for event in ENDED if self._wanting({event})]
        since = self._since(source, self._wanting(set(ENDED)), looked, now)
        if not since:
            return 0
        start, count = min(since.values()), 0
        ends: list[int] = []  # of indexes that are not read to their end
        for index in indexes:
            page_start = start
            for _ in range(MOST_PAGES):
                page = self._runs.ended(index, page_start, PAGE)
                count += self._store_events(page, since, {}, now)
                if len(page) < PAGE:
                    break
                page_start = page[-1][1]
            else:
                ends.append(page_start)
        # The next look goes on where this one ended. Earlier it could read the same again.
        upto = min(ends) + OVERLAP if ends else now
        names = [f"{rule}:{source}" for rule in since]
        self._records.add([], {name: _advanced(looked.get(name), upto, now) for name in names}, now)
        return count

    def _look_at_rest(self, now: int, looked: Mapping[str, int]) -> int:
        """Find runs that began to wait or were stopped, and store their notifications.

        The arguments are those of ``_look_at_ended``.

        Returns:
            The number of new notifications.
        """
        source = "rest"
        since = self._since(source, self._wanting({"waiting", "in_doubt", "stopped"}), looked, now)
        if not since:
            return 0
        start = min(since.values())
        indexes: list[str] = []
        if self._wanting({"waiting", "in_doubt"}):
            indexes += WAITING
        # Stopped runs stay, so they may be many. They are searched only after a stop.
        stops = self._store.fleet.stops() if self._wanting({"stopped", "in_doubt"}) else None
        if stops != self._stops or self._last_search is None:
            indexes += STOPPED if stops is not None else ()
        found = [event for index in indexes for event in self._runs.entered(index, start)]
        # One search may miss a run whose place in the index shifts meanwhile. So the next one
        # begins where this one began.
        upto = self._last_search or 0
        names = {
            name: _advanced(looked.get(name), upto, now)
            for name in (f"{rule}:{source}" for rule in since)
        }
        count = self._store_events(sorted(found, key=_time_of), since, names, now)
        self._stops, self._last_search = stops, now
        return count

    def _wanting(self, events: set[str]) -> list[str]:
        return [name for name, rule in self._rules.items() if rule.events & events]

    def _since(
        self, source: str, rules: list[str], looked: Mapping[str, int], now: int
    ) -> dict[str, int]:
        """Return for each rule the time (ms) from which to search for events.

        For a new rule, it is the time of ``begin``, but at most ``CLOCK_BACK`` ago. If ``begin``
        was not called or has failed, it is now.

        Args:
            source: ``ended`` or ``rest`` (waiting and stopped runs).
            rules: the names of the rules.
            looked: the progress of each rule, as ``NotificationRecords.looked`` returns it.
        """
        new = now if self._began is None else min(now, max(self._began, now - CLOCK_BACK))
        since = {}
        for rule in rules:
            last = looked.get(f"{rule}:{source}")
            if last is None:
                since[rule] = new
            elif last > now + OVERLAP:  # the clock of the server went back
                since[rule] = now - CLOCK_BACK
            else:
                since[rule] = last - OVERLAP
        return since

    def _store_events(
        self,
        events: list[tuple[str, int]],
        since: Mapping[str, int],
        looked: Mapping[str, int],
        now: int,
    ) -> int:
        new = [event for event in events if event not in self._seen]
        found = []
        for start in range(0, len(new), PAGE):
            found += list(self._notifications(new[start : start + PAGE], since, now))
        count = len(self._records.add(found, looked, now)) if found or looked else 0
        self._seen.update(dict.fromkeys(new))
        return count

    def _notifications(
        self, events: list[tuple[str, int]], since: Mapping[str, int], now: int
    ) -> Iterator[Notification]:
        """Yield the notifications of events.

        Only runs with a matching rule are read. A damaged run is logged, and yields nothing. Also a
        run that was deleted or has continued yields nothing.

        Args:
            events: the run id and the time (ms) of each event.
            since: the time (ms) from which each rule gets events, by rule.
        """
        names = ("flow", "labels", "submitted_by")
        facts = self._store.reads.some_fields([run_id for run_id, _ in events], names)
        fitting: dict[str, list[str]] = {}
        for (run_id, at), fields in zip(events, facts, strict=True):
            rules = [
                rule
                for rule, start in since.items()
                if at >= start and _fits(self._rules[rule], fields)
            ]
            if rules:
                fitting[run_id] = rules
        for (run_id, rules), stored in zip(
            fitting.items(), self._store.reads.records(list(fitting)), strict=True
        ):
            try:
                run = Run.of(Record(stored)) if stored else None
                event = event_of(run) if run is not None else None
            except (DamagedRun, KeyError, ValueError) as error:
                logger.error(
                    "run %s: no notification, its record is damaged: %s",
                    run_id,
                    error,
                    extra={"run_id": run_id},
                )
                continue
            if run is None or event is None:
                continue  # it was deleted, or goes on again
            name, wanted_as = event
            for rule in rules:
                if wanted_as & self._rules[rule].events:
                    yield notification_of(rule, name, run, self._link(run_id), moment(now))


def _advanced(last: int | None, upto: int, now: int) -> int:
    """Return the time (ms) to store as a rule's progress after a search.

    The next search begins ``OVERLAP`` before the stored time. For a new rule, the next search must
    not begin before now.

    Args:
        last: the progress (ms) before the search. None for a new rule.
        upto: the time (ms) before which the search has found all events.
    """
    if last is None:
        return now + OVERLAP
    return upto if last > now + OVERLAP else max(last, upto)


def _time_of(event: tuple[str, int]) -> int:
    return event[1]


def _fits(rule: NotificationRule, fields: Mapping[str, str]) -> bool:
    labels = read(fields["labels"]) if rule.labels and "labels" in fields else {}
    return rule.matches(
        fields.get("flow", ""),
        labels if isinstance(labels, dict) else {},
        fields.get("submitted_by"),
    )
