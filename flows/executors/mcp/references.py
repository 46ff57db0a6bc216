"""References to secrets: ``env:NAME`` in a flow, the worker's variable of that name at the moment of use, and never anywhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from flows.errors import RetryableError

#: A reference, and before it the scheme of an Authorization header.
_REFERENCE = re.compile(r"(?P<scheme>[A-Za-z]+ )?env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
#: What is shorter is no secret, and would blank out half of every text.
_SHORTEST = 4
_BLANK = "[secret]"


def is_reference(value: str) -> bool:
    """Whether the value is a reference and nothing else."""
    return _REFERENCE.fullmatch(value) is not None


class Secrets:
    """What references stand for, and how texts look without it.

    Args:
        what: whose they are, in errors.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._known: set[str] = set()

    def resolved(self, values: Mapping[str, str]) -> dict[str, str]:
        """The values, references replaced; raises RetryableError naming a variable that this worker has not (another one may)."""
        return {name: self._value(name, value) for name, value in values.items()}

    def cleaned(self, value: Any) -> Any:
        """JSON data without the secrets that were resolved."""
        if isinstance(value, str):
            for secret in self._known:
                value = value.replace(secret, _BLANK)
            return value
        if isinstance(value, dict):
            return {self.cleaned(key): self.cleaned(each) for key, each in value.items()}
        return [self.cleaned(each) for each in value] if isinstance(value, list) else value

    def _value(self, name: str, value: str) -> str:
        found = _REFERENCE.fullmatch(value)
        if found is None:
            return value
        variable = found["name"]
        secret = os.environ.get(variable, "").strip()
        if not secret:
            raise RetryableError(f"{self._what}: {name} refers to env:{variable}, but this worker has no such variable; set it and restart")
        if not secret.isprintable():
            raise RetryableError(f"{self._what}: {name} refers to env:{variable}, which holds characters that cannot be sent")
        if len(secret) >= _SHORTEST:
            self._known.add(secret)
        return (found["scheme"] or "") + secret
