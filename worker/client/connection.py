"""The base of the clients of a state server, which performs operations on a session."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.worker.domain.record import Record
from perdure.worker.features.clients import ClientFeatures
from perdure.worker.operations.operation import Operation
from perdure.worker.operations.session import Session
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.store.connection import RESENDS

if TYPE_CHECKING:
    from celery import Celery

    from perdure.worker.messaging.app_connection import AppConnection

R = TypeVar("R")


def session_of(client: ClientConnection) -> Session:
    """Return the session of a client, for packages that need reads that no client method offers."""
    return client._session


class ClientConnection(ClientFeatures):
    """A client with a session.

    For methods that are not derived from operations, its properties have the parts of the session.
    The arguments are those of ``Client``.
    """

    def __init__(
        self,
        url: str | None = None,
        settings: Settings | None = None,
        app: Celery | None = None,
        resends: int = RESENDS,
    ) -> None:
        self._session = Session(url, settings, app, resends)
        self.settings = self._session.settings

    @property
    def _store(self) -> Store:
        return self._session.store

    @property
    def _connection(self) -> AppConnection:
        return self._session.connection

    def _find_flows(self) -> None:
        self._session.find_flows()

    def _record(self, run_id: str) -> Record:
        return self._session.record(run_id)

    def _perform(self, operation: Operation[Any, R], bound: inspect.BoundArguments) -> R:
        return operation.perform(self._session, bound)

    def close(self) -> None:
        """Close the connections of this client."""
        self._session.close()
