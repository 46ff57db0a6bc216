"""The notifier: the threads of a worker that find events and deliver notifications.

A worker has a notifier only if its settings have rules (``notify``). Only one worker at a time
finds events and delivers notifications. If this worker dies, another worker takes over after
``HOLD_MS``.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta

from perdure.worker.features.feature import Process
from perdure.worker.features.notifications.event_finder import EventFinder
from perdure.worker.features.notifications.notification import NotDelivered, Notification, moment
from perdure.worker.features.notifications.records import NotificationRecords
from perdure.worker.features.notifications.rules import NotificationRule
from perdure.worker.features.notifications.senders import NotificationSender
from perdure.worker.fork_gate import ForkGate
from perdure.worker.store import Store, StoreUnavailable

logger = logging.getLogger("perdure.notify")

#: Seconds between two searches for events.
LOOK_SECONDS = 1.0
#: Milliseconds without a renewal by the delivering worker after which another one takes over.
HOLD_MS = 10_000
#: Threads of one rule, so that a slow receiver does not delay the other rules.
PARALLEL = 8
#: Notifications of a rule that are read at once.
BATCH = 200
#: Seconds before the second attempt. The wait doubles with each attempt, up to the maximum.
RETRY_SECONDS, LONGEST_RETRY = 5.0, 3600.0
#: Seconds for which a rule rests after its receiver failed. They double with each failure. Then one
#: notification is tried before the others.
REST_SECONDS, LONGEST_REST = 1.0, 30.0
#: Seconds that deliveries in flight may take when the worker stops.
STOP_SECONDS = 3.0
#: Log text for an outage of the state server.
NOT_NOTIFIED = "could not look for events to notify of"

Send = Callable[[NotificationRule, Notification], None]


class Lane:
    """The delivery of one rule's notifications in this worker, with its own threads.

    Args:
        name: the name of the rule.
        send: sends one notification, or raises NotDelivered.
        wake: wakes the notifier. Called when a thread has no more notifications to deliver.
    """

    def __init__(
        self,
        name: str,
        rule: NotificationRule,
        store: Store,
        records: NotificationRecords,
        send: Send,
        wake: Callable[[], None],
    ) -> None:
        self._name, self._rule = name, rule
        self._store, self._records = store, records
        self._send, self._wake = send, wake
        self._lock = threading.Lock()
        self._ready: deque[str] = deque()
        self._taken: set[str] = set()
        self._threads: set[threading.Thread] = set()
        self._failures = 0
        self._rests_until = 0.0

    def fill(self, now: int) -> None:
        """Begin to deliver the notifications that are due, in up to ``PARALLEL`` threads.

        Nothing happens while deliveries of an earlier call have not begun, or while the rule rests
        because its receiver failed. After a failure, one notification at a time is sent, until the
        receiver accepts one.

        Args:
            now: the time of the state server (ms).
        """
        with self._lock:
            if self._ready or time.monotonic() < self._rests_until:
                return
            taken = set(self._taken)
        if self._failures and taken:
            return  # one at a time, until the receiver accepts one
        due = self._records.due(self._name, now, BATCH + len(taken))
        with self._lock:
            fresh = [each for each in due if each not in self._taken]
            if self._failures:
                del fresh[1:]
            self._ready.extend(fresh)
            self._taken.update(fresh)
            more = min(PARALLEL - len(self._threads), len(self._ready))
            threads = [
                threading.Thread(target=self._deliver_all, name="perdure-notify", daemon=True)
                for _ in range(more)
            ]
            self._threads.update(threads)
        for thread in threads:
            thread.start()

    def clear(self) -> None:
        """Forget notifications whose delivery has not begun. Another worker can deliver them."""
        with self._lock:
            self._taken.difference_update(self._ready)
            self._ready.clear()

    def wait(self, end: float) -> None:
        """Wait until the deliveries in flight are done, or until ``end`` (monotonic seconds)."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _deliver_all(self) -> None:
        while True:
            with self._lock:
                if not self._ready:
                    self._threads.discard(threading.current_thread())
                    break
                notification_id = self._ready.popleft()
            try:
                self._deliver(notification_id)
            except StoreUnavailable as error:
                # A delivered notification is delivered again, under the same id.
                logger.warning(
                    "notification %s: its record was not written: %s", notification_id, error
                )
            except Exception:
                logger.exception("notification %s: it is tried again", notification_id)
                self._rest()
            finally:
                with self._lock:
                    self._taken.discard(notification_id)
        self._wake()

    def _deliver(self, notification_id: str) -> None:
        [notification] = self._records.get([notification_id])
        if notification is None:
            self._records.drop(self._name, notification_id)
            return
        if notification.attempts and self._is_early(notification):
            return  # it has just failed in another thread
        try:
            self._send(self._rule, notification)
        except NotDelivered as error:
            self._failed(notification, error)
        else:
            self._failures = 0
            self._records.delivered(notification, self._store.time())

    def _is_early(self, notification: Notification) -> bool:
        due = notification.due_at
        return due is not None and due > moment(self._store.time())

    def _failed(self, notification: Notification, error: NotDelivered) -> None:
        if error.concerns_receiver:
            self._rest(error.after or 0.0)
        now = self._store.time()
        wait = max(retry_wait(notification.attempts), error.after or 0.0)
        due = now + round(wait * 1000)
        ends = notification.created_at + timedelta(seconds=self._rule.patience)
        failed = notification.failed(str(error), moment(due))
        if error.is_final or moment(due) > ends:
            self._records.give_up(failed, now)
            logger.error(
                "notification %s of the rule %s is dead after %d attempts: %s. To send it again: "
                "perdure notifications send %s",
                failed.id,
                self._name,
                failed.attempts,
                error,
                failed.id,
                extra={"run_id": failed.run_id},
            )
            return
        self._records.postpone(failed, due)
        logger.warning(
            "notification %s of the rule %s was not delivered, the next attempt is in %.0f s: %s",
            failed.id,
            self._name,
            wait,
            error,
            extra={"run_id": failed.run_id},
        )

    def _rest(self, least: float = 0.0) -> None:
        with self._lock:
            now = time.monotonic()
            if now >= self._rests_until:  # Deliveries that fail together count once.
                rest = min(LONGEST_REST, REST_SECONDS * 2.0 ** min(self._failures, 10))
                self._failures += 1
                self._rests_until = now + rest
            self._rests_until = max(self._rests_until, now + least)
            self._taken.difference_update(self._ready)
            self._ready.clear()


