"""Interfaces: what stands between a ring's state and a node, known by name, so that data can name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flows.definition import known
from flows.errors import InvalidFlow
from flows.names import Names

Transform = Callable[[dict[str, Any]], Mapping[str, Any]]
#: A registered name, a function, ``{"rename": {old: new}, "select": [names]}``, or None, which passes all on.
Interface = str | Transform | Mapping[str, Any] | None

_interfaces: Names[Transform] = Names("interface")


def interface(name: str) -> Callable[[Transform], Transform]:
    """Register a function from a dict to a dict under ``name``; raises InvalidFlow if another one has the name."""
    return lambda function: _interfaces.keep(name, function)


def resolve(given: Interface) -> Transform:
    """The function that an interface stands for; raises InvalidFlow, naming the nearest known interface or key."""
    if given is None:
        return dict
    if isinstance(given, str):
        return _interfaces.named(given)
    if callable(given):
        return given
    if not isinstance(given, Mapping):
        raise InvalidFlow(f"{given!r} is no interface; expected a name, a function, a mapping with 'rename' and 'select', or None")
    return _keys(given)


def _keys(given: Mapping[str, Any]) -> Transform:
    for key in given:
        if key not in ("rename", "select"):
            raise InvalidFlow(f"an interface has no setting {key!r}; {known(key, ['rename', 'select'])}")
    rename, select = given.get("rename", {}), given.get("select")
    if not isinstance(rename, Mapping) or not (select is None or _is_list(select)):
        raise InvalidFlow(f"{dict(given)!r} is no interface; expected 'rename' as a mapping of names and 'select' as a list of names")

    def transform(data: dict[str, Any]) -> dict[str, Any]:
        # Names that are not there are passed over: in a ring's first cycle much is not there yet.
        renamed = {name: value for name, value in data.items() if name not in rename}
        renamed.update({new: data[old] for old, new in rename.items() if old in data})
        return renamed if select is None else {name: renamed[name] for name in select if name in renamed}

    return transform


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


@interface("command_to_branch")
def command_to_branch(data: dict[str, Any]) -> dict[str, Any]:
    """``command`` and ``command_args``, as a controller gives them, become what a ``BranchingFlow`` takes."""
    return {**data, "branch": data.get("command"), "branch_input_data": data.get("command_args")}


@interface("branch_to_observation")
def branch_to_observation(data: dict[str, Any]) -> dict[str, Any]:
    """What a ``BranchingFlow`` gives becomes the ``observation``."""
    return {"observation": data.get("branch_output_data")}
