"""Validation of a file's keys. Errors of pydantic become sentences for the file's author.

A value with a reported fault is removed or replaced in a copy of the file's data, so that further
faults can be found.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from perdure.flows.core.names import suggest
from perdure.flows.core.summaries import safe_text
from perdure.flows.loading.errors import FileFaults, Place
from perdure.flows.loading.schema import SHAPES, Keys

#: Values put in for required ones that are missing. They cause no faults.
_FILLERS: dict[str | int, Any] = {"controller": "person", "subflows_config": [], "tools": ["x"]}


def nearest(name: object, names: Iterable[str]) -> str | None:
    """Return the most similar name, which was probably meant. None if no name is similar."""
    return next(iter(difflib.get_close_matches(str(name), sorted(names), n=1)), None)


def meant_shape(data: Mapping[str, Any]) -> str | None:
    """Return the shape (``circular``, ...) that a flow file probably means.

    Its key ``flow`` is missing or wrong. The result is the shape with a very similar name, else the
    shape that fits the other keys best.

    Returns:
        None if several shapes fit equally well.
    """
    if near := difflib.get_close_matches(str(data.get("flow")), sorted(SHAPES), n=1, cutoff=0.8):
        return near[0]
    misfits = {shape: _misfits(data, model) for shape, model in SHAPES.items()}
    best = [shape for shape, count in misfits.items() if count == min(misfits.values())]
    return best[0] if len(best) == 1 else None


def mend(data: dict[str, Any], place: Place, kinds: set[str]) -> bool:
    """Remove or replace a wrong value in a copy of a flow file's data.

    If the value is missing, add one.

    Args:
        data: The copy, which is changed in place.
        place: The path of the value.
        kinds: The types of pydantic's errors about the value.

    Returns:
        False if the data has no such path, and was not changed.
    """
    if not place:
        return False
    container, last = _at(data, place[:-1]), place[-1]
    if isinstance(container, list) and isinstance(last, int):
        container[last] = _unnamed(last) if place[-2] == "topology" else "x"
    elif not isinstance(container, dict) or not isinstance(last, str):
        return False
    elif last not in container:
        container[last] = _filler(place)
    elif kinds <= {"model_type", "dict_type"} and container[last] != {}:
        container[last] = {}
    else:
        del container[last]
    return True


def rename(data: dict[str, Any], place: Place, model: type[BaseModel]) -> str | None:
    """Move the value of a misspelt key to the most similar key of a model.

    Args:
        data: The data, which is changed in place.
        place: The path of the misspelt key.
        model: The model of the keys at this path.

    Returns:
        The most similar key. None if no key is similar, or if the data already has it. The data is
            then unchanged.
    """
    container = _at(data, place[:-1])
    near = nearest(place[-1], model.model_fields)
    if near is None or near in container:
        return None
    container[near] = container.pop(place[-1])
    return near


def _misfits(data: Mapping[str, Any], model: type[BaseModel]) -> int:
    """Return the number of keys by which the data does not fit a shape.

    They are the keys that the shape does not know, and the required keys that are missing. A
    misspelt key counts as the most similar key.
    """
    meant = {nearest(key, model.model_fields) for key in data}
    missing = [
        key
        for key, field in model.model_fields.items()
        if field.is_required() and key not in {*meant, "flow"}
    ]
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
    """Return the data of a node that has only a unique valid name.

    It replaces a node with a wrong name. No run ever contains it, because a flow with faults is
    never made.
    """
    return {"name": f"unnamed.{position}"}


#: Keys whose values are never shown, because they may contain secrets.
_SECRET = frozenset({"env", "headers", "url"})


def read_keys(data: dict[str, Any], faults: FileFaults) -> Keys:
    """Validate the keys of a flow file. Faults are added to ``faults``.

    A key may be missing, unknown or wrong.

    Returns:
        The keys without the wrong ones, so that the names in the rest can be checked too.
            ``faults.blamed`` has the paths at which the result differs from the file.

    Raises:
        InvalidFlowFile: The rest of the file cannot be checked.
    """
    data = deepcopy(data)
    shape = data.get("flow")
    if not isinstance(shape, str) or shape not in SHAPES:
        problem = (
            "the key flow is missing"
            if "flow" not in data
            else f"no shape of flows is named {shape!r}"
        )
        meant = meant_shape(data)
        faults.add(("flow",), f"{problem}; {suggest(meant or shape, SHAPES)}")
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


def _mended(
    data: dict[str, Any],
    wrong: Mapping[Place, list[Any]],
    model: type[BaseModel],
    faults: FileFaults,
) -> bool:
    """Record pydantic's errors as faults of a flow file, and mend the wrong values.

    An error around or inside a value that was removed or replaced earlier is a consequence of that,
    and is not recorded.

    Args:
        data: The data, which is changed in place.
        wrong: The errors, by the path of the value.
        model: The model of the file's shape.

    Returns:
        False if a wrong value could not be removed or replaced.
    """
    before = set(faults.blamed)
    kinds = {place: {str(fault["type"]) for fault in errors} for place, errors in wrong.items()}
    misspelt = {}
    for place in [place for place, errors in kinds.items() if errors == {"extra_forbidden"}]:
        if (near := rename(data, place, _model_at(model, place[:-1]))) is not None:
            misspelt[place] = (*place[:-1], near)
    # A key whose misspelt form is in the file is not missing.
    errors_by_place = {
        place: errors for place, errors in wrong.items() if place not in misspelt.values()
    }
    for place, errors in errors_by_place.items():
        if not any(place[: len(other)] == other[: len(place)] for other in before):
            faults.add(
                place,
                " or ".join(_message(fault, place, model) for fault in errors)
                + _instead(errors[0], place),
            )
    faults.renamed.update({place: str(written[-1]) for written, place in misspelt.items()})
    others = sorted(set(errors_by_place) - set(misspelt), key=len, reverse=True)
    faults.blamed.update(others)
    return bool(misspelt or others) and all(mend(data, place, kinds[place]) for place in others)


def _by_place(data: dict[str, Any], error: ValidationError) -> dict[Place, list[Any]]:
    """Return pydantic's errors about a flow file's data, by the path of the value.

    If a value may be of several types, pydantic reports errors for each type. Only the errors for
    the actual type are returned.
    """
    errors: dict[Place, list[Any]] = {}
    for fault in error.errors(include_url=False):
        errors.setdefault(tuple(_place(data, fault["loc"], fault["type"] == "missing")), []).append(
            fault
        )
    return {
        place: local
        for place, local in errors.items()
        if not (
            all(_is_other_kind(fault) for fault in local)
            and any(other[: len(place)] == place for other in errors if other != place)
        )
    }


def _is_other_kind(fault: Any) -> bool:
    """Return whether pydantic's error only says that the value has another type."""
    return str(fault["type"]).endswith("_type") or fault["type"] == "literal_error"


