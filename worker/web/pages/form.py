"""Form: the inputs of a flow as fields that people fill in, made from their JSON schema, and what was filled in as values again. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from worker.words.numbers import figure

Kind = Literal["text", "long", "number", "integer", "flag", "choice", "lines", "line_or_lines", "json"]

#: Texts that may be longer than this are asked for in an area of several lines.
ONE_LINE = 200
#: The field's kind by the type that a schema names.
KINDS: Mapping[str, Kind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "flag"}
#: How a flow without a schema is asked: everything as one JSON object.
EVERYTHING = "inputs"


@dataclass(frozen=True)
class Field:
    """One thing to fill in.

    Attributes:
        kind: ``lines`` is a list of texts, one a line; ``line_or_lines`` the same, or a text where there is but one; ``json`` whatever
            nothing else fits.
        required: whether an empty field is an error; else it is left out, and the flow's default stands.
        filled: what stands in it at first. choices: what may be chosen, as JSON text and words.
    """

    name: str
    kind: Kind
    label: str
    required: bool = False
    description: str = ""
    filled: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    minimum: float | None = None
    maximum: float | None = None


class NotFilledIn(ValueError):
    """What stands in a field is not what it is for; the text says what was expected and what came."""


def fields_of(schema: Mapping[str, Any] | None) -> list[Field]:
    """The fields of a flow's inputs; one for everything where there is no schema, or one that allows names that it does not list."""
    if schema is None or (schema.get("additionalProperties") and not schema.get("properties")):
        return [Field(EVERYTHING, "json", "Inputs", filled="{}", description="The inputs as a JSON object.")]
    required = set(schema.get("required", ()))
    return [_field(name, _resolved(each, schema), name in required) for name, each in schema.get("properties", {}).items()]


def values_of(fields: Sequence[Field], given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The inputs that were filled in, and what is wrong, by field. ``given``: the form's texts, unticked boxes left out."""
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for field in fields:
        text = given.get(field.name, "")
        try:
            if field.kind == "flag":
                values[field.name] = bool(text)
            elif text.strip():
                values[field.name] = read(field, text)
            elif field.required:
                raise NotFilledIn("expected something here; it is empty")
        except NotFilledIn as error:
            faults[field.name] = str(error)
    if [field.name for field in fields] == [EVERYTHING] and fields[0].kind == "json" and EVERYTHING in values:
        everything = values[EVERYTHING]
        if not isinstance(everything, dict):
            return {}, {EVERYTHING: f"expected a JSON object; it is {_short(given[EVERYTHING])}"}
        return everything, faults
    return values, faults


def read(field: Field, text: str) -> Any:
    """The value that a text in this field stands for; raises NotFilledIn."""
    match field.kind:
        case "text" | "choice":
            text = text.strip()
            return _chosen(field, text) if field.kind == "choice" else text
        case "long":
            return text.replace("\r\n", "\n")
        case "lines" | "line_or_lines":
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            return lines[0] if field.kind == "line_or_lines" and len(lines) == 1 else lines
        case "integer" | "number":
            return _bounded(field, _number(field, text.strip()))
        case _:
            return _json(text)


def write(field: Field, value: Any) -> str:
    """What stands in the field for this value; '' for None, and for a flag that is off."""
    if value is None or (value is False and field.kind == "flag"):
        return ""
    match field.kind:
        case "flag":
            return "on"
        case "text" | "long":
            return str(value)
        case "lines" | "line_or_lines":
            return value if isinstance(value, str) else "\n".join(map(str, value))
        case _:
            return json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, dict | list) else None)


def _field(name: str, schema: Mapping[str, Any], required: bool) -> Field:
    kind = _kind(schema)
    choices = tuple((json.dumps(value, ensure_ascii=False), _words(value)) for value in _values(schema)) if kind == "choice" else ()
    bare = Field(
        name=name,
        kind=kind,
        label=str(schema.get("title") or name.replace("_", " ")),
        required=required and kind != "flag",
        description=str(schema.get("description") or ""),
        choices=choices,
        minimum=_bound(schema, "minimum", "exclusiveMinimum"),
        maximum=_bound(schema, "maximum", "exclusiveMaximum"),
    )
    default = schema.get("default")
    return Field(**{**vars(bare), "filled": write(bare, default)})


def _kind(schema: Mapping[str, Any]) -> Kind:
    if _values(schema):
        return "choice"
    if schema.get("type") == "boolean" and schema.get("nullable"):
        return "choice"
    if _is_texts(schema):
        return "lines"
    either = schema.get("anyOf", ())
    if len(either) == 2 and either[0].get("type") == "string" and _is_texts(either[1]):
        return "line_or_lines"
    kind = KINDS.get(str(schema.get("type")), "json")
    long = schema.get("maxLength", 0) > ONE_LINE or "\n" in str(schema.get("default", ""))
    return "long" if kind == "text" and long else kind


def _is_texts(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "array" and schema.get("items", {}).get("type") == "string"


def _values(schema: Mapping[str, Any]) -> list[Any]:
    """What may be chosen, where that is a list."""
    if "const" in schema:
        return [schema["const"]]
    if schema.get("type") == "boolean" and schema.get("nullable"):
        return [True, False]
    return list(schema.get("enum", ()))


def _resolved(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with its reference followed, and "this or nothing" as ``nullable``; what is more complicated is asked as JSON."""
    found = dict(schema)
    for _ in range(10):  # references to references; one that leads to itself is no input anybody could give
        if "$ref" in found:
            target = whole.get("$defs", {}).get(str(found.pop("$ref")).rpartition("/")[2], {})
            found = {**target, **found}
        elif len(found.get("allOf", ())) == 1:
            found = {**found.pop("allOf")[0], **found}
        else:
            break
    others = [each for each in found.get("anyOf", ()) if each.get("type") != "null"]
    if "anyOf" in found and len(others) == 1 and len(others) < len(found["anyOf"]):
        del found["anyOf"]
        found = {**_resolved(others[0], whole), **found, "nullable": True}
    return found


def _number(field: Field, text: str) -> Any:
    expected = "a whole number" if field.kind == "integer" else "a number"
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    fits = isinstance(value, int if field.kind == "integer" else int | float) and not isinstance(value, bool)
    if not fits or not -math.inf < value < math.inf:
        raise NotFilledIn(f"expected {expected}; it is {_short(text)}")
    return value


def _bounded(field: Field, value: float) -> float:
    if field.minimum is not None and value < field.minimum:
        raise NotFilledIn(f"expected at least {figure(field.minimum)}; it is {value}")
    if field.maximum is not None and value > field.maximum:
        raise NotFilledIn(f"expected at most {figure(field.maximum)}; it is {value}")
    return value


def _chosen(field: Field, text: str) -> Any:
    if text not in {value for value, _ in field.choices}:
        raise NotFilledIn(f"expected one of {', '.join(words for _, words in field.choices)}; it is {_short(text)}")
    return json.loads(text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotFilledIn(f"expected JSON; {error}") from error


def _bound(schema: Mapping[str, Any], *names: str) -> float | None:
    """The bound that a field shows; one that is excluded itself is the flow's own to enforce."""
    found = [schema[name] for name in names if isinstance(schema.get(name), int | float) and not isinstance(schema[name], bool)]
    return found[0] if found else None


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
