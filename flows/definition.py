"""Checks of a flow's definition: whatever contradicts itself is refused before any run uses it."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flows.errors import InvalidFlow, InvalidInput

if TYPE_CHECKING:
    from flows.base import Flow

#: Names of flows, nodes and commands: they stand in keys, in URLs and on command lines.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def is_name(name: object) -> bool:
    """Whether this may name a flow or a node."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def known(name: object, names: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, and all of them."""
    every = sorted(names)
    near = difflib.get_close_matches(str(name), every, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"{meant}Known: {', '.join(every) or 'none'}"


def check_max_rounds(value: Any, what: str) -> int | None:
    """Return a limit of cycles: a whole number from 1 up, or None for no limit; raises InvalidFlow."""
    return None if value is None else check_count(value, f"{what}: max_rounds", ", or None for no limit")


def check_count(value: Any, what: str, otherwise: str = "") -> int:
    """Return a whole number from 1 up; raises InvalidFlow."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise InvalidFlow(f"{what} is {value!r}; expected a whole number of at least 1{otherwise}")


def check_nodes(flow: Flow) -> None:
    """Names and roles of the nodes, and the nodes to pause at; raises InvalidFlow."""
    what = title(flow)
    if not flow.nodes:
        raise InvalidFlow(f"{what} has no nodes; it needs at least one")
    for node, role in flow.nodes.items():
        if not is_name(node):
            raise InvalidFlow(f"{what} has a node named {node!r}; expected letters, digits, '_', '.' or '-', at most 100")
        if role not in ("controller", "executor"):
            raise InvalidFlow(f"{what}: node {node} has the role {role!r}; expected 'controller' or 'executor'")
    for setting in ("interrupt_before", "interrupt_after"):
        named = getattr(flow, setting)
        if isinstance(named, str):
            raise InvalidFlow(f"{what}: {setting} is the text {named!r}; expected a list of node names")
        for node in named:
            if node not in flow.nodes:
                raise InvalidFlow(f"{what}: {setting} names no node of it: {node!r}; {known(node, flow.nodes)}")


def check_limits(flow: Flow) -> None:
    """Cycles and seconds; raises InvalidFlow."""
    what = title(flow)
    check_max_rounds(flow.max_rounds, what)
    for setting in ("lease_seconds", "round_timeout_seconds"):
        value = getattr(flow, setting)
        if value is not None and not is_seconds(value):
            raise InvalidFlow(f"{what}: {setting} is {value!r}; expected a number of seconds above 0, or None")
    from flows.budgets import check_budgets  # here: it uses what stands above

    try:
        check_budgets(flow.budgets, f"{what}: budgets")
    except InvalidInput as error:
        raise InvalidFlow(str(error)) from error


def is_seconds(value: object) -> bool:
    """Whether this is a finite number above 0."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def title(flow: Flow) -> str:
    """How errors name a flow."""
    return f"flow {flow.name or type(flow).__name__!r}"
