"""Sessions: the dashboard's signed cookie. It says who is signed in by the id of a token, never by its secret."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from itsdangerous import BadSignature, URLSafeSerializer

#: Seconds until one has to sign in again: a working day.
AGE = 12 * 3600


@dataclass(frozen=True)
class Session:
    """One browser's.

    Attributes:
        id: random; a new one at each sign-in.
        token_id: of the token that was signed in with; empty where nobody has: such a session is there for its forms.
        begun: when (seconds since 1970).
    """

    id: str
    token_id: str
    begun: int

    @classmethod
    def new(cls, now: float, token_id: str = "") -> Session:
        """One that begins now."""
        return cls(secrets.token_urlsafe(16), token_id, int(now))


class Sessions:
    """Signs sessions and reads them back.

    Args:
        key: the same on every server, so that any of them takes what another has signed.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._serializer = URLSafeSerializer(
            key, salt="holdfast.session", signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256}
        )

    def signed(self, session: Session) -> str:
        """The cookie's value."""
        text = self._serializer.dumps([session.id, session.token_id, session.begun])
        assert isinstance(text, str)
        return text

    def read(self, cookie: str, now: float) -> Session | None:
        """The session of a cookie; None where it is too old, or was not signed by us."""
        try:
            told = self._serializer.loads(cookie)
        except BadSignature:
            return None
        session = Session(*told)
        return session if 0 <= now - session.begun < AGE else None

    def csrf(self, session: Session) -> str:
        """What the forms of this session carry, and no other site can know."""
        return hmac.new(self._key.encode(), f"csrf {session.id}".encode(), hashlib.sha256).hexdigest()
