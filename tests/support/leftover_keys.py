"""The keys that a test left in its server. The suite looks for them after each test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol


class Scans(Protocol):
    """The needed methods of a Redis client."""

    def scan_iter(
        self, match: str | None = None, count: int | None = None
    ) -> Iterator[bytes | str]: ...


def keys_under(client: Scans, prefix: str) -> list[str]:
    """Return the keys that begin with `prefix`, sorted: empty after a test that cleaned up."""
    return [key for key in _keys(client) if key.startswith(prefix)]


def keys_outside(client: Scans, prefix: str, allowed: Iterable[str] = ()) -> list[str]:
    """Return the keys without `prefix` or one of `allowed` in front, sorted: always empty."""
    ours = (prefix, *allowed)
    return [key for key in _keys(client) if not key.startswith(ours)]


def _keys(client: Scans) -> list[str]:
    """Return all keys; matched here and not by SCAN, so that a prefix may hold `*`, `?` or
    brackets.
    """
    found = client.scan_iter(count=1000)
    return sorted(
        {key.decode(errors="backslashreplace") if isinstance(key, bytes) else key for key in found}
    )
