"""Routes that are built once per process.

They are built without the schemas of their responses. Only an OpenAPI document needs these schemas,
so they are built when it first reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

from fastapi import APIRouter
from fastapi.params import Depends
from fastapi.routing import APIRoute

from perdure.worker.web.services import Services


class SharedRoute(APIRoute):
    """A route that all apps of a process share.

    FastAPI builds the schemas of a route's responses together with the route, and takes most of the
    time for them. No request needs these schemas, because the functions of routes return responses.
    So a shared route builds the schemas when an OpenAPI document first reads them. An app that
    includes the route in a router reads ``response_model`` and ``responses``, and builds a route of
    its own.

    Attributes:
        services: The services of this route. None: each request uses the services of the app that
            serves it.
    """

    services: Services | None = None

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        response_model: Any = None,
        responses: dict[int | str, dict[str, Any]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path, endpoint, response_model=None, **options)
        self._options = options
        self.response_model, self.responses = response_model, responses or {}
        # The properties below take their place.
        del self.response_field, self.response_fields

    @cached_property
    def response_field(self) -> Any:  # type: ignore[override]
        """The schema of the HTTP response, for OpenAPI."""
        return self._documented.response_field

    @cached_property
    def response_fields(self) -> Any:  # type: ignore[override]
        """The other responses' schemas by status, for OpenAPI."""
        return self._documented.response_fields

    @cached_property
    def _documented(self) -> APIRoute:
        return APIRoute(self.path, self.endpoint, **self._all_options())

    def under(
        self, prefix: str, dependencies: Sequence[Depends], services: Services | None
    ) -> Self:
        """Return a copy of this route under the path ``prefix``.

        Args:
            dependencies: Dependencies that run before those of the route.
            services: The services of the copy. None: those of the app that serves a request.
        """
        options = self._all_options()
        options["dependencies"] = [*dependencies, *self.dependencies]
        route = type(self)(prefix + self.path, self.endpoint, **options)
        route.services = services
        return route

    def _all_options(self) -> dict[str, Any]:
        return {
            **self._options,
            "response_model": self.response_model,
            "responses": self.responses,
        }


def routes_under(
    prefix: str,
    dependencies: Sequence[Depends],
    *routers: APIRouter,
    services: Services | None = None,
) -> list[SharedRoute]:
    """Return copies of the routes of all ``routers`` under the path ``prefix``.

    Args:
        dependencies: Dependencies that run before those of each route.
        services: The services of the copies. None: those of the app that serves a request.
    """
    routes = []
    for router in routers:
        for route in router.routes:
            assert isinstance(route, SharedRoute), route
            routes.append(route.under(prefix, dependencies, services))
    return routes
