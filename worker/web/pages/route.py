"""PageRoute: a route whose errors are pages too."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from flows.errors import HoldfastError
from worker.web.access import Unknown
from worker.web.pages.page import page
from worker.web.problems import invalid, problem


class PageRoute(APIRoute):
    """A route whose errors are pages: what went wrong, in the words of the API's problems; who is not known is asked who they are."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its errors told."""
        handle = super().get_route_handler()

        async def told(request: Request) -> Response:
            try:
                return await handle(request)
            except Unknown:
                return to_login(request)
            except RequestValidationError as error:
                return error_page(request, invalid(error))
            except HoldfastError as error:
                return error_page(request, problem(error))

        return told


def error_page(request: Request, told: Response) -> Response:
    """The page that says what the API would say; where only the state server does not answer, it looks again by itself."""
    response = page(request, "error.html", told.status_code, problem=json.loads(bytes(told.body)))
    if "Retry-After" in told.headers:
        response.headers["Retry-After"] = told.headers["Retry-After"]
        if request.method == "GET":
            response.headers["Refresh"] = told.headers["Retry-After"]
    return response


def to_login(request: Request) -> Response:
    """To the page that asks who somebody is, and from there back to a page that they only wanted to see."""
    root = request.scope.get("root_path", "").rstrip("/")
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    address = f"{root}/login" + (f"?{urlencode({'next': here})}" if request.method == "GET" else "")
    if request.headers.get("HX-Request"):  # a part of a page that lives: the whole page is to go there
        return Response(status_code=204, headers={"HX-Redirect": address})
    return RedirectResponse(address, 303)
