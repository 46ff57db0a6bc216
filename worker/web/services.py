"""Services that the HTTP routes need.

They are the client, the event hub and the function that finds the caller. All apps of a process
share their routes. So a route looks its services up at each request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from perdure.worker.client import Client
from perdure.worker.web.auth import AuthorizedClient, Caller
from perdure.worker.web.event_hub import EventHub
from perdure.worker.web.json_body import most_bytes


def _no_caller(request: Request) -> Caller:
    raise RuntimeError(f"the router of {request.url.path} has no function that returns a caller")


@dataclass(frozen=True)
class Services:
    """The objects that the routes of an app or router share.

    Attributes:
        client: The client that reads and changes the runs.
        hub: The event hub that delivers new events to streams.
        caller: A function that returns the caller of a request, or raises Unknown. It is called in
            a thread. By default, it raises RuntimeError.
    """

    client: Client
    hub: EventHub
    caller: Callable[[Request], Caller] = _no_caller

    @property
    def most_bytes(self) -> int:
        """The maximum size of a request's body in bytes, without files."""
        return most_bytes(self.client.settings)


def services_of(request: Request) -> Services:
    """Return the services of a request's route.

    If the route has no services of its own, return those of the app that serves the request.
    """
    services = getattr(request.scope.get("route"), "services", None) or request.app.state.services
    assert isinstance(services, Services)
    return services


async def _services(request: Request) -> Services:
    # FastAPI would run a plain function in a thread.
    return services_of(request)


#: The services, as a parameter of a route's function.
RouteServices = Annotated[Services, Depends(_services)]


def authorize(request: Request) -> None:
    """Make the client of a request's caller, with the caller's rights.

    The client is stored in the request's state. A route's function gets it as its parameter of type
    ``Runs``. Every route that has a caller has this dependency.

    Raises:
        Unknown: The request has no valid token and no valid session.
        Forbidden: The server has no tokens, and the request names a host that is not this machine.
    """
    services = services_of(request)
    # A route with a body has authenticated its caller before it read the body.
    caller = getattr(request.state, "caller", None) or services.caller(request)
    request.state.authorized_client = AuthorizedClient(services.client, caller)
