"""Check of inputs against the JSON Schema that a worker announced.

A client without the flow's code uses this check. The worker validates the inputs with pydantic
before the first round. So the check must reject nothing that pydantic accepts, such as ``"5"`` for
a number. It ignores keywords of the schema that it does not know.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

#: Maximum depth to which a schema is followed for one value. It may refer to itself without end.
DEEPEST = 50
#: Characters of a value that an error shows.
SHOWN = 60
#: Texts that pydantic reads as booleans.
BOOLEANS = {"0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"}
#: Formats of texts that pydantic also reads from numbers.
FORMATS_OF_NUMBERS = {"date-time", "date", "time", "duration"}
#: Words of the error text for each expected type.
WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "a text",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
#: Keywords that limit numbers, each with its words in an error and its comparison.
LIMITS: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "minimum": ("at least", operator.ge),
    "maximum": ("at most", operator.le),
    "exclusiveMinimum": ("more than", operator.gt),
    "exclusiveMaximum": ("less than", operator.lt),
}


def faults_of(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Return a value's violations of a JSON Schema as texts.

    Each text begins with the path of the wrong part in ``value`` (or ``inputs`` for all of it), and
    says what was expected.

    Returns:
        The texts. The list is empty if this check finds no violation.
    """
    return [f"{place or 'inputs'}: {fault}" for place, fault in _faults(schema, value, "", schema)]


def _faults(
    schema: Any, value: Any, place: str, root: Mapping[str, Any], depth: int = 0
) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, Mapping) or depth > DEEPEST:
        return
    deeper = depth + 1
    if "$ref" in schema:
        yield from _faults(_referred(schema["$ref"], root), value, place, root, deeper)
    for each in _list(schema.get("allOf")):
        yield from _faults(each, value, place, root, deeper)
    for keyword in ("anyOf", "oneOf"):
        choices = _list(schema.get(keyword))
        found = [list(_faults(each, value, place, root, deeper)) for each in choices]
        if found and all(found):
            # The choice that fits best has its fault deepest in the value.
            yield from max(found, key=lambda faults: len(faults[0][0]))
    if "const" in schema and not _is_one_of(value, [schema["const"]]):
        yield place, f"expected {schema['const']!r}, got {_shown(value)}"
    known = schema.get("enum")
    if isinstance(known, list) and not _is_one_of(value, known):
        yield place, f"expected one of {', '.join(map(repr, known))}, got {_shown(value)}"
    yield from _faults_of_type(schema, value, place, root, deeper)


def _faults_of_type(
    schema: Mapping[str, Any], value: Any, place: str, root: Mapping[str, Any], depth: int
) -> Iterator[tuple[str, str]]:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if not any(_is(each, value, schema) for each in kinds):
        words = " or ".join(WORDS.get(str(each), str(each)) for each in kinds)
        yield place, f"expected {words}, got {_shown(value)}"
    elif isinstance(value, Mapping) and "object" in kinds:
        yield from _faults_of_object(schema, value, place, root, depth)
    elif isinstance(value, list) and "array" in kinds:
        yield from _faults_of_list(schema, value, place, root, depth)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        for keyword, (words, holds) in LIMITS.items():
            limit = schema.get(keyword)
            if isinstance(limit, int | float) and not holds(value, limit):
                yield place, f"expected {words} {limit:g}, got {_shown(value)}"
    elif isinstance(value, str) and "string" in kinds:
        yield from _faults_of_length(schema, value, "Length", "characters", place)


def _faults_of_object(
    schema: Mapping[str, Any],
    value: Mapping[str, Any],
    place: str,
    root: Mapping[str, Any],
    depth: int,
) -> Iterator[tuple[str, str]]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    others = schema.get("additionalProperties")
    for name in _list(schema.get("required")):
        if name not in value:
            yield _at(place, name), "is missing"
    for name, each in value.items():
        if name in properties:
            yield from _faults(properties[name], each, _at(place, name), root, depth)
        elif others is False:
            yield _at(place, name), "is unknown"
        else:
            yield from _faults(others, each, _at(place, name), root, depth)


def _faults_of_list(
    schema: Mapping[str, Any],
    value: list[Any],
    place: str,
    root: Mapping[str, Any],
    depth: int,
) -> Iterator[tuple[str, str]]:
    yield from _faults_of_length(schema, value, "Items", "entries", place)
    first = _list(schema.get("prefixItems"))
    for number, each in enumerate(value):
        of = first[number] if number < len(first) else schema.get("items")
        yield from _faults(of, each, _at(place, number), root, depth)


def _faults_of_length(
    schema: Mapping[str, Any], value: str | list[Any], what: str, words: str, place: str
) -> Iterator[tuple[str, str]]:
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    if isinstance(least, int) and len(value) < least:
        yield place, f"expected at least {least} {words}, got {len(value)}"
    if isinstance(most, int) and len(value) > most:
        yield place, f"expected at most {most} {words}, got {len(value)}"


def _is_one_of(value: Any, known: list[Any]) -> bool:
    """Return whether ``value`` is in ``known``. The text of a number counts as the number."""
    number = _number(value)
    return value in known or (number is not None and number in known)


def _is(kind: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether pydantic accepts a value as the JSON Schema type ``kind``.

    The result is True if ``kind`` is unknown or None. ``schema`` has the type's ``format``.
    """
    match kind:
        case "integer":
            number = _number(value)
            return number is not None and number == number // 1
        case "number":
            return _number(value) is not None
        case "boolean":
            text = value.lower() if isinstance(value, str) else str(value)
            return isinstance(value, bool) or text in BOOLEANS or value in (0, 1)
        case "string":
            is_number = isinstance(value, int | float)
            return isinstance(value, str) or (
                is_number and schema.get("format") in FORMATS_OF_NUMBERS
            )
        case "null":
            return value is None
        case "array":
            return isinstance(value, list | tuple | set | frozenset)
        case "object":
            return isinstance(value, Mapping)
    return True


def _number(value: Any) -> float | None:
    """Return the number that pydantic reads from a value. None if it is no number."""
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _referred(reference: Any, root: Mapping[str, Any]) -> Any:
    """Return the schema that a ``$ref`` names. None if the ``$defs`` of ``root`` lack it."""
    name = str(reference).removeprefix("#/$defs/")
    definitions = root.get("$defs")
    return definitions.get(name) if isinstance(definitions, Mapping) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _at(place: str, name: object) -> str:
    return f"{place}.{name}" if place else str(name)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
