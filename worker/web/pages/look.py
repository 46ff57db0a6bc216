"""Look: the way in, and whether the pages are light or dark."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from worker.web.pages.page import THEME, THEMES, back
from worker.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)
#: Seconds that a browser remembers the choice: a year.
REMEMBERED = 31_536_000


@router.get("/")
def home(request: Request) -> Response:
    """The way in leads to the runs."""
    return back(request, "runs")


@router.post("/theme")
def theme(request: Request, theme: Annotated[str, Form()] = "", here: Annotated[str, Form()] = "/") -> Response:
    """Light, dark, or (anything else) as the system has it; then back to where the choice was made."""
    response = back(request)
    if here.startswith("/") and not here.startswith(("//", "/\\")):  # another host would be no way back
        response.headers["Location"] = here
    if theme in THEMES:
        response.set_cookie(THEME, theme, max_age=REMEMBERED, samesite="lax", httponly=True)
    else:
        response.delete_cookie(THEME)
    return response
