"""Checking the keys of a file: what pydantic finds wrong becomes sentences for the person who wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from flows.definition import known
from flows.summaries import safe_text
from flows.written.faults import Faults, Place
from flows.written.keys import SHAPES, Keys
from flows.written.mending import meant_shape, mend, rename

#: Keys of which not even a wrong value is shown.
_SECRET = frozenset({"env", "headers", "url"})


def read_keys(data: dict[str, Any], faults: Faults) -> Keys:
    """Check the keys; adds a fault for each that is missing, unknown or wrong.

    Returns:
        The keys without what was wrong, so that what they name can be checked as well; ``faults.blamed`` says where they are not
        what was written.

    Raises:
        InvalidFlowFile: nothing more can be said about the rest of the file.
    """
    data = deepcopy(data)
    shape = data.get("flow")
    if not isinstance(shape, str) or shape not in SHAPES:
        said = "the key flow is missing" if "flow" not in data else f"no shape of flows is named {shape!r}"
        meant = meant_shape(data)
        faults.add(("flow",), f"{said}; {known(meant or shape, SHAPES)}")
        shape = meant
        if shape is None:
            faults.check()
        data["flow"] = shape
        faults.blamed.add(("flow",))
    assert isinstance(shape, str)
    while True:
        try:
            return SHAPES[shape].model_validate(data)
        except ValidationError as error:
            if not _mended(data, _by_place(data, error), SHAPES[shape], faults):
                faults.check()
                raise


def _mended(data: dict[str, Any], wrong: Mapping[Place, list[Any]], model: type[BaseModel], faults: Faults) -> bool:
    """Report what is wrong and take it out of the data. A fault around or inside what was taken out earlier only follows from that."""
    before = set(faults.blamed)
    kinds = {place: {str(fault["type"]) for fault in found} for place, found in wrong.items()}
    misspelt = {}
    for place in [place for place, found in kinds.items() if found == {"extra_forbidden"}]:
        if (near := rename(data, place, _model_at(model, place[:-1]))) is not None:
            misspelt[place] = (*place[:-1], near)
    there = {place: found for place, found in wrong.items() if place not in misspelt.values()}  # the others are not missing
    for place, found in there.items():
        if not any(place[: len(other)] == other[: len(place)] for other in before):
            faults.add(place, " or ".join(_message(fault, place, model) for fault in found) + _instead(found[0], place))
    faults.renamed.update({place: str(written[-1]) for written, place in misspelt.items()})
    others = sorted(set(there) - set(misspelt), key=len, reverse=True)
    faults.blamed.update(others)
    return bool(misspelt or others) and all(mend(data, place, kinds[place]) for place in others)


def _by_place(data: dict[str, Any], error: ValidationError) -> dict[Place, list[Any]]:
    """What is wrong at each place; where a value may be of several kinds, only what is wrong with it as the kind that it is."""
    found: dict[Place, list[Any]] = {}
    for fault in error.errors(include_url=False):
        found.setdefault(tuple(_place(data, fault["loc"], fault["type"] == "missing")), []).append(fault)
    return {
        place: there
        for place, there in found.items()
        if not (all(_is_other_kind(fault) for fault in there) and any(other[: len(place)] == place for other in found if other != place))
    }


def _is_other_kind(fault: Any) -> bool:
    return str(fault["type"]).endswith("_type") or fault["type"] == "literal_error"


def _place(data: Any, steps: tuple[int | str, ...], missing: bool) -> Iterator[str | int]:
    """The steps that lead through the data (and to the key that is missing); the others say which kind of value was tried."""
    for number, step in enumerate(steps):
        if step in data if isinstance(data, dict) else isinstance(data, list) and isinstance(step, int):
            data = data[step]
            yield step
        elif missing and number == len(steps) - 1:
            yield step


def _message(fault: Any, place: Place, model: type[BaseModel]) -> str:
    match fault["type"]:
        case "extra_forbidden":
            return f"there is no such key; {known(place[-1], _model_at(model, place[:-1]).model_fields)}"
        case "missing":
            return "this key is missing"
        case "string_pattern_mismatch":
            return "it should be of letters, digits, '_', '.' or '-', at most 100"
        case "too_short":
            return "it should not be empty"
        case "model_type" | "dict_type" | "list_type":
            return "it should be a list" if fault["type"] == "list_type" else "it should be a mapping"
    return str(fault["msg"]).replace("Input should", "it should").replace("Value error, ", "").replace("valid string", "text")


def _instead(fault: Any, place: Place) -> str:
    """What was written; not where it may be a secret."""
    if fault["type"] in ("extra_forbidden", "missing", "told_in_full") or _SECRET.intersection(place):
        return ""
    return f", not {safe_text(repr(fault['input']), 60)}"


def _model_at(model: type[BaseModel], place: Place) -> type[BaseModel]:
    """The model whose keys stand at ``place``."""
    current: Any = model
    for step in place:
        if isinstance(current, type) and issubclass(current, BaseModel) and step in current.model_fields:
            current = current.model_fields[str(step)].annotation
            inner = next(_models_in(current), None)
            if isinstance(inner, type):
                current = inner
    assert isinstance(current, type) and issubclass(current, BaseModel)
    return current


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
