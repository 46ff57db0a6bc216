"""Subject: the flow that a lab runs: a name, a class, an object or a function."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from perdure.flows.core.errors import InvalidFlow
from perdure.flows.core.names import is_name
from perdure.flows.rounds import registry
from perdure.flows.rounds.flow import Flow

#: Name of a registered flow, a class, an object to copy, or a function that makes a flow. A class
#: or function may take the story's outside world as its argument.
Subject = str | Flow | Callable[..., Flow]


def maker(subject: Subject, world: Any) -> Callable[[], Flow]:
    """Return a function that makes a new flow object for each round of a story's run.

    Args:
        world: The story's outside world. It is passed to a class or function that has a positional
            parameter without a default.

    Raises:
        InvalidFlow: The subject is not a flow, or its definition is invalid.
        FlowNotFound: No registered flow has this name.
    """
    source = _source(subject, world)
    first = source()
    if not isinstance(first, Flow):
        raise InvalidFlow(
            "crash_lab: expected a flow (its name, a class, an object or a function); "
            f"{subject!r} returned a {type(first).__name__}"
        )
    name = _name(first)

    def make() -> Flow:
        """Return a new object of the lab's flow."""
        flow: Flow = source()
        flow.name = name
        return flow

    make().check_definition()
    return make


def _name(flow: Flow) -> str:
    """Return the name of a flow: its own, else the registered name, else its class's name.

    A name that the flow inherits from a flow of Perdure does not count as its own.
    """
    kind = type(flow)
    own = "name" in vars(flow) or any(
        "name" in vars(each)
        for each in kind.__mro__
        if not each.__module__.startswith("perdure.flows.")
    )
    return flow.name if own and is_name(flow.name) else registry.name_of(kind) or kind.__name__


def _source(subject: Subject, world: Any) -> Callable[[], Any]:
    if isinstance(subject, str):
        return lambda: registry.make(subject)
    if isinstance(subject, Flow):
        return lambda: copy.copy(subject)
    if not callable(subject):
        raise InvalidFlow(
            "crash_lab: expected a flow (its name, a class, an object or a function); "
            f"got {subject!r}"
        )
    function: Any = subject
    return (lambda: function(world)) if _takes_world(function) else function


def _takes_world(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # A builtin has no signature.
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(
        each.kind in positional and each.default is inspect.Parameter.empty for each in parameters
    )
