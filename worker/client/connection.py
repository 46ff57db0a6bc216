"""Connected: what every part of the client stands on."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from worker.client import arguments
from worker.config_files import find_flows
from worker.discovery import with_server
from worker.errors import DamagedRun, RunNotFound
from worker.record import Record
from worker.settings import Settings, current
from worker.store import Replication, Store, StoreUnavailable
from worker.store.address import LOCALHOST, check_url
from worker.store.connection import RESENDS
from worker.task_names import TASKS

if TYPE_CHECKING:
    from celery import Celery

    from worker.engine import Engine


#: Seconds until a server that keeps runs is asked again whether it does.
DURABILITY_SECONDS = 60.0


class Connected:
    """The settings, the store, and the engine: made when a message is, as importing Celery takes longer than most of what is asked."""

    def __init__(self, url: str | None = None, settings: Settings | None = None, app: Celery | None = None, resends: int = RESENDS) -> None:
        arguments.settings(settings)
        arguments.app(app, url, settings)
        self._app = app
        self._durable_until = 0.0
        self.settings = _settings_of(url, settings or current())
        if app is None:
            self.settings = with_server(self.settings)
        if app is not None or self.settings.broker_url not in (None, self.settings.redis_url):
            self.settings, self._store = self._engine.settings, self._engine.store
            return
        place = self.settings.redis_url or LOCALHOST
        check_url(place)
        replication = Replication(self.settings.wait_replicas, self.settings.wait_timeout_seconds)
        self._store = Store(place, self.settings.prefix, replication=replication, resends=resends)

    @cached_property
    def _engine(self) -> Engine:
        from worker.app import engine_of, make_app

        engine = engine_of(self._app or make_app(self.settings))
        if hasattr(self, "_store"):
            engine.store = self._store
        return engine

    def _find_flows(self) -> None:
        """Find the flows of this process; on an app of one's own, also those that it brings."""
        if self._app is None:
            find_flows(self.settings)
        else:
            self._engine.find_flows()

    def _check_durability(self) -> None:
        """Raise UnsafeServer where the server would lose runs; it is asked once in ``DURABILITY_SECONDS``."""
        from worker.doctor.durability import check_durability

        if time.monotonic() >= self._durable_until:
            try:
                check_durability(self._store.url, self.settings)
            except StoreUnavailable:
                return  # what is asked for next waits for the server as ever, and says so
            self._durable_until = time.monotonic() + DURABILITY_SECONDS

    def close(self) -> None:
        """Close the connections."""
        if "_engine" in vars(self):
            self._engine.close()
        else:
            self._store.close()

    def _record(self, run_id: str) -> Record:
        fields = self._store.fields(run_id) if arguments.is_run_id(run_id) else None
        if fields is None:
            raise not_found(run_id)
        return Record(fields)

    def _submitter(self, run_id: str) -> str | None:
        """Whose run it is, also of one that does not read; None where nobody is named, or there is no such run."""
        return self._store.some_fields([run_id], ["submitted_by"])[0].get("submitted_by") if arguments.is_run_id(run_id) else None

    def _message(self, record: Record, epochs: int) -> str:
        task, queue = record.fields.get("task", ""), record.fields.get("queue", "")
        if task not in TASKS.values():
            raise DamagedRun(f"run {record.id}: its task is {task!r}, expected one of {', '.join(TASKS.values())}")
        return self._engine.dispatcher.message_for(task, queue, record.id, record.epoch + epochs, record.step).text

    def _hand_over(self, record: Record, words: Sequence[str], message: str) -> None:
        """What the store answered ``words`` to is with the broker now, where it queued the run."""
        if words[0] == "queued":
            self._engine.dispatcher.hand_over([(record.fields["queue"], message)])


def _settings_of(url: str | None, settings: Settings) -> Settings:
    """``url`` takes the place of ``redis_url``, and of the broker where that is the same."""
    if url is None:
        return settings
    check_url(url)
    broker = None if settings.broker_url == settings.redis_url else settings.broker_url
    return settings.model_copy(update={"redis_url": url, "broker_url": broker})


def operation() -> str:
    """A new operation id: the scripts do each operation once, however often the connection makes us send it."""
    return uuid.uuid4().hex


def not_found(run_id: str) -> RunNotFound:
    """The error for a run that is not there."""
    return RunNotFound(f"no run has the id {run_id!r}; holdfast list shows those there are")


def damaged(run_id: str, words: Sequence[str]) -> DamagedRun:
    """The error for a transition's answer that no caller expects; raises RunNotFound where the run is gone."""
    if words[0] == "missing":
        raise not_found(run_id)
    return DamagedRun(f"run {run_id}: the server answered {' '.join(words)}; nothing was written. holdfast why {run_id} says more")
