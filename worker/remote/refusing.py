"""Refusing: what Client can be asked for and a control room cannot."""

from __future__ import annotations

from worker.errors import InvalidInput


def not_here(**given: object) -> None:
    """Raise InvalidInput where somebody is named: over HTTP it is always the token that says who."""
    for name, value in given.items():
        if value is not None:
            raise InvalidInput(f"{name} cannot be given to a control room, which knows by the token who asks; leave it out")
