"""Connected: what every part of the client stands on."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from worker.app import engine_of, make_app
from worker.client import arguments
from worker.dispatch import TASKS
from worker.errors import DamagedRun, RunNotFound
from worker.record import Record
from worker.settings import Settings, current
from worker.store.address import check_url

if TYPE_CHECKING:
    from celery import Celery


class Connected:
    """The settings, the engine and its store."""

    def __init__(self, url: str | None = None, settings: Settings | None = None, app: Celery | None = None) -> None:
        arguments.settings(settings)
        arguments.app(app, url, settings)
        self._engine = engine_of(app or _app_of(url, settings or current()))
        self.settings, self._store = self._engine.settings, self._engine.store

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()

    def _record(self, run_id: str) -> Record:
        fields = self._store.fields(run_id) if arguments.is_run_id(run_id) else None
        if fields is None:
            raise not_found(run_id)
        return Record(fields)

    def _message(self, record: Record, epochs: int) -> str:
        task, queue = record.fields.get("task", ""), record.fields.get("queue", "")
        if task not in TASKS.values():
            raise DamagedRun(f"run {record.id}: its task is {task!r}, expected one of {', '.join(TASKS.values())}")
        return self._engine.dispatcher.message_for(task, queue, record.id, record.epoch + epochs, record.step).text

    def _hand_over(self, record: Record, words: Sequence[str], message: str) -> None:
        """What the store answered ``words`` to is with the broker now, where it queued the run."""
        if words[0] == "queued":
            self._engine.dispatcher.hand_over([(record.fields["queue"], message)])


def _app_of(url: str | None, settings: Settings) -> Celery:
    """An app of Holdfast's own; ``url`` takes the place of ``redis_url``, and of the broker where that is the same."""
    if url is not None:
        check_url(url)
        broker = None if settings.broker_url == settings.redis_url else settings.broker_url
        settings = settings.model_copy(update={"redis_url": url, "broker_url": broker})
    return make_app(settings)


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
