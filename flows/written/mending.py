"""A copy of a file's data without the faults already told, so that what is wrong elsewhere in it can be told too."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from flows.written.faults import Place
from flows.written.keys import SHAPES

#: What stands for a value that is required and not there; nothing is told about it.
_FILLERS: dict[str | int, Any] = {"controller": "person", "subflows_config": [], "tools": ["x"]}


def nearest(name: object, names: Iterable[str]) -> str | None:
    """The known name that was meant, as far as that can be seen."""
    return next(iter(difflib.get_close_matches(str(name), sorted(names), n=1)), None)


def meant_shape(data: Mapping[str, Any]) -> str | None:
    """The shape of a file that names none: that of a very near name, else the one shape that its keys fit best."""
    if near := difflib.get_close_matches(str(data.get("flow")), sorted(SHAPES), n=1, cutoff=0.8):
        return near[0]
    misfits = {shape: _misfits(data, model) for shape, model in SHAPES.items()}
    best = [shape for shape, count in misfits.items() if count == min(misfits.values())]
    return best[0] if len(best) == 1 else None


def mend(data: dict[str, Any], place: Place, kinds: set[str]) -> bool:
    """Take out the wrong value at ``place``, or put in what is missing; False where the data has no such place."""
    if not place:
        return False
    around, last = _at(data, place[:-1]), place[-1]
    if isinstance(around, list) and isinstance(last, int):
        around[last] = _unnamed(last) if place[-2] == "topology" else "x"
    elif not isinstance(around, dict) or not isinstance(last, str):
        return False
    elif last not in around:
        around[last] = _filler(place)
    elif kinds <= {"model_type", "dict_type"} and around[last] != {}:
        around[last] = {}
    else:
        del around[last]
    return True


def rename(data: dict[str, Any], place: Place, model: type[BaseModel]) -> str | None:
    """Give the value of a misspelt key to the key that was meant, and return that; None where none is near, or it is there too."""
    around = _at(data, place[:-1])
    near = nearest(place[-1], model.model_fields)
    if near is None or near in around:
        return None
    around[near] = around.pop(place[-1])
    return near


def _misfits(data: Mapping[str, Any], model: type[BaseModel]) -> int:
    """How many keys the shape does not know, and how many it needs that are not there."""
    meant = {nearest(key, model.model_fields) for key in data}
    missing = [key for key, field in model.model_fields.items() if field.is_required() and key not in {*meant, "flow"}]
    return sum(nearest(key, model.model_fields) is None for key in data) + len(missing)


def _at(data: Any, place: Place) -> Any:
    for step in place:
        data = data[step]
    return data


def _filler(place: Place) -> Any:
    if place[-1] == "name":
        return _unnamed(place[-2])["name"]
    return [_unnamed(0)] if place[-1] == "topology" else _FILLERS.get(place[-1], "x")


def _unnamed(position: str | int) -> dict[str, Any]:
    """A node that is different from all others; a run can have none of this name, for such a flow is never made."""
    return {"name": f"unnamed.{position}"}
