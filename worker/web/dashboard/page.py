"""Common parts of the dashboard's pages.

They are rendering, redirects with a notice, error pages, sign-in and the theme. The route of the
home page is here too. Wrong tokens cause no lockout: 256 random bits cannot be guessed, and with a
lockout an attacker could keep users out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlencode

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.types import Receive, Send
from starlette.types import Scope as ASGIScope

from perdure.flows.core.errors import PerdureError
from perdure.worker.features import features
from perdure.worker.web.auth import Caller, Forbidden, Scope, Unknown
from perdure.worker.web.auth.authenticate import (
    AppAuthenticator,
    authenticator_of,
    prepare_page,
)
from perdure.worker.web.dashboard.template_filters import FILTERS, GLOBALS, harmless
from perdure.worker.web.problems import REQUEST_PROBLEMS, caller_of, details, invalid, problem
from perdure.worker.web.services import services_of
from perdure.worker.web.shared_route import SharedRoute

#: The cookie with the notice for the next page: the result of the last action.
NOTICE = "perdure_notice"
#: The cookie with the theme, if the user prefers another than the system's.
THEME = "perdure_theme"
THEMES = ("light", "dark")
#: Punctuation of an address that stays unchanged in a Location header. Other characters but letters
#: and digits are encoded.
URL_MARKS = ":/?#[]@!$&'()*+,;=%"
#: Maximum length of a notice in characters. A cookie holds 4 KiB, and one character may take nine
#: bytes in it.
NOTICE_CHARACTERS = 400


def _templates() -> ChoiceLoader:
    """Return the loader of templates.

    ``FILE.html`` is in this package's templates, ``NAME/FILE.html`` in the folder of a feature.
    """
    folders = {
        feature.name: PackageLoader(f"perdure.worker.features.{feature.name}", "")
        for feature in features()
    }
    return ChoiceLoader([PackageLoader("perdure.worker.web", "templates"), PrefixLoader(folders)])


environment = Environment(
    loader=_templates(),
    autoescape=True,
    finalize=harmless,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters.update(FILTERS)
environment.globals.update(GLOBALS)


def page(request: Request, template: str, code: int = 200, /, **context: Any) -> HTMLResponse:
    """Render a dashboard template as an HTML response.

    Besides ``context``, the template gets ``request``, ``who`` (the caller, or None if not signed
    in), ``may`` (a flag for each scope), ``csrf``, ``theme``, ``notice`` (shown once), ``badges``
    and ``more_pages``.

    Args:
        code: The HTTP status of the response.
    """
    authorized_client = getattr(request.state, "authorized_client", None)
    caller: Caller | None = authorized_client.caller if authorized_client is not None else None
    theme = request.cookies.get(THEME, "")
    text = environment.get_template(template).render(
        request=request,
        who=caller,
        may={scope.value: caller is not None and caller.may(scope) for scope in Scope},
        csrf=getattr(request.state, "csrf", ""),
        theme=theme if theme in THEMES else "",
        notice=unquote(request.cookies.get(NOTICE, "")),
        # A server that does not answer is not asked once more.
        badges=_badges(request, authorized_client) if code < 500 else {},
        more_pages=[feature.page for feature in features() if feature.page is not None],
        **context,
    )
    response = HTMLResponse(text, code)
    response.headers["Cache-Control"] = "no-store"
    if NOTICE in request.cookies:
        response.delete_cookie(NOTICE)
    return response


def _badges(request: Request, authorized_client: Any) -> dict[str, int]:
    """Return the numbers that the navigation shows, by page.

    They are the number of runs that wait for people, and the number of each feature's page
    (``Feature.badge``).

    Returns:
        An empty dict if the user is not signed in, if the request is for a part of a page, or if a
        number cannot be read.
    """
    # A part of a page has no navigation.
    if authorized_client is None or "part" in request.query_params:
        return {}
    try:
        return {
            "inbox": authorized_client.waits_for_people(),
            **{
                feature.page.path: feature.badge(authorized_client)
                for feature in features()
                if feature.page is not None
            },
        }
    except PerdureError:
        return {}


def back(request: Request, *parts: str, notice: str = "", **query: str) -> RedirectResponse:
    """Redirect to another page after a form was handled.

    After the redirect, reloading that page does not send the form again.

    Args:
        parts: The segments of the page's path.
        notice: A text that the page shows. '': none.
        query: The query parameters of the page.
    """
    root = request.scope.get("root_path", "").rstrip("/")
    address = f"{root}/{'/'.join(quote(part, safe='@:') for part in parts)}"
    response = RedirectResponse(address + (f"?{urlencode(query)}" if query else ""), 303)
    if notice:
        text = notice if len(notice) <= NOTICE_CHARACTERS else notice[: NOTICE_CHARACTERS - 1] + "…"
        response.set_cookie(
            NOTICE, quote(harmless(text)), max_age=60, httponly=True, samesite="lax"
        )
    return response


#: Pages to which the form field ``back`` may lead. An arbitrary address could lead to another site.
BACK_PAGES = ("overview", "runs", "inbox", "fleet", "stuck")


async def _filled(request: Request) -> dict[str, str]:
    form = await request.form()
    # Browsers send each line break of a text area as CR and LF, whatever the page had.
    return {
        name: value.replace("\r\n", "\n") for name, value in form.items() if isinstance(value, str)
    }


Filled = Annotated[dict[str, str], Depends(_filled)]


def back_from(
    request: Request, filled: Mapping[str, str], otherwise: tuple[str, ...], notice: str
) -> Response:
    """Redirect to the page that the form's field ``back`` names.

    Args:
        filled: The form's texts by field.
        otherwise: The segments of the path to redirect to if ``back`` is not one of BACK_PAGES.
        notice: A text that the page shows.
    """
    back_page = filled.get("back", "")
    return back(request, *((back_page,) if back_page in BACK_PAGES else otherwise), notice=notice)


class PageRoute(SharedRoute):
    """A route that shows errors as HTML pages.

    The pages have the texts of the API's problem details. Users who are not signed in are
    redirected to the sign-in page.
    """

    async def handle(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        """Serve one request, and limit the size of its body.

        The limit is needed because a form's body is read before the caller is authenticated.
        """
        most = services_of(Request(scope)).most_bytes
        await RequestBodyLimitMiddleware(super().handle, most)(scope, receive, send)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler, which turns errors into pages."""
        handle = super().get_route_handler()

        async def respond(request: Request) -> Response:
            try:
                return await handle(request)
            except Unknown:
                return to_login(request)
            except RequestValidationError as error:
                return error_page(request, invalid(error))
            except PerdureError as error:
                return error_page(request, problem(error, caller_of(request)))

        return respond


