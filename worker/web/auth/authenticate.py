"""Callers, their scopes, and the authentication of requests.

A request is authenticated by token, by the dashboard's cookie, or by loopback.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from perdure.worker.client import Client
from perdure.worker.client.tokens import Tokens
from perdure.worker.domain.token import WIDER, AccessToken
from perdure.worker.domain.token import Scope as Scope  # noqa: PLC0414  part of this module's names
from perdure.worker.errors import DamagedToken, UnknownCaller
from perdure.worker.errors import Forbidden as Forbidden  # noqa: PLC0414  clients raise it too
from perdure.worker.web.auth.origin import (
    FORM_TYPES,
    SAFE_METHODS,
    is_from_browser,
    is_from_elsewhere,
    is_this_machine,
    names_this_machine,
)
from perdure.worker.web.auth.security_headers import COOKIE_KEY
from perdure.worker.web.auth.sessions import AGE, WebSession, WebSessions

Unknown = UnknownCaller


@dataclass(frozen=True)
class Caller:
    """The user or program that makes a request.

    Attributes:
        name: The name under which the caller owns the runs that it submits.
        scopes: The caller's permissions.
    """

    name: str
    scopes: frozenset[Scope]

    @property
    def is_admin(self) -> bool:
        """Whether the caller may do everything, on all runs."""
        return Scope.ADMIN in self.scopes

    @property
    def sees_only(self) -> str | None:
        """The only owner whose runs the caller may see.

        None if the caller may see the runs of all owners.
        """
        return self.limited_to(Scope.READ)

    def limited_to(self, scope: Scope) -> str | None:
        """Return the owner to whose runs a scope is limited.

        Whether the caller has the scope is not checked.

        Returns:
            The caller's name. None if the scope holds for the runs of all owners.
        """
        return None if self.is_admin or WIDER.get(scope) in self.scopes else self.name

    def may(self, scope: Scope) -> bool:
        """Return whether the caller has a scope.

        The scope may be a part of a wider scope. An admin has all scopes.
        """
        return self.is_admin or scope in self.scopes or WIDER.get(scope) in self.scopes

    def may_with(self, scope: Scope, owner: str | None) -> bool:
        """Return whether the caller has a scope for the runs of ``owner``.

        An ``owner`` of None stands for runs without an owner. For these, the scope must hold for
        all owners.
        """
        return self.may(scope) and self.limited_to(scope) in (None, owner)

    def require(self, scope: Scope) -> None:
        """Raise Forbidden unless the caller has the scope."""
        if not self.may(scope):
            raise Forbidden(
                f"{self.name} may not do this: it requires the scope {scope.value!r}, "
                f"and the scopes of {self.name} are: {_listed(self.scopes)}"
            )


def _listed(scopes: Iterable[Scope]) -> str:
    return ", ".join(sorted(scope.value for scope in scopes)) or "none"


#: The caller of every request to a server without tokens. Such a server listens on loopback only.
LOCAL = Caller("local", frozenset({Scope.ADMIN}))


logger = logging.getLogger("perdure.web")

#: The form field and the request header that carry the CSRF token.
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
#: Names of the session cookie for http and https. With the prefix `__Host-`, browsers accept the
#: cookie only over https and only from this exact host.
COOKIE_NAME, SECURE_COOKIE_NAME = "perdure", "__Host-perdure"


class Authenticator:
    """The authentication of requests, and the dashboard's browser sessions.

    Args:
        identify: A function that returns the caller of a request, or raises Unknown. None: the
            token, the session cookie or loopback identifies the caller.
        open_on_loopback: Whether requests over loopback need no token as long as no token exists.
        clock: A function that returns seconds since 1970, for the age of cookies.
    """

    def __init__(
        self,
        client: Client,
        identify: Callable[[Request], Caller] | None = None,
        open_on_loopback: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tokens = Tokens(client)
        self._identify = identify
        self._open_on_loopback = open_on_loopback
        self._clock = clock

    def caller(self, request: Request) -> Caller:
        """Return the caller of an HTTP request.

        The function ``identify`` decides. Without it, the token, the session cookie or loopback
        identifies the caller. This reads from the state server, so call it in a thread.

        Raises:
            Unknown: The request has no valid token and no valid session. A stored token that cannot
                be read is not valid.
            Forbidden: The server has no tokens, and the request names a host that is not this
                machine.
        """
        if self._identify is not None:
            return self._identify(request)
        text = bearer(request)
        if text is not None:
            return _caller(self._valid_token(lambda: self.tokens.find(text)))
        session = self.session(request)
        if session is not None and session.token_id:
            token = self._valid_token(lambda: self.tokens.get(session.token_id))
            if token is not None:
                return _caller(token)
        if self.is_open(request):
            return LOCAL
        raise Unknown(
            "no valid token was sent: send the header `Authorization: Bearer hf_...`, "
            "or sign in at /login"
        )

    def is_open(self, request: Request) -> bool:
        """Return whether a request may do everything without a token.

        This is so if ``open_on_loopback`` is set, no token exists, and the request came over
        loopback and not through a proxy.

        Raises:
            Forbidden: All of this is so, but the header ``Host`` names another host. A malicious
                page may have made a browser send the request (DNS rebinding).
        """
        if not self._open_on_loopback or not is_this_machine(request) or self.tokens.any():
            return False
        if not names_this_machine(request):
            raise Forbidden(
                "this server has no tokens, so it answers only requests to localhost or a loopback "
                "address. Use http://localhost, or create a token: perdure token create"
            )
        return True

    async def guard(self, request: Request) -> None:
        """Reject a request that another site made a browser send (CSRF).

        A browser never adds a bearer token by itself. So a request with a bearer token passes, as
        does a request whose method changes nothing. Any other request must not come from another
        site. If a browser may have sent it, it must also have the CSRF token that only our pages
        have. The cookie's ``SameSite`` attribute is a third protection.

        Raises:
            Forbidden: The request comes from another site, or has no valid CSRF token.
            Unknown: The request has no valid CSRF token, and its caller cannot be identified.
        """
        if request.method in SAFE_METHODS or bearer(request) is not None:
            return
        if is_from_elsewhere(request):
            raise Forbidden("the request was sent by a page of another site")
        if is_from_browser(request) and not await self._has_csrf_token(request):
            await run_in_threadpool(self.caller, request)
            raise Forbidden(
                "the page's CSRF token is missing or no longer valid: reload the page and try again"
            )

    async def _has_csrf_token(self, request: Request) -> bool:
        sent_token: object = request.headers.get(CSRF_HEADER)
        if sent_token is None and request.headers.get("content-type", "").startswith(FORM_TYPES):
            sent_token = (await request.form()).get(CSRF_FIELD)
        expected_token = await run_in_threadpool(self._csrf_token, request)
        return (
            isinstance(sent_token, str)
            and expected_token is not None
            and hmac.compare_digest(sent_token.encode(), expected_token.encode())
        )

    def _csrf_token(self, request: Request) -> str | None:
        session = self.session(request)
        return None if session is None else self._sessions.csrf(session)

    def prepare_page(self, request: Request) -> None:
        """Prepare a request's state for a dashboard page.

        This sets ``request.state.csrf`` (the CSRF token for the page's forms) and
        ``request.state.signed_in``. A browser without a valid session gets a new session, which is
        not signed in.
        """
        session = self.session(request)
        if session is None:
            session = WebSession.new(self._clock())
            self.set_session_cookie(request, session)
        request.state.csrf = self._sessions.csrf(session)
        request.state.signed_in = session.token_id != ""

    # sessions

    def session(self, request: Request) -> WebSession | None:
        """Return the browser session in a request's cookie.

        Returns:
            None if the request has no session cookie, or if the cookie is not valid or too old.
        """
        cookie = request.cookies.get(_name(request))
        return None if cookie is None else self._sessions.read(cookie, self._clock())

    def set_session_cookie(self, request: Request, session: WebSession | None) -> None:
        """Let the response to a request set the dashboard's session cookie.

        If ``session`` is None, the response removes the cookie.
        """
        cookie_writer = Response()
        cookie_writer.set_cookie(
            _name(request),
            "" if session is None else self._sessions.signed(session),
            max_age=0 if session is None else AGE,
            path="/",
            secure=request.url.scheme == "https",
            httponly=True,
            # Not "strict": with it, a user who follows a link from a chat or an alert would seem
            # signed out. "lax" lets other sites only open our pages, which changes nothing.
            samesite="lax",
        )
        request.scope.setdefault("state", {})[COOKIE_KEY] = cookie_writer.headers["set-cookie"]

    def sign_in(self, request: Request, text: str) -> bool:
        """Begin a browser session for the access token ``text``.

        Returns:
            True if the token is valid. False if not: no session begins.
        """
        token = self._valid_token(lambda: self.tokens.find(text))
        if token is None:
            return False
        self.set_session_cookie(request, WebSession.new(self._clock(), token.id))
        return True

    def sign_in_once(self, request: Request, code: str) -> bool:
        """Sign a user in with a link's one-time code.

        The link is in a notification. The code is invalid after this call, even if the sign-in
        fails. A worker can write such a code for any token. So the token needs the scope
        ``sign-in``, which only an admin gives.

        Returns:
            True if the code and its token are valid. False if not: no session begins.

        Raises:
            Forbidden: The token lacks the scope ``sign-in``, or has the scope ``admin``.
        """
        token_id = self.tokens.take_sign_in(code)
        token = self._valid_token(lambda: self.tokens.get(token_id)) if token_id else None
        if token is None:
            return False
        if not token.may_sign_in_by_link:
            logger.warning(
                "a link wanted to sign in with the token %s of %s, which has no scope sign-in, or "
                "is an admin's: the sign-in was refused",
                token.id,
                token.name,
            )
            raise Forbidden(
                f"links cannot sign in with the token {token.id}: it needs the scope "
                f"{Scope.SIGN_IN.value!r}, and must not have admin"
            )
        self.set_session_cookie(request, WebSession.new(self._clock(), token.id))
        return True

    @property
    def _sessions(self) -> WebSessions:
        """The codec of session cookies, with the current signing key.

        The key is read from the state server each time. When the key is replaced, all cookies
        become invalid on every server process.
        """
        return WebSessions(self.tokens.signing_key())

    @staticmethod
    def _valid_token(find: Callable[[], AccessToken | None]) -> AccessToken | None:
        try:
            return find()
        except DamagedToken as error:
            logger.error("request refused: the stored token cannot be read: %s", error)
            return None


async def authenticator_of(request: Request) -> Authenticator:
    """Return the authenticator of a request's app."""
    authenticator = request.app.state.authenticator
    assert isinstance(authenticator, Authenticator)
    return authenticator


#: The authenticator of the app, as a parameter of a route's function.
AppAuthenticator = Annotated[Authenticator, Depends(authenticator_of)]


async def guard(request: Request, authenticator: AppAuthenticator) -> None:
    """Reject a request that another site made a browser send: see ``Authenticator.guard``.

    All routes of the app have this dependency.
    """
    await authenticator.guard(request)


def prepare_page(request: Request, authenticator: AppAuthenticator) -> None:
    """Prepare a request's state for a dashboard page: see ``Authenticator.prepare_page``.

    All pages have this dependency.
    """
    authenticator.prepare_page(request)


def bearer(request: Request) -> str | None:
    """Return a request's bearer token, valid or not.

    A header ``Authorization`` with another scheme is ignored: a proxy may use it for itself.

    Returns:
        None if the request has no bearer token.
    """
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def _caller(token: AccessToken | None) -> Caller:
    if token is None:
        raise Unknown(
            "the token is unknown, revoked or expired. "
            "See `perdure token list`, or create one with `perdure token create`"
        )
    return Caller(token.name, token.scopes)


def _name(request: Request) -> str:
    return SECURE_COOKIE_NAME if request.url.scheme == "https" else COOKIE_NAME
