"""Node functions by name, so that a ring written in YAML can name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flows.names import Names

_F = TypeVar("_F", bound=Callable[..., Any])

#: Functions of the ring's state and the context, as ``flows.Node`` takes them.
registered_nodes: Names[Callable[..., Any]] = Names("node")


def node(name: str) -> Callable[[_F], _F]:
    """Register a function of the ring's state (a dict) and the ``RoundContext`` under ``name``.

    Raises:
        InvalidFlow: the name will not do, or another function has it.
    """

    def keep(function: _F) -> _F:
        registered_nodes.keep(name, function)
        return function

    return keep