def retry_wait(attempts: int) -> float:
    """Return the wait before the next attempt in seconds, with jitter.

    Args:
        attempts: the number of failed attempts before the attempt that has just failed.
    """
    wait = min(LONGEST_RETRY, RETRY_SECONDS * 2.0 ** min(attempts, 20))
    return wait * (0.9 + 0.2 * random.random())


class Notifier:
    """Finds events and delivers notifications, in threads of one worker.

    Args:
        rules: the rules by name.
        worker: name of the worker.
        send: sends one notification, or raises NotDelivered.
        link: returns the URL of a run's page by run id, or None if the dashboard's URL is not
            known.
    """

    def __init__(
        self,
        store: Store,
        rules: Mapping[str, NotificationRule],
        worker: str,
        send: Send,
        link: Callable[[str], str | None],
    ) -> None:
        self._store = store
        self._records = NotificationRecords(store)
        self._worker = worker
        self._finder = EventFinder(store, self._records, rules, link)
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._gate = ForkGate()
        self._lanes = [
            Lane(name, rule, store, self._records, send, self._woken.set)
            for name, rule in rules.items()
        ]
        self._thread = threading.Thread(target=self._run, name="perdure-notifier", daemon=True)

    def start(self) -> None:
        """Start the thread. A new rule gets the events from now on.

        If the state server does not answer now, a new rule gets the events from the time of the
        first search.
        """
        try:
            self._finder.begin()
        except StoreUnavailable as error:
            self._store.outage.failed(NOT_NOTIFIED, error)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and let another worker take over.

        This waits ``STOP_SECONDS`` for deliveries in flight. The other worker repeats deliveries
        that take longer.
        """
        self._stopping.set()
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=STOP_SECONDS + 1)

    def _run(self) -> None:
        next_look = 0.0
        while not self._stopping.is_set():
            self._woken.clear()
            with self._gate:
                if self._look(time.monotonic() >= next_look):
                    next_look = time.monotonic() + LOOK_SECONDS
            self._woken.wait(LOOK_SECONDS)
        for lane in self._lanes:
            lane.clear()
        end = time.monotonic() + STOP_SECONDS
        for lane in self._lanes:
            lane.wait(end)
        try:
            self._records.let_go(self._worker)
        except StoreUnavailable as error:
            logger.warning("another worker goes on with notifications later: %s", error)

    def _look(self, is_due: bool) -> bool:
        """Deliver due notifications, if this worker holds the right to deliver.

        An error is logged and not raised: the next call tries again.

        Args:
            is_due: whether to search for events first.

        Returns:
            Whether a search for events was done without an error.
        """
        looked = False
        try:
            if self._records.hold(self._worker, HOLD_MS):
                if is_due:
                    self._finder.look()
                    looked = True
                now = self._store.time()
                for lane in self._lanes:
                    lane.fill(now)
            else:
                for lane in self._lanes:
                    lane.clear()
            self._store.outage.passed(NOT_NOTIFIED)
        except StoreUnavailable as error:
            self._store.outage.failed(NOT_NOTIFIED, error)
        except Exception:
            logger.exception("the look for events failed, trying again")
        return looked


def notifier_of(process: Process) -> Notifier:
    """Return the notifier of a worker, with the rules of the worker's settings."""
    settings = process.settings
    sender = NotificationSender(
        process.app, process.store, process.owns_app, settings.private_webhooks
    )
    pages = settings.public_url

    def link(run_id: str) -> str | None:
        return None if pages is None else f"{pages.rstrip('/')}/runs/{run_id}"

    return Notifier(process.store, settings.notify, process.name, sender.send, link)
