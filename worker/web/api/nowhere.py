"""Nowhere: what the API has no route for is told as problem details too, wherever the router is mounted."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route

from worker.web.problems import OF_REQUESTS, details


def nowhere(routes: Iterable[BaseRoute]) -> Route:
    """The last route of a router that has these: it takes every path and every method."""
    known = [route for route in routes if isinstance(route, APIRoute)]

    def told(request: Request) -> Response:
        path = f"/{request.path_params['path']}"
        methods = sorted({method for route in known if route.path_regex.match(path) for method in route.methods or ()})
        if methods:
            said = f"{request.method} is not possible here; {', '.join(methods)} is"
            return details(405, *OF_REQUESTS[405], said, {"Allow": ", ".join(methods)})
        return details(404, *OF_REQUESTS[404], f"there is no {request.url.path}; the API's paths are in its openapi.json")

    return Route("/{path:rest}", told, methods=[], include_in_schema=False)
