"""Caller: who asks, and what they may."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from worker.access_token import Scope as Scope  # noqa: PLC0414  of the same words
from worker.errors import Forbidden as Forbidden  # noqa: PLC0414  clients meet them too
from worker.errors import UnknownCaller

Unknown = UnknownCaller


@dataclass(frozen=True)
class Caller:
    """Somebody who asks for something.

    Attributes:
        name: whose runs they submit and see.
        scopes: what they may.
    """

    name: str
    scopes: frozenset[Scope]

    @property
    def is_admin(self) -> bool:
        return Scope.ADMIN in self.scopes

    @property
    def sees_only(self) -> str | None:
        """Whose runs they see; None: everybody's."""
        return None if self.is_admin else self.name

    def may(self, scope: Scope) -> bool:
        return self.is_admin or scope in self.scopes

    def require(self, scope: Scope) -> None:
        """Raise Forbidden unless they may."""
        if not self.may(scope):
            raise Forbidden(f"{self.name} may not do this: it takes the scope {scope.value!r}, and theirs are {_listed(self.scopes)}")


def _listed(scopes: Iterable[Scope]) -> str:
    return ", ".join(sorted(scope.value for scope in scopes)) or "none"


#: Whoever reaches a server that has no tokens, and therefore listens on loopback only.
LOCAL = Caller("local", frozenset({Scope.ADMIN}))
