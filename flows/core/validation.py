"""Validation of single values in a flow's definition, and texts for errors of pydantic."""

from __future__ import annotations

import math
from typing import Any

from pydantic import ValidationError

from perdure.flows.core.errors import InvalidFlow


def check_limit(value: Any, what: str) -> int | None:
    """Validate a limit of a flow, and return it.

    Args:
        value: a whole number of at least 1, or None for no limit.
        what: the setting, for the error.

    Raises:
        InvalidFlow: the value is something else.
    """
    return None if value is None else check_count(value, what, ", or None for no limit")


def check_count(value: Any, what: str, otherwise: str = "") -> int:
    """Validate that a setting is a whole number of at least 1, and return it.

    Args:
        what: the setting, for the error.
        otherwise: the allowed alternative, for the error.

    Raises:
        InvalidFlow: the value is something else.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise InvalidFlow(f"{what} is {value!r}; expected a whole number of at least 1{otherwise}")


def is_seconds(value: object) -> bool:
    """Return whether a value is a valid number of seconds: finite and above 0."""
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value > 0
    )


def faults_text(error: ValidationError) -> str:
    """Return pydantic's errors as one text, each with the path of the value and the expectation."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" if fault["loc"] else fault["msg"]
        for fault in faults
    )