def error_page(request: Request, problem_response: Response) -> Response:
    """Return a page that shows an error response with problem details.

    If the response to a GET request has ``Retry-After``, the page reloads itself after that time.
    """
    response = page(
        request,
        "error.html",
        problem_response.status_code,
        problem=json.loads(bytes(problem_response.body)),
    )
    if "Retry-After" in problem_response.headers:
        response.headers["Retry-After"] = problem_response.headers["Retry-After"]
        if request.method == "GET":
            response.headers["Refresh"] = problem_response.headers["Retry-After"]
    return response


#: Beginnings of paths that programs use. Errors there are JSON.
PROGRAMS = ("/api", "/v1", "/mcp", "/metrics", "/static")


def answers_in_html(request: Request) -> bool:
    """Return whether an unknown path gets an HTML page.

    This is so if the request accepts HTML and the path is not below one of PROGRAMS.
    """
    # A mounted app changes the root path.
    scope = request.scope
    root = scope.get("app_root_path", scope.get("root_path", "")).rstrip("/")
    path = request.url.path.removeprefix(root)
    is_of_programs = any(path == each or path.startswith(f"{each}/") for each in PROGRAMS)
    return "text/html" in request.headers.get("accept", "") and not is_of_programs


async def no_such_path(request: Request, error: HTTPException) -> Response:
    """Return the response to an unknown path.

    It is a page for a browser, else FastAPI's JSON.
    """
    if not answers_in_html(request):
        return await http_exception_handler(request, error)
    # Without the state server, the page comes without a session.
    with suppress(PerdureError):
        await run_in_threadpool(prepare_page, request, await authenticator_of(request))
    detail = f"This server has no page {request.url.path}. The address may be mistyped or old."
    return error_page(request, details(404, *REQUEST_PROBLEMS[404], detail))


