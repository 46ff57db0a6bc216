"""Login: signing in to the dashboard with a token, and out again.

There is no lock after wrong tokens: 256 random bits are not guessed, and a lock would let strangers lock people out.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from worker.web.access.door import Door
from worker.web.pages.page import back, page
from worker.web.pages.route import PageRoute


def login_router(door: Door) -> APIRouter:
    """``/login`` and ``/logout``."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    @router.get("/login")
    def show(request: Request, next: str = "") -> Response:  # noqa: A002  the address says ?next=
        return page(request, "login.html", next=next, fault="")

    @router.post("/login")
    def sign_in(request: Request, token: Annotated[str, Form()] = "", next: Annotated[str, Form()] = "") -> Response:  # noqa: A002
        if not door.sign_in(request, token.strip()):
            return page(request, "login.html", 401, next=next, fault="This token is unknown, revoked or expired.")
        return RedirectResponse(next, 303) if is_local(next) else back(request)

    @router.post("/logout")
    def sign_out(request: Request) -> Response:
        door.keep(request, None)
        return back(request, "login")

    return router


def is_local(address: str) -> bool:
    """Whether it is a path of this server, so that nobody is led elsewhere by a link to our login."""
    return address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
