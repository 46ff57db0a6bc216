"""Tokens: made, listed, revoked, and found again when one is shown."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cached_property

from worker.access_token import ID, AccessToken, NewToken, Scope, digest_of, new_secret, parts, written
from worker.client import arguments
from worker.client.connection import Connected
from worker.errors import InvalidInput, TokenNotFound
from worker.store import ServerFull
from worker.store.tokens import TokenRecords

#: Longer than anything that is planned; what lies beyond may not be in the calendar.
LONGEST = timedelta(days=36_500)


class Tokens:
    """The tokens of the control room on the server of ``client``.

    Raises:
        StoreUnavailable: from every method, when the server does not answer; AccessDenied where the login may not see tokens.
        DamagedToken: from those that look at one.
    """

    def __init__(self, client: Connected) -> None:
        self._store = client._store
        self._records = TokenRecords(client._store)

    def create(
        self, name: str, scopes: Iterable[Scope | str], expires_in: timedelta | None = None, created_by: str | None = None
    ) -> NewToken:
        """Make a token for ``name``.

        Args:
            scopes: what it is good for; at least one.
            expires_in: after which it opens nothing; None: never.

        Raises:
            InvalidInput: nothing was stored.
        """
        arguments.submitter(name)
        if name is None:
            raise arguments.wrong("name", "a name", name)
        arguments.notes(created_by=created_by)
        wanted = frozenset(_scope(each) for each in scopes)
        if not wanted:
            raise InvalidInput(f"a token needs at least one scope: {', '.join(scope.value for scope in Scope)}")
        if expires_in is not None and not timedelta(0) < expires_in <= LONGEST:
            raise InvalidInput(f"expires_in should be a duration of at most {LONGEST.days} days, or None; it is {expires_in}")
        token_id, secret = new_secret()
        now = _moment(self._store.time())
        until = None if expires_in is None else now + expires_in
        token = AccessToken(token_id, name, wanted, digest_of(secret), now, created_by, until)
        self._records.put(token_id, token.kept())
        return NewToken(token, written(token_id, secret))

    def all(self) -> list[AccessToken]:
        """All tokens, expired ones too, oldest first."""
        return sorted((AccessToken.of(*record) for record in self._records.all().items()), key=lambda token: (token.created_at, token.id))

    def revoke(self, token_id: str) -> None:
        """Let a token open nothing any more, from the next request on; raises TokenNotFound."""
        if not ID.fullmatch(token_id) or not self._records.remove(token_id):
            raise TokenNotFound("no token has this id; holdfast token list shows those there are")  # not the id: it may be a whole token

    def find(self, text: str) -> AccessToken | None:
        """The token that is written so; None where it is unknown, revoked or expired, or its secret is another."""
        told = parts(text)
        token = self.get(told[0]) if told else None
        return token if told and token is not None and token.fits(told[1]) else None

    def get(self, token_id: str) -> AccessToken | None:
        """The token of this id, without its secret having been shown; None where it is unknown, revoked or expired."""
        record, now = self._records.get(token_id)
        if record is None:
            return None
        token = AccessToken.of(token_id, record)
        return None if token.has_expired(_moment(now)) else token

    def any(self) -> bool:
        """Whether there are tokens, expired ones too: then nobody gets in without one."""
        return self._records.any()

    @cached_property
    def _stopgap(self) -> str:
        return new_secret()[1]

    def signing_key(self) -> str:
        """What the dashboard's cookies are signed with; made when it is first needed, the same for all servers of this prefix."""
        try:
            return self._records.signing_key(new_secret()[1])
        except ServerFull:  # none was made before it was full: until there is room, cookies are this process's own
            return self._stopgap

    def sign_everybody_out(self) -> None:
        """Make all cookies worthless that were given out until now; tokens stay as they are."""
        self._records.forget_signing_key()


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _scope(value: Scope | str) -> Scope:
    if isinstance(value, Scope):
        return value
    if not isinstance(value, str) or value not in {scope.value for scope in Scope}:
        raise arguments.wrong("a scope", f"one of {', '.join(scope.value for scope in Scope)}", value)
    return Scope(value)
