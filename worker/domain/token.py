"""AccessToken: a credential for the dashboard and the HTTP API, and its permissions.

Only the SHA-256 of a token's secret is stored. A slow hash (argon2, bcrypt) would not help. Such a
hash makes each guess expensive, which protects secrets that people invent. But 256 random bits
cannot be guessed at any speed, and a slow hash would make every request slow.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from perdure.worker.errors import DamagedToken

#: Text form of a token: ``hf_ID_SECRET``, with a secret of 256 bits.
WRITTEN = re.compile(r"hf_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
ID = re.compile(r"[0-9a-f]{16}")


class Scope(Enum):
    """A permission of a token on the runs that the token's owner submitted.

    ``admin`` permits everything, on all runs. ``read-all`` and ``answer-all`` permit the same as
    ``read`` and ``answer``, but on the runs of all owners. ``sign-in`` permits no call: it allows
    links in notifications to sign in to the dashboard with the token.
    """

    READ = "read"
    READ_ALL = "read-all"
    SUBMIT = "submit"
    ANSWER = "answer"
    ANSWER_ALL = "answer-all"
    STOP = "stop"
    SIGNAL = "signal"
    ADMIN = "admin"
    SIGN_IN = "sign-in"


#: By scope: the scope that permits the same on the runs of all owners.
WIDER: Mapping[Scope, Scope] = {Scope.READ: Scope.READ_ALL, Scope.ANSWER: Scope.ANSWER_ALL}


@dataclass(frozen=True)
class AccessToken:
    """A token as it is stored, without its secret.

    Attributes:
        id: Public id of the token.
        name: The token's owner. The owner of a run is the name of the token that submitted it.
            Several tokens may have the same name.
        scopes: Permissions of the bearer.
        digest: SHA-256 of the secret. It is never shown.
        created_at, created_by: When and by whom the token was made.
        expires_at: Time from which the token grants no access. None if it never expires.
    """

    id: str
    name: str
    scopes: frozenset[Scope]
    digest: str = field(repr=False)
    created_at: datetime
    created_by: str | None = None
    expires_at: datetime | None = None

    def fits(self, secret: str) -> bool:
        """Return whether ``secret`` is the secret of this access token.

        The comparison takes constant time, so its duration does not reveal where the secrets
        differ.
        """
        return hmac.compare_digest(self.digest.encode(), digest_of(secret).encode())

    @property
    def may_sign_in_by_link(self) -> bool:
        """Whether links in notifications may sign in with this token.

        It needs the scope ``sign-in``, and is never allowed with the scope ``admin``. Workers make
        these links, so any program with a worker's access to the state server can sign in with such
        a token.
        """
        return Scope.SIGN_IN in self.scopes and Scope.ADMIN not in self.scopes

    def has_expired(self, now: datetime) -> bool:
        """Return whether the access token has expired at ``now``."""
        return self.expires_at is not None and now >= self.expires_at

    def to_dict(self) -> dict[str, Any]:
        """Return the token's public facts as JSON data, without the digest."""
        return {
            "id": self.id,
            "name": self.name,
            "scopes": sorted(scope.value for scope in self.scopes),
            "created_at": self.created_at.isoformat(),
            "created_by": self.created_by,
            "expires_at": None if self.expires_at is None else self.expires_at.isoformat(),
        }

    def kept(self) -> str:
        """Return the token's JSON text for the store, without the id."""
        stored_fields = {**self.to_dict(), "digest": self.digest}
        del stored_fields["id"]
        return json.dumps(stored_fields)

    @classmethod
    def of(cls, token_id: str, text: str) -> AccessToken:
        """Build a token from its id and its stored JSON text.

        Raises:
            DamagedToken: The stored text cannot be read.
        """
        try:
            stored_fields = json.loads(text)
            return cls(
                token_id,
                str(stored_fields["name"]),
                frozenset(map(Scope, stored_fields["scopes"])),
                str(stored_fields["digest"]),
                _moment(stored_fields["created_at"]),
                stored_fields["created_by"],
                None
                if stored_fields["expires_at"] is None
                else _moment(stored_fields["expires_at"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            # The message omits the text, because that holds the digest.
            raise DamagedToken(
                f"the stored record of token {token_id} cannot be read ({type(error).__name__}); "
                f"remove it with: perdure token revoke {token_id}"
            ) from None


@dataclass(frozen=True)
class NewToken:
    """A new access token with its text.

    The text contains the secret, which is not stored. So it cannot be shown again later.
    """

    token: AccessToken
    text: str = field(repr=False)


def new_secret() -> tuple[str, str]:
    """Return a random id and secret for a token."""
    return secrets.token_hex(8), secrets.token_urlsafe(32)


def written(token_id: str, secret: str) -> str:
    """Return the text that the token's owner sends: ``hf_ID_SECRET``."""
    return f"hf_{token_id}_{secret}"


def parts(text: str) -> tuple[str, str] | None:
    """Return the id and the secret in a token's text. None if it is malformed."""
    match = WRITTEN.fullmatch(text)
    return (match[1], match[2]) if match else None


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a token's secret, in hexadecimal."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
