"""Signed session cookies of the dashboard.

A cookie identifies the user by the id of an access token. It never holds the token's secret.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from itsdangerous import BadSignature, URLSafeSerializer

#: Seconds until a user has to sign in again: a working day.
AGE = 12 * 3600


@dataclass(frozen=True)
class WebSession:
    """A session of one browser.

    Attributes:
        id: A random text, new at each sign-in.
        token_id: Id of the access token that the user signed in with. '' before the sign-in: such a
            session only protects the forms.
        begun: When the session began, in seconds since 1970.
    """

    id: str
    token_id: str
    begun: int

    @classmethod
    def new(cls, now: float, token_id: str = "") -> WebSession:
        """Return a new browser session that begins ``now``.

        ``now`` is in seconds since 1970.
        """
        return cls(secrets.token_urlsafe(16), token_id, int(now))


class WebSessions:
    """Signing and reading of session cookies.

    Args:
        key: The signing key. All server processes have the same key, so that each accepts the
            cookies of the others.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._serializer = URLSafeSerializer(
            key,
            salt="perdure.session",
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )

    def signed(self, session: WebSession) -> str:
        """Return a browser session as a signed cookie value."""
        text = self._serializer.dumps([session.id, session.token_id, session.begun])
        assert isinstance(text, str)
        return text

    def read(self, cookie: str, now: float) -> WebSession | None:
        """Return the browser session in a signed cookie.

        Returns:
            None if the signature is not valid, the session is older than AGE, or its beginning is
            after ``now`` (in seconds since 1970).
        """
        try:
            session_fields = self._serializer.loads(cookie)
        except BadSignature:
            return None
        session = WebSession(*session_fields)
        return session if 0 <= now - session.begun < AGE else None

    def csrf(self, session: WebSession) -> str:
        """Return the CSRF token of a browser session. No other site can know it."""
        return hmac.new(
            self._key.encode(), f"csrf {session.id}".encode(), hashlib.sha256
        ).hexdigest()
