"""AccessToken: what a caller of the control room shows to be let in, and what he may do with it.

What is kept of a token's secret is its SHA-256. A slow hash (argon2, bcrypt) would gain nothing: it protects secrets that people think up,
by making each guess dear, and 256 random bits are not guessed at any speed; but it would make every request slow.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from worker.errors import DamagedToken

#: As it is written: ``hf_ID_SECRET``, the secret 256 bits.
WRITTEN = re.compile(r"hf_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
ID = re.compile(r"[0-9a-f]{16}")


class Scope(Enum):
    """What a caller may do with the runs that are theirs; ``admin``: everything, with everybody's."""

    READ = "read"
    SUBMIT = "submit"
    ANSWER = "answer"
    STOP = "stop"
    ADMIN = "admin"


@dataclass(frozen=True)
class AccessToken:
    """A token as it is kept.

    Attributes:
        id: names it, and is no secret.
        name: whose runs its bearer submits and sees; several tokens may have the same.
        scopes: what he may.
        digest: of its secret; shown nowhere.
        created_at, created_by: when, and by whom.
        expires_at: from when on it opens nothing; None: never.
    """

    id: str
    name: str
    scopes: frozenset[Scope]
    digest: str = field(repr=False)
    created_at: datetime
    created_by: str | None = None
    expires_at: datetime | None = None

    def fits(self, secret: str) -> bool:
        """Whether this is its secret; how long that takes to tell says nothing about where it differs."""
        return hmac.compare_digest(self.digest.encode(), digest_of(secret).encode())

    def has_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def to_dict(self) -> dict[str, Any]:
        """All that may be shown, as JSON data."""
        return {
            "id": self.id,
            "name": self.name,
            "scopes": sorted(scope.value for scope in self.scopes),
            "created_at": self.created_at.isoformat(),
            "created_by": self.created_by,
            "expires_at": None if self.expires_at is None else self.expires_at.isoformat(),
        }

    def kept(self) -> str:
        """As it is stored, without its id."""
        told = {**self.to_dict(), "digest": self.digest}
        del told["id"]
        return json.dumps(told)

    @classmethod
    def of(cls, token_id: str, text: str) -> AccessToken:
        """What ``kept`` wrote; raises DamagedToken."""
        try:
            told = json.loads(text)
            return cls(
                token_id,
                str(told["name"]),
                frozenset(map(Scope, told["scopes"])),
                str(told["digest"]),
                _moment(told["created_at"]),
                told["created_by"],
                None if told["expires_at"] is None else _moment(told["expires_at"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            # Not the text itself: it holds the digest.
            raise DamagedToken(
                f"the record of token {token_id} does not read ({type(error).__name__}); holdfast token revoke {token_id} removes it"
            ) from None


@dataclass(frozen=True)
class NewToken:
    """A token that was just made; the one time that its secret is known."""

    token: AccessToken
    text: str = field(repr=False)


def new_secret() -> tuple[str, str]:
    """An id, and a secret."""
    return secrets.token_hex(8), secrets.token_urlsafe(32)


def written(token_id: str, secret: str) -> str:
    """The token as its bearer has it."""
    return f"hf_{token_id}_{secret}"


def parts(text: str) -> tuple[str, str] | None:
    """The id and the secret of a token as it is written; None where that cannot be one."""
    found = WRITTEN.fullmatch(text)
    return (found[1], found[2]) if found else None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
