"""Door: who makes a request, by a token, by the dashboard's cookie, or, where there are no tokens, by being on this machine."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Callable

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from worker.access_token import AccessToken
from worker.client import Client
from worker.client.tokens import Tokens
from worker.errors import DamagedToken
from worker.web.access.caller import LOCAL, Caller, Forbidden, Unknown
from worker.web.access.headers import COOKIE
from worker.web.access.origin import FORMS, SAFE, is_from_browser, is_from_elsewhere, is_this_machine, names_this_machine
from worker.web.access.sessions import AGE, Session, Sessions

logger = logging.getLogger("holdfast.web")

#: What a form of ours carries, and what a request of a script of ours does.
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
#: The cookie's name; over https one that browsers take from this very host alone, and only encrypted.
NAME, SECURE_NAME = "holdfast", "__Host-holdfast"


class Door:
    """Lets in who may come in.

    Args:
        known: who makes a request, where that is known otherwise than by tokens; raises Unknown.
        open_on_loopback: whether requests over loopback need no token while there is none.
        clock: seconds since 1970, by which cookies grow old.
    """

    def __init__(
        self,
        client: Client,
        known: Callable[[Request], Caller] | None = None,
        open_on_loopback: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tokens = Tokens(client)
        self._known = known
        self._open_on_loopback = open_on_loopback
        self._clock = clock

    def caller(self, request: Request) -> Caller:
        """Who makes this request. It asks the store: call it in a thread.

        Raises:
            Unknown: nobody that is known. Forbidden: the server is open, and was asked for under a name that is not this machine's.
        """
        if self._known is not None:
            return self._known(request)
        text = bearer(request)
        if text is not None:
            return _caller(self._found(lambda: self.tokens.find(text)))
        session = self.session(request)
        if session is not None and session.token_id:
            token = self._found(lambda: self.tokens.get(session.token_id))
            if token is not None:
                return _caller(token)
        if self.is_open(request):
            return LOCAL
        raise Unknown("this takes a token that is good: Authorization: Bearer hf_..., or sign in at /login")

    def is_open(self, request: Request) -> bool:
        """Whether whoever makes this request may do everything; raises Forbidden where a browser was led here under another name."""
        if not self._open_on_loopback or not is_this_machine(request) or self.tokens.any():
            return False
        if not names_this_machine(request):
            raise Forbidden(
                "this server has no tokens, and so answers to localhost and the addresses of loopback only, not to other names that lead "
                "here; ask it under http://localhost, or make a token (holdfast token create)"
            )
        return True

    async def guard(self, request: Request) -> None:
        """Refuse what another site made a browser ask for; raises Forbidden (Unknown where nobody is signed in).

        What bears a token was not sent by a browser on its own: no other site can make it do so. All else that changes anything must not
        come from elsewhere, and where a browser may have sent it, it carries what only our own pages know. ``SameSite`` is a third fence.
        """
        if request.method in SAFE or bearer(request) is not None:
            return
        if is_from_elsewhere(request):
            raise Forbidden("this request comes from a page of another site")
        if is_from_browser(request) and not await self._is_of_our_page(request):
            await run_in_threadpool(self.caller, request)
            raise Forbidden("this page is too old, or not of this server: load it again, and repeat what you did")

    async def _is_of_our_page(self, request: Request) -> bool:
        shown: object = request.headers.get(CSRF_HEADER)
        if shown is None and request.headers.get("content-type", "").startswith(FORMS):
            shown = (await request.form()).get(CSRF_FIELD)
        expected = await run_in_threadpool(self._expected, request)
        return isinstance(shown, str) and expected is not None and hmac.compare_digest(shown.encode(), expected.encode())

    def _expected(self, request: Request) -> str | None:
        session = self.session(request)
        return None if session is None else self._sessions.csrf(session)

    def begin(self, request: Request) -> None:
        """For what answers with a page: puts ``csrf``, which its forms carry, and ``signed_in`` into ``request.state``."""
        session = self.session(request)
        if session is None:
            session = Session.new(self._clock())
            self.keep(request, session)
        request.state.csrf = self._sessions.csrf(session)
        request.state.signed_in = session.token_id != ""

    # sessions

    def session(self, request: Request) -> Session | None:
        """The session of the request's cookie, if it is good."""
        cookie = request.cookies.get(_name(request))
        return None if cookie is None else self._sessions.read(cookie, self._clock())

    def keep(self, request: Request, session: Session | None) -> None:
        """Have the response set the session's cookie; with None, remove it."""
        made = Response()
        made.set_cookie(
            _name(request),
            "" if session is None else self._sessions.signed(session),
            max_age=0 if session is None else AGE,
            path="/",
            secure=request.url.scheme == "https",
            httponly=True,
            # Not "strict": a link to a run, followed from a chat or an alert, would find nobody signed in. What "lax" lets others do,
            # lead a browser to a page of ours, changes nothing here.
            samesite="lax",
        )
        request.scope.setdefault("state", {})[COOKIE] = made.headers["set-cookie"]

    def sign_in(self, request: Request, text: str) -> bool:
        """Begin a session of the token that is written so; whether it is good."""
        token = self._found(lambda: self.tokens.find(text))
        if token is None:
            return False
        self.keep(request, Session.new(self._clock(), token.id))
        return True

    @property
    def _sessions(self) -> Sessions:
        """Asked for each time: once the key is another, all cookies are worthless, on every server at once."""
        return Sessions(self.tokens.signing_key())

    @staticmethod
    def _found(look: Callable[[], AccessToken | None]) -> AccessToken | None:
        try:
            return look()
        except DamagedToken as error:
            logger.error("a token was shown that cannot be told to be good: %s", error)
            return None


def bearer(request: Request) -> str | None:
    """The token that a request bears, good or not; other ways to say who one is, as a proxy's, are not ours and are passed over."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def _caller(token: AccessToken | None) -> Caller:
    if token is None:
        raise Unknown(
            "the token is unknown, revoked or expired; holdfast token list shows those there are, holdfast token create makes one"
        )
    return Caller(token.name, token.scopes)


def _name(request: Request) -> str:
    return SECURE_NAME if request.url.scheme == "https" else NAME
