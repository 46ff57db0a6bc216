"""References to secrets in what a flow says of a server: resolved when a session begins, and blanked in all that comes out of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flows.errors import FatalError
from flows.secrets import is_reference, scrubbed, secret_of

#: The scheme of an Authorization header, before a reference.
_SCHEME = re.compile(r"[A-Za-z]+ (?=env:)")


def refers(value: str) -> bool:
    """Whether the value is a reference, perhaps behind a scheme (``Bearer env:NAME``), and nothing else."""
    return is_reference(_SCHEME.sub("", value, count=1))


class Secrets:
    """What references stand for, and how texts look without it.

    Args:
        what: whose they are, in errors.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._known: set[str] = set()

    def resolved(self, values: Mapping[str, str]) -> dict[str, str]:
        """The values, references replaced; raises FatalError naming a variable that this worker has not, or that cannot be sent."""
        return {name: self._value(name, value) for name, value in values.items()}

    def cleaned(self, value: Any) -> Any:
        """JSON data without the secrets that were resolved."""
        if isinstance(value, str):
            return scrubbed(value, self._known)
        if isinstance(value, dict):
            return {self.cleaned(key): self.cleaned(each) for key, each in value.items()}
        return [self.cleaned(each) for each in value] if isinstance(value, list) else value

    def _value(self, name: str, value: str) -> str:
        if not refers(value):
            return value
        scheme, _, variable = value.rpartition(" ")
        secret = secret_of(variable, f"{self._what}: {name}")
        if not secret.isprintable():
            raise FatalError(f"{self._what}: {name} is {variable}, which holds characters that cannot be sent")
        self._known.add(secret)
        return f"{scheme} {secret}" if scheme else secret
