"""Prefix: the fields of a run's hash whose names begin alike, found among many whose names do not."""

from __future__ import annotations

from collections.abc import Mapping

#: No more are remembered once there are so many that do not begin so. A run has about fifty that the engine made, the same in every run.
MOST = 200


class Prefix:
    """Finds such names, and remembers those that are none: where a round has none at all, as most have, it takes a fifth of the time."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._others: set[str] = set()

    def names(self, fields: Mapping[str, str]) -> list[str]:
        """The names in ``fields`` that begin with the prefix, in their order."""
        others = self._others
        if others.issuperset(fields):
            return []
        unknown = [name for name in fields if name not in others]
        found = [name for name in unknown if name.startswith(self.text)]
        if len(found) < len(unknown) and len(others) < MOST:
            others.update(set(unknown).difference(found))
        return found