def to_login(request: Request) -> Response:
    """Redirect to the sign-in page.

    After the sign-in, the user gets the requested page if the request was a GET, else the home
    page: a form that was sent is not sent again.
    """
    root = request.scope.get("root_path", "").rstrip("/")
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    address = f"{root}/login" + (f"?{urlencode({'next': here})}" if request.method == "GET" else "")
    # A live page requested only a part of itself: this header redirects the whole page.
    if request.headers.get("HX-Request"):
        return Response(status_code=204, headers={"HX-Redirect": address})
    return RedirectResponse(address, 303)


router = APIRouter(route_class=PageRoute, include_in_schema=False)
#: Seconds that a browser remembers the theme: a year.
THEME_SECONDS = 31_536_000


@router.get("/")
def home(request: Request) -> Response:
    """Redirect to the overview."""
    return back(request, "overview")


@router.post("/theme")
def theme(
    request: Request, theme: Annotated[str, Form()] = "", here: Annotated[str, Form()] = "/"
) -> Response:
    """Set the theme, and redirect to the page ``here``.

    With a theme other than ``light`` or ``dark``, pages follow the browser's setting. If ``here``
    is no path of this server, the redirect is to the home page.
    """
    response = back(request)
    # The address must not lead to another host.
    if is_local(here):
        response.headers["Location"] = quote(here, safe=URL_MARKS)
    if theme in THEMES:
        response.set_cookie(THEME, theme, max_age=THEME_SECONDS, samesite="lax", httponly=True)
    else:
        response.delete_cookie(THEME)
    return response


#: The pages of the sign-in. They have no caller.
login_router = APIRouter(route_class=PageRoute, include_in_schema=False)


@login_router.get("/login")
def show(request: Request, next: str = "") -> Response:  # noqa: A002  the query parameter's name
    return page(request, "login.html", next=next, fault="")


@login_router.post("/login")
def sign_in(
    request: Request,
    authenticator: AppAuthenticator,
    token: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "",  # noqa: A002  the form field's name
) -> Response:
    if not authenticator.sign_in(request, token.strip()):
        return page(
            request,
            "login.html",
            401,
            next=next,
            fault="This token is unknown, revoked or expired.",
        )
    return RedirectResponse(next, 303) if is_local(next) else back(request)


@login_router.get("/sign-in")
def show_link(
    request: Request,
    code: str = "",
    next: str = "",  # noqa: A002  the query parameter's name
) -> Response:
    # Nothing is used up yet: programs that check the links of mails and chats open them too.
    if request.state.signed_in and is_local(next):
        return RedirectResponse(next, 303)
    return page(request, "sign_in.html", code=code, next=next)


@login_router.post("/sign-in")
def sign_in_once(
    request: Request,
    authenticator: AppAuthenticator,
    code: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "",  # noqa: A002  the form field's name
) -> Response:
    fault = ""
    try:
        if not authenticator.sign_in_once(request, code):
            fault = "This link was used, or is too old. Sign in with your token."
    except Forbidden as error:
        fault = f"{str(error)[0].upper()}{str(error)[1:]}. Sign in with your token."
    if fault:
        return page(request, "login.html", 401, next=next, fault=fault)
    return RedirectResponse(next, 303) if is_local(next) else back(request)


@login_router.post("/logout")
def sign_out(request: Request, authenticator: AppAuthenticator) -> Response:
    authenticator.set_session_cookie(request, None)
    return back(request, "login")


def is_local(address: str) -> bool:
    """Return whether a URL is a path without a host.

    The sign-in redirects only to such URLs. Otherwise a link to the login page could redirect users
    to another site.
    """
    return (
        address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    )
