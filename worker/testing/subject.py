"""Subject: the flow that a lab plays, however it was given."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from flows import registry
from flows.base import Flow
from flows.definition import is_name
from flows.errors import InvalidFlow

#: The name of a registered flow, a class, an object that is copied, a function that makes one; a class or function may take the world.
Subject = str | Flow | Callable[..., Flow]


def maker(subject: Subject, world: Any) -> Callable[[], Flow]:
    """A function that makes a fresh flow object for each round of one story; raises InvalidFlow, FlowNotFound."""
    source = _source(subject, world)
    first = source()
    if not isinstance(first, Flow):
        raise InvalidFlow(f"{subject!r} gives a {type(first).__name__}; crash_lab expects a flow: its name, a class, an object, a function")
    name = _name(first)

    def make() -> Flow:
        flow: Flow = source()
        flow.name = name
        return flow

    make().check_definition()
    return make


def _name(flow: Flow) -> str:
    """Its own, not one that it only inherits from the flows that ship."""
    kind = type(flow)
    own = "name" in vars(flow) or any("name" in vars(each) for each in kind.__mro__ if each.__module__.partition(".")[0] != "flows")
    return flow.name if own and is_name(flow.name) else registry.name_of(kind) or kind.__name__


def _source(subject: Subject, world: Any) -> Callable[[], Any]:
    if isinstance(subject, str):
        return lambda: registry.make(subject)
    if isinstance(subject, Flow):
        return lambda: copy.copy(subject)
    if not callable(subject):
        raise InvalidFlow(f"crash_lab plays flows: the name of one, a class, an object, a function that makes one; it got {subject!r}")
    function: Any = subject
    return (lambda: function(world)) if _takes_world(function) else function


def _takes_world(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # built in: it has no signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in positional and each.default is inspect.Parameter.empty for each in parameters)
