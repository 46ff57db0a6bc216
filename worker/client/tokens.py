"""Tokens and SavedFilters: access tokens, and saved filters of the dashboard's runs table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cached_property

from perdure.worker.client.connection import ClientConnection
from perdure.worker.domain.token import (
    ID,
    AccessToken,
    NewToken,
    Scope,
    digest_of,
    new_secret,
    parts,
    written,
)
from perdure.worker.errors import InvalidInput, StoreUnavailable, TokenNotFound
from perdure.worker.operations import validation
from perdure.worker.store import ServerFull
from perdure.worker.store.refusals import shown_refusal
from perdure.worker.store.tables import FilterRecords, SignInCodes, TokenRecords

#: Longest lifetime of a token. Beyond it, the end may be outside the calendar.
LONGEST = timedelta(days=36_500)


class Tokens:
    """Access tokens of the dashboard and the HTTP API, on the state server of ``client``.

    Raises:
        StoreUnavailable: From every method, if the state server does not reply.
        AccessDenied: From every method, if the login to the state server may not access tokens.
        DamagedToken: From methods that read a token, if it is damaged.
    """

    def __init__(self, client: ClientConnection) -> None:
        self._store = client._store
        self._records = TokenRecords(client._store)

    def create(
        self,
        name: str,
        scopes: Iterable[Scope | str],
        expires_in: timedelta | None = None,
        created_by: str | None = None,
    ) -> NewToken:
        """Create an access token for a person or service.

        Args:
            name: The name of the person or service. It owns the runs that are submitted with the
                token.
            scopes: The permissions of the token, at least one.
            expires_in: The lifetime of the token. None: the token never expires.
            created_by: The person who creates the token, for the list of tokens.

        Returns:
            The token with its secret. Only a digest of the secret is stored.

        Raises:
            InvalidInput: An argument is invalid. Nothing was stored.
        """
        validation.submitter(name, "name")
        if name is None:
            raise validation.wrong("name", "a name", name)
        validation.notes(created_by=created_by)
        scope_set = frozenset(_scope(each) for each in scopes)
        if not scope_set:
            raise InvalidInput(
                f"a token needs at least one scope: {', '.join(scope.value for scope in Scope)}"
            )
        if {Scope.ADMIN, Scope.SIGN_IN} <= scope_set:
            raise InvalidInput(
                "a token with the scope admin cannot have the scope sign-in: workers make the "
                "links that sign in, so every worker could act as an admin. Create another token "
                "for the links, with the scopes sign-in, read and answer"
            )
        if expires_in is not None and not timedelta(0) < expires_in <= LONGEST:
            raise InvalidInput(
                f"expires_in: expected a duration of at most {LONGEST.days} days, or None; "
                f"got {expires_in}"
            )
        token_id, secret = new_secret()
        now = _moment(self._store.time())
        until = None if expires_in is None else now + expires_in
        token = AccessToken(token_id, name, scope_set, digest_of(secret), now, created_by, until)
        self._records.put(token_id, token.kept())
        return NewToken(token, written(token_id, secret))

    def all(self) -> list[AccessToken]:
        """Return all access tokens, oldest first. Expired tokens are among them."""
        return sorted(
            (AccessToken.of(*record) for record in self._records.all().items()),
            key=lambda token: (token.created_at, token.id),
        )

    def revoke(self, token_id: str) -> None:
        """Revoke an access token. The next request with the token is rejected already.

        Raises:
            TokenNotFound: No token has this id.
        """
        if not ID.fullmatch(token_id) or not self._records.remove(token_id):
            # The message omits the id, because the caller may have passed a whole token.
            raise TokenNotFound("no token has this id; see: perdure token list")

    def find(self, text: str) -> AccessToken | None:
        """Return the access token that a text contains, and check its secret.

        Args:
            text: The token as ``create`` wrote it, with id and secret.

        Returns:
            The token. None if the text is not a token, if the token is unknown, revoked or expired,
                or if its secret is wrong.
        """
        id_and_secret = parts(text)
        token = self.get(id_and_secret[0]) if id_and_secret else None
        return (
            token if id_and_secret and token is not None and token.fits(id_and_secret[1]) else None
        )

    def get(self, token_id: str) -> AccessToken | None:
        """Return the access token with this id, without a check of a secret.

        Returns:
            The token, or None if it is unknown, revoked or expired.
        """
        record, now = self._records.get(token_id)
        if record is None:
            return None
        token = AccessToken.of(token_id, record)
        return None if token.has_expired(_moment(now)) else token

    def take_sign_in(self, code: str) -> str | None:
        """Return the token id of a one-time sign-in code, and invalidate the code.

        Returns:
            The id of the token. None if the code is unknown, used or expired.
        """
        return SignInCodes(self._store).take(digest_of(code))

    def any(self) -> bool:
        """Return whether any access token exists. An expired token counts too.

        If any exists, the HTTP API and the dashboard require a token.
        """
        return self._records.any()

    @cached_property
    def _temporary_key(self) -> str:
        return new_secret()[1]

    def signing_key(self) -> str:
        """Return the key that signs the dashboard's cookies.

        The key is stored on first use, and all server processes with the same Redis prefix share
        it. If no key is stored and the state server refuses writes, return a key that only this
        object has.
        """
        try:
            return self._records.signing_key(new_secret()[1])
        except ServerFull:
            # The server is full and has no key yet, so sign with a key of this process only.
            return self._temporary_key
        except StoreUnavailable as error:
            # The same with a full disk: a server that refuses writes still answers reads.
            if shown_refusal(str(error)) is None:
                raise
            return self._temporary_key

    def sign_everybody_out(self) -> None:
        """Invalidate all cookies of the dashboard.

        All its users must sign in again. Access tokens stay valid.
        """
        self._records.forget_signing_key()


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _scope(value: Scope | str) -> Scope:
    if isinstance(value, Scope):
        return value
    if not isinstance(value, str) or value not in {scope.value for scope in Scope}:
        raise validation.wrong(
            "a scope", f"one of {', '.join(scope.value for scope in Scope)}", value
        )
    return Scope(value)


#: Maximum characters of a name, which is shown on a button, and of a query, as browsers send it.
LONGEST_NAME, LONGEST_QUERY = 60, 2000
#: Maximum number of filters per owner: their buttons stand beside each other.
MOST = 50


class SavedFilters:
    """The filters of the dashboard's runs table that ``owner`` has saved, on the state server."""

    def __init__(self, client: ClientConnection, owner: str) -> None:
        validation.submitter(owner, "owner")
        self._records = FilterRecords(client._store, owner)

    def all(self) -> dict[str, str]:
        """Return the owner's saved filters: queries by the filter's name, sorted by name."""
        return dict(sorted(self._records.all().items(), key=lambda pair: pair[0].casefold()))

    def save(self, name: str, query: str) -> None:
        """Save a filter: a query under a name. A filter with the same name is replaced.

        Raises:
            InvalidInput: The name is not one line of text, the name or the query is too long, or
                the owner has too many filters.
        """
        validation.text(name, "name")
        validation.text(query, "query")
        if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise InvalidInput(
                f"name of a filter: expected one line of 1 to {LONGEST_NAME} characters, "
                f"got {name[:LONGEST_NAME]!r}"
            )
        if len(query) > LONGEST_QUERY:
            raise InvalidInput(
                f"the query of a filter has {len(query)} characters; the limit is {LONGEST_QUERY}"
            )
        if len({*self._records.all(), name}) > MOST:
            raise InvalidInput(
                f"there are {MOST} saved filters already, which is the limit; remove one first"
            )
        self._records.put(name, query)

    def forget(self, name: str) -> None:
        """Delete a saved filter. Nothing happens if no filter has this name."""
        validation.text(name, "name")
        self._records.remove(name)
