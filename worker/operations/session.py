"""Session: settings and connections of a client, on which operations are carried out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from perdure.worker.domain.record import Record
from perdure.worker.domain.run import TITLE_FIELDS, title_of
from perdure.worker.errors import DamagedRun, RunNotFound
from perdure.worker.operations import validation
from perdure.worker.settings import Settings, current, with_server
from perdure.worker.store import Replication, Store, StoreUnavailable
from perdure.worker.store.connection import RESENDS
from perdure.worker.store.urls import check_url
from perdure.worker.urls import LOCALHOST

if TYPE_CHECKING:
    from celery import Celery

    from perdure.flows.rounds.flow import Flow
    from perdure.worker.messaging.app_connection import AppConnection


#: Seconds for which a passed durability check counts.
DURABILITY_SECONDS = 60.0


class Session:
    """Settings, store and publisher of a client.

    The publisher is created together with the first message, because importing Celery takes longer
    than most calls. The arguments are those of ``Client``.

    Attributes:
        settings: The settings in force.
        store: The state server.
        has_own_topics: Whether topics of the runs that the session makes belong to their
            submitters.
    """

    has_own_topics = False

    def __init__(
        self,
        url: str | None = None,
        settings: Settings | None = None,
        app: Celery | None = None,
        resends: int = RESENDS,
    ) -> None:
        validation.settings(settings)
        validation.app(app, url, settings)
        self._app = app
        self._durable_until = 0.0
        self.settings = _settings_of(url, settings or current())
        if app is None:
            self.settings = with_server(self.settings)
        if app is not None or self.settings.broker_url not in (None, self.settings.redis_url):
            self.settings, self.store = self.connection.settings, self.connection.store
            return
        place = self.settings.redis_url or LOCALHOST
        check_url(place)
        replication = Replication(self.settings.wait_replicas, self.settings.wait_timeout_seconds)
        self.store = Store(place, self.settings.prefix, replication=replication, resends=resends)

    @cached_property
    def connection(self) -> AppConnection:
        """The Celery app, the publisher and the store."""
        from perdure.worker.messaging.app_connection import AppConnection, connection_of
        from perdure.worker.messaging.celery_app import publishing_app

        if self._app is not None:
            connection = connection_of(self._app)
        else:
            connection = AppConnection(publishing_app(self.settings), self.settings, owns_app=True)
        if hasattr(self, "store"):
            connection.store = self.store
        return connection

    def find_flows(self) -> None:
        """Register the flows of this process in the registry.

        A client of the user's own Celery app also registers the flows that this app brings.
        """
        if self._app is not None:
            self.connection.find_flows()
            return
        from perdure.worker.flow_registration import find_flows  # Loads flows: reads need none.

        find_flows(self.settings)

    def make_flow(self, name: str) -> Flow:
        """Return a flow of this process.

        Raises:
            FlowNotFound: This process has no flow of this name.
        """
        from perdure.flows.rounds import registry  # Loads flows, which reads do not need.

        self.find_flows()
        return registry.make(name)

    def check_durability(self) -> None:
        """Raise UnsafeServer if the state server could lose acknowledged runs.

        After a passed check, the client skips the check for a minute.
        """
        from perdure.worker.doctor.durability_checks import check_durability

        if time.monotonic() >= self._durable_until:
            try:
                check_durability(self.store.url, self.settings)
            except StoreUnavailable:
                return  # The next command waits for the server as usual and raises if it fails.
            self._durable_until = time.monotonic() + DURABILITY_SECONDS

    def close(self) -> None:
        """Close the connections."""
        if "connection" in vars(self):
            self.connection.close()
        else:
            self.store.close()

    def record(self, run_id: str) -> Record:
        """Return the stored fields of a run.

        Raises:
            RunNotFound: No run has this id.
        """
        fields = self.store.reads.fields(run_id) if validation.is_run_id(run_id) else None
        if fields is None:
            raise not_found(run_id)
        return Record(fields)

    def submitter(self, run_id: str) -> str | None:
        """Return the name of a run's submitter, even if other fields of the run are damaged.

        Returns:
            The name, or None if the run names no submitter or does not exist.
        """
        return (
            self.store.reads.some_fields([run_id], ["submitted_by"])[0].get("submitted_by")
            if validation.is_run_id(run_id)
            else None
        )

    def titles(self, run_ids: Sequence[str], submitter: str | None) -> dict[str, tuple[str, str]]:
        """Return titles and flows of several runs in one exchange.

        Runs that do not exist, cannot be read, or belong to another submitter are left out. Without
        a submitter, runs of all submitters are returned.
        """
        titles = {}
        names = (*TITLE_FIELDS, "flow", "submitted_by")
        for run_id, fields in zip(
            run_ids, self.store.reads.some_fields(run_ids, names), strict=True
        ):
            if fields and submitter in (None, fields.get("submitted_by")):
                with suppress(DamagedRun):
                    titles[run_id] = title_of(fields), fields.get("flow", "")
        return titles

    def message(self, record: Record, epochs: int) -> str:
        """Return the message of a run's next round, for the run's epoch plus ``epochs``."""
        task, queue = record.fields.get("task", ""), record.fields.get("queue", "")
        return self.message_for(task, queue, record.id, record.epoch + epochs, record.step)

    def message_for(self, task: str, queue: str, run_id: str, epoch: int, step: int) -> str:
        """Return the message of a round.

        Raises:
            DamagedRun: The task is none of Perdure's.
        """
        from perdure.worker.messaging.message import TASKS  # Clients that only read send none.

        if task not in TASKS.values():
            raise DamagedRun(
                f"run {run_id}: its task is {task!r}, expected one of {', '.join(TASKS.values())}"
            )
        return self.connection.publisher.message_for(task, queue, run_id, epoch, step).text

    def publish(self, record: Record, reply: Sequence[str], message: str) -> None:
        """Publish a run's message if the ``reply`` of a Lua script says that the run is queued."""
        if reply[0] == "queued":
            self.connection.publisher.publish([(record.fields["queue"], message)])

    def look_after(self, follow_ups: Sequence[str]) -> None:
        """Start or stop the children of runs, as a transition's reply asks.

        Args:
            follow_ups: The end of the reply: empty, or one text with the ids of these runs.
        """
        if not follow_ups:
            return
        from perdure.worker.messaging.follow_ups import FollowUps  # imports Celery, which is slow

        FollowUps(self.store, self.connection.publisher).do(follow_ups[0].split())


