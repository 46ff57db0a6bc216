"""Session: the settings and the connections of a client, which its operations use."""

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
        settings: The settings in force. They are those of ``app`` if it is not None. Otherwise they
            are the argument ``settings``, with ``url`` as state server if ``url`` is not None.
        store: The store on the state server.
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
        """The Celery app with its publisher and the store, created on first use."""
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

        They are the flows that the settings name. If the user passed a Celery app, the flows of
        that app are registered too.
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

        If the check passes, it is skipped for the next minute. If the server does not answer, no
        error is raised, because the next command reports that.
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
        """Return the record of a run: its stored fields.

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
        """Return the title and the flow of several runs, by run id.

        One exchange reads them. Runs that do not exist or cannot be read are left out.

        Args:
            submitter: Leave out the runs of other submitters. None: return the runs of all
                submitters.
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
        """Return the message of a run's next round.

        Args:
            epochs: The number to add to the run's epoch. The message is for the epoch that results.

        Raises:
            DamagedRun: The run names a task that is none of Perdure's.
        """
        task, queue = record.fields.get("task", ""), record.fields.get("queue", "")
        return self.message_for(task, queue, record.id, record.epoch + epochs, record.step)

    def message_for(self, task: str, queue: str, run_id: str, epoch: int, step: int) -> str:
        """Return the text of a round's message.

        Args:
            task: The name of the Celery task that executes the round.
            queue: The name of the queue to which the message is published.

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
        """Publish a run's message if the reply of a Lua script begins with ``queued``.

        With any other reply, nothing is published.
        """
        if reply[0] == "queued":
            self.connection.publisher.publish([(record.fields["queue"], message)])

    def look_after(self, follow_ups: Sequence[str]) -> None:
        """Start, stop or continue the children of runs, as the reply of a transition asks.

        If the state server does not answer, a warning is logged, and workers do it later.

        Args:
            follow_ups: The end of the reply. It is empty if there is nothing to do. Otherwise it is
                one text with the ids of the parents, separated by spaces.
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
    """Return a client's settings with ``url`` as state server.

    If the settings name the same server as state server and broker, the new server becomes the
    broker too.

    Args:
        url: The URL of the state server. None: the settings are returned unchanged.
    """
    if url is None:
        return settings
    check_url(url)
    broker = None if settings.broker_url == settings.redis_url else settings.broker_url
    return settings.model_copy(update={"redis_url": url, "broker_url": broker})


def new_operation_id() -> str:
    """Return a new operation id, by which Lua scripts recognize a request that is sent again."""
    return uuid.uuid4().hex


def not_found(run_id: str) -> RunNotFound:
    """Return the error for a run that does not exist."""
    return RunNotFound(f"no run {run_id!r}; see: perdure list")


def damaged(run_id: str, reply: Sequence[str]) -> DamagedRun:
    """Return the error for an unexpected reply of a Lua script that should have changed a run.

    Raises:
        RunNotFound: The reply is ``missing``: the run does not exist.
    """
    if reply[0] == "missing":
        raise not_found(run_id)
    return DamagedRun(
        f"run {run_id}: the server replied {' '.join(reply)}; nothing was written. "
        f"For the cause: perdure why {run_id}"
    )
