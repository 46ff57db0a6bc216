"""A page: a template, filled in for the one who asks."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader

from worker.web.access import Caller, Scope
from worker.web.pages.filters import FILTERS, GLOBALS, harmless

#: The cookie with what the next page is to say: what became of what was asked for.
NOTICE = "holdfast_notice"
#: The cookie with the colours that somebody prefers to those of their system.
THEME = "holdfast_theme"
THEMES = ("light", "dark")
#: Bytes of a notice: a cookie holds 4 KiB, and a letter of it may take nine.
LONGEST = 400

environment = Environment(
    loader=PackageLoader("worker.web", "templates"),
    autoescape=True,
    finalize=harmless,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters.update(FILTERS)
environment.globals.update(GLOBALS)


def page(request: Request, template: str, code: int = 200, /, **context: Any) -> HTMLResponse:
    """The template, which finds here, beside ``context``:

    ``request``, ``who`` (the caller; None where nobody is known), ``may`` (by the name of a scope), ``csrf``, ``theme``, ``notice``.
    """
    permitted = getattr(request.state, "permitted", None)
    caller: Caller | None = permitted.caller if permitted is not None else None
    theme = request.cookies.get(THEME, "")
    text = environment.get_template(template).render(
        request=request,
        who=caller,
        may={scope.value: caller is not None and caller.may(scope) for scope in Scope},
        csrf=getattr(request.state, "csrf", ""),
        theme=theme if theme in THEMES else "",
        notice=unquote(request.cookies.get(NOTICE, "")),
        **context,
    )
    response = HTMLResponse(text, code)
    response.headers["Cache-Control"] = "no-store"
    if NOTICE in request.cookies:
        response.delete_cookie(NOTICE)
    return response


def back(request: Request, *parts: str, said: str = "", **query: str) -> RedirectResponse:
    """To another page once a form was carried out (so that loading that page again repeats nothing), with what it is to say there."""
    root = request.scope.get("root_path", "").rstrip("/")
    address = f"{root}/{'/'.join(quote(part, safe='@:') for part in parts)}"
    response = RedirectResponse(address + (f"?{urlencode(query)}" if query else ""), 303)
    if said:
        text = said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"
        response.set_cookie(NOTICE, quote(harmless(text)), max_age=60, httponly=True, samesite="lax")
    return response
