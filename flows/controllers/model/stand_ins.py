"""Fake models that replace the models of providers in this process, for tests (``FakeModel``).

A flow names such a model ``fake:NAME``. A test can also let one of them replace every model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.flows.controllers.model.chat import Model
from perdure.flows.core.errors import FatalError
from perdure.flows.core.names import suggest
from perdure.flows.rounds.context import RoundContext

#: The beginning of the name of a model that stands in.
PREFIX = "fake:"
#: Returns the model for the request of one round.
Opener = Callable[[RoundContext], Model]

_openers: dict[str, Opener] = {}
#: The names of the models that replace every model, the newest last.
_in_use: list[str] = []


def keep(name: str, opener: Opener) -> None:
    """Register a fake model as ``fake:NAME`` in this process.

    Args:
        opener: Returns the model for the request of one round.
    """
    _openers[PREFIX + name] = opener


def begin(name: str) -> None:
    """Let the fake model that is registered under ``name`` replace every model in this process.

    It does so until ``end``. If several have begun, the last one counts.
    """
    _in_use.append(PREFIX + name)


def end(name: str) -> None:
    """End the replacement that ``begin`` started with this name."""
    _in_use.remove(PREFIX + name)


def stand_in_for(model: str | None) -> str | None:
    """Return the name of the fake model that replaces a model.

    Args:
        model: The flow's model.

    Returns:
        None if no fake model replaces it.
    """
    if _in_use:
        return _in_use[-1]
    return model if model is not None and model.startswith(PREFIX) else None


def fault_of_stand_in(name: str) -> str | None:
    """Return a sentence that says why a name like ``fake:NAME`` is unknown.

    Returns:
        None if the name has another form. An empty text if the name is known.
    """
    if not name.startswith(PREFIX):
        return None
    return "" if name in _openers else _unknown(name)


def opened(name: str, context: RoundContext) -> Any:
    """Return the named fake model for a round.

    Raises:
        FatalError: No fake model has this name in this process.
    """
    if name not in _openers:
        raise FatalError(_unknown(name))
    return _openers[name](context)


def _unknown(name: str) -> str:
    return (
        f"no model is named {name!r} in this process; {suggest(name, _openers)}. Name the "
        "module that makes it in flow_modules (PERDURE_FLOW_MODULES)"
    )
