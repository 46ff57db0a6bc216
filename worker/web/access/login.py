"""Login: signing in to the dashboard with a token, and out again.

There is no lock after wrong tokens: 256 random bits are not guessed, and a lock would let strangers lock people out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from worker.web.access.door import Door

#: Draws the page: the request, what its form carries, where it leads to, and what was wrong with the token given, if anything.
Page = Callable[[Request, str, str, str | None], Response]


def login_router(door: Door, page: Page) -> APIRouter:
    """``/login`` and ``/logout``."""
    router = APIRouter(include_in_schema=False)

    @router.get("/login")
    def show(request: Request, next: str = "") -> Response:  # noqa: A002  the address says ?next=
        return page(request, door.csrf(request), local(request, next), None)

    @router.post("/login")
    def sign_in(request: Request, token: Annotated[str, Form()] = "", next: Annotated[str, Form()] = "") -> Response:  # noqa: A002
        if not door.sign_in(request, token.strip()):
            fault = "This token is unknown, revoked or expired."
            response = page(request, door.csrf(request), local(request, next), fault)
            response.status_code = 401
            return response
        return RedirectResponse(local(request, next), 303)

    @router.post("/logout")
    def sign_out(request: Request) -> Response:
        door.keep(request, None)
        return RedirectResponse(f"{root(request)}/login", 303)

    return router


def local(request: Request, address: str) -> str:
    """``address`` where it is a path of this server, else the first page: nobody is led elsewhere by a link to our login."""
    fits = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if fits else f"{root(request)}/"


def root(request: Request) -> str:
    """The path under which a proxy serves this app."""
    return str(request.scope.get("root_path", ""))
