"""The connection between a process and Perdure, for one Celery app: settings, store and publisher.

``install`` sets one as an attribute of a user's app. A client without an app makes one of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from perdure.flows.rounds.flow import Flow
from perdure.worker.errors import InvalidSettings
from perdure.worker.flow_registration import find_flows
from perdure.worker.messaging.app_flows import find_flows_of_app
from perdure.worker.messaging.broker import is_fused, with_state_server
from perdure.worker.messaging.outbox_publisher import OutboxPublisher
from perdure.worker.messaging.publisher import MessageBuilder, Publisher, SameServerPublisher
from perdure.worker.settings import Settings
from perdure.worker.store import Replication, Store
from perdure.worker.store.keys import Keys
from perdure.worker.urls import LOCALHOST

if TYPE_CHECKING:
    from celery import Celery


class AppConnection:
    """Settings, store and publisher of a process, each made when it is first used.

    Args:
        app: The Celery app with the round tasks.
        settings: The settings of this process.
        sources: Flows, or names of modules that register flows.
        owns_app: Whether the app is Perdure's own. If not, the broker of the app may be the state
            server, and the app's modules may register flows.
    """

    def __init__(
        self,
        app: Celery,
        settings: Settings,
        sources: Sequence[str | type[Flow] | Flow] = (),
        owns_app: bool = False,
    ) -> None:
        self.app = app
        self.owns_app = owns_app
        self._sources = sources
        #: The settings as passed in. `settings` also has the state server, which the app's
        #: configuration may name.
        self.given = settings

    @cached_property
    def settings(self) -> Settings:
        """The settings, with the URL of the state server.

        If the settings name no state server, the broker of a user's app is the state server.

        Raises:
            InvalidSettings: The settings name no state server, and the app's broker cannot be one.
        """
        return self.given if self.owns_app else with_state_server(self.given, self.app)

    @cached_property
    def store(self) -> Store:
        """This process's client of the state server."""
        replication = Replication(self.settings.wait_replicas, self.settings.wait_timeout_seconds)
        return Store(
            self._url,
            self.settings.prefix,
            outbox=self.publisher.outbox,
            replication=replication,
            leaves=self.is_leaving,
        )

    @cached_property
    def publisher(self) -> Publisher:
        """The object that publishes the messages of rounds.

        If the broker is on the state server, Lua scripts push the messages. Otherwise the outbox
        publisher publishes them after the commit.
        """
        kind = SameServerPublisher if is_fused(self.app, self._url) else OutboxPublisher
        return kind(self.app, Keys(self.settings.prefix), _message_builder(self.settings))

    def find_flows(self) -> None:
        """Import and register the flows that the settings name, and those of a user's app.

        Raises:
            InvalidFlow: A module cannot be imported, or a flow has no name.
        """
        find_flows(self.settings)
        if not self.owns_app:
            find_flows_of_app(self.app, self._sources)

    def is_leaving(self) -> bool:
        """Return whether this process is shutting down.

        A process that is shutting down does not send failed requests again. The result is always
        False here. The runtime of a worker overrides this method.
        """
        return False

    def close(self) -> None:
        """Close the connections to state server and broker."""
        self.store.close()
        self.publisher.close()

    @property
    def _url(self) -> str:
        return self.settings.redis_url or LOCALHOST


def connection_of(app: Celery) -> AppConnection:
    """Return the AppConnection that ``install`` set on an app.

    Raises:
        InvalidSettings: ``install`` was not called for this app.
    """
    connection = getattr(app, "perdure", None)
    if not isinstance(connection, AppConnection):
        raise InvalidSettings(
            "this Celery app has no Perdure on it; call perdure.install(app) first"
        )
    return connection


def _message_builder(settings: Settings) -> MessageBuilder | None:
    """Return the fast message builder. None if the setting ``fetch`` is off."""
    if not settings.fetch:
        return None
    from perdure.worker.messaging.fast.template import MessageTemplates

    return MessageTemplates()