def _place(data: Any, steps: tuple[int | str, ...], missing: bool) -> Iterator[str | int]:
    """Yield the steps of an error's path that exist in the data.

    A missing key at the end of the path is included. Other steps are left out: they are pydantic's
    names of the types that it tried.

    Args:
        missing: Whether the error is that the last key is missing.
    """
    for number, step in enumerate(steps):
        if (
            step in data
            if isinstance(data, dict)
            else isinstance(data, list) and isinstance(step, int)
        ):
            data = data[step]
            yield step
        elif missing and number == len(steps) - 1:
            yield step


def _message(fault: Any, place: Place, model: type[BaseModel]) -> str:
    """Convert an error of pydantic to a sentence for the author of a flow file."""
    match fault["type"]:
        case "extra_forbidden":
            return f"unknown key; {suggest(place[-1], _model_at(model, place[:-1]).model_fields)}"
        case "missing":
            return "this key is missing"
        case "string_pattern_mismatch":
            return "it should be letters, digits, '_', '.' or '-', at most 100 characters"
        case "too_short":
            return "it should not be empty"
        case "model_type" | "dict_type" | "list_type":
            return (
                "it should be a list" if fault["type"] == "list_type" else "it should be a mapping"
            )
    return (
        str(fault["msg"])
        .replace("Input should", "it should")
        .replace("Value error, ", "")
        .replace("valid string", "text")
    )


def _instead(fault: Any, place: Place) -> str:
    """Return the end of a fault's sentence, which shows the wrong value.

    Returns:
        An empty text if the value may be a secret, or if the fault is not about the value.
    """
    if fault["type"] in ("extra_forbidden", "missing", "told_in_full") or _SECRET.intersection(
        place
    ):
        return ""
    return f", not {safe_text(repr(fault['input']), 60)}"


def _model_at(model: type[BaseModel], place: Place) -> type[BaseModel]:
    """Return the pydantic model of the keys at a path of a flow file."""
    current: Any = model
    for step in place:
        if (
            isinstance(current, type)
            and issubclass(current, BaseModel)
            and step in current.model_fields
        ):
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
