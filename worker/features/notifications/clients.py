"""The property ``notifications`` of each kind of client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from perdure.worker.domain.token import Scope

if TYPE_CHECKING:
    from perdure.worker.features.notifications.async_client import AsyncNotifications
    from perdure.worker.features.notifications.client import Notifications, StateClient
    from perdure.worker.features.notifications.remote_client import RemoteNotifications, WebClient


class ClientNotifications:
    """The property ``notifications`` of ``Client``."""

    @property
    def notifications(self: StateClient) -> Notifications:
        """The notifications that wait for delivery or are dead."""
        from perdure.worker.features.notifications.client import Notifications

        return Notifications(self)


class AsyncStateClient(Protocol):
    """A client whose methods are coroutines. They call the blocking client ``_client``."""

    @property
    def _client(self) -> StateClient: ...


class AsyncClientNotifications:
    """The property ``notifications`` of ``AsyncClient``."""

    @property
    def notifications(self: AsyncStateClient) -> AsyncNotifications:
        """The notifications that wait for delivery or are dead."""
        from perdure.worker.features.notifications.async_client import AsyncNotifications
        from perdure.worker.features.notifications.client import Notifications

        return AsyncNotifications(Notifications(self._client))


class RemoteClientNotifications:
    """The property ``notifications`` of ``RemoteClient``."""

    @property
    def notifications(self: WebClient) -> RemoteNotifications:
        """The notifications that wait for delivery or are dead."""
        from perdure.worker.features.notifications.remote_client import RemoteNotifications

        return RemoteNotifications(self)


class CallerClient(Protocol):
    """The client of a caller over HTTP."""

    caller: Any

    @property
    def client(self) -> Any: ...


class CallerNotifications:
    """The property ``notifications`` of ``AuthorizedClient``, for a caller over HTTP."""

    @property
    def notifications(self: CallerClient) -> Notifications:
        """The notifications that wait or are dead. They may belong to any owner.

        Raises:
            Forbidden: The caller does not have the scope ``admin``.
        """
        from perdure.worker.features.notifications.client import Notifications

        self.caller.require(Scope.ADMIN)
        return Notifications(self.client)