class CallerSession(Session):
    """The session of a caller over HTTP. It shares settings and connections of a client's session.

    Args:
        session: The client's session.
    """

    has_own_topics = True

    def __init__(self, session: Session) -> None:
        self.__dict__ = session.__dict__


def _settings_of(url: str | None, settings: Settings) -> Settings:
    """Return a client's settings with ``url`` as state server. Unchanged if ``url`` is None.

    If the state server was the broker too, the new one is.
    """
    if url is None:
        return settings
    check_url(url)
    broker = None if settings.broker_url == settings.redis_url else settings.broker_url
    return settings.model_copy(update={"redis_url": url, "broker_url": broker})


def new_operation_id() -> str:
    """Return a new operation id.

    Lua scripts use it to recognize a request that is sent again.
    """
    return uuid.uuid4().hex


def not_found(run_id: str) -> RunNotFound:
    """Return the error for a run that does not exist."""
    return RunNotFound(f"no run {run_id!r}; see: perdure list")


def damaged(run_id: str, reply: Sequence[str]) -> DamagedRun:
    """Return the error for an unexpected reply of a Lua script that should have changed a run.

    Raises:
        RunNotFound: The reply says that the run no longer exists.
    """
    if reply[0] == "missing":
        raise not_found(run_id)
    return DamagedRun(
        f"run {run_id}: the server replied {' '.join(reply)}; nothing was written. "
        f"For the cause: perdure why {run_id}"
    )
