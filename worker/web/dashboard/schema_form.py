"""Form fields for a flow's inputs, from the flow's JSON schema.

The module also turns the entered texts into values. Its functions have no side effects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from perdure.worker.presentation.text import figure

Kind = Literal[
    "text", "long", "number", "integer", "flag", "choice", "lines", "line_or_lines", "json"
]

#: Maximum length of a text field on one line. Longer texts get an area of several lines.
ONE_LINE = 200
#: Kind of field by the type that a schema names.
KINDS: Mapping[str, Kind] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "flag",
}
#: Name of the field for inputs that the schema does not name, as one JSON object. If an input has
#: this name, the field has a longer one.
OTHERS = "*"


@dataclass(frozen=True)
class Field:
    """One field of the form.

    Attributes:
        kind: ``lines``: a list of texts, one per line. ``line_or_lines``: a text if there is one
            line, else such a list. ``flag``: a boolean. ``json`` is used if no other kind fits.
        required: Whether an empty field is an error. If not, an empty field leaves its input out,
            and the flow's default applies.
        filled: The field's initial text.
        choices: The possible values, as pairs of JSON text and label.
        minimum, maximum: Limits of a number. None: no limit.
        is_others: Whether the field takes all inputs that the schema does not name.
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
    is_others: bool = False


class MissingField(ValueError):
    """Raised when a field has no text or an invalid one. The error names the expected value."""


def fields_of(schema: Mapping[str, Any] | None) -> list[Field]:
    """Return the form fields for a flow's JSON schema.

    For a flow that accepts inputs of any name, the last field takes these inputs as JSON. A flow
    without a schema (None) has only that field.
    """
    schema = {"additionalProperties": True} if schema is None else schema
    required = set(schema.get("required", ()))
    fields = [
        _field(name, _resolved(each, schema), name in required)
        for name, each in schema.get("properties", {}).items()
    ]
    if schema.get("additionalProperties"):
        label = "Further inputs" if fields else "Inputs"
        description = f"{label} as a JSON object."
        name = OTHERS
        while name in schema.get("properties", {}):
            name += OTHERS
        fields.append(
            Field(name, "json", label, filled="{}", description=description, is_others=True)
        )
    return fields


def values_of(
    fields: Sequence[Field], texts: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the entered inputs by name, and the faults by field.

    An empty or invalid field has no input. But a flag that is not ticked is False.

    Args:
        texts: The form's texts by the field's name. Boxes that are not ticked are missing.
    """
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    others: dict[str, Any] = {}
    for field in fields:
        text = texts.get(field.name, "")
        try:
            if field.kind == "flag":
                values[field.name] = bool(text)
            elif field.is_others and text.strip():
                others = read(field, text)
                if not isinstance(others, dict):
                    raise MissingField(f"expected a JSON object, got {_short(text)}")
            elif text.strip():
                values[field.name] = read(field, text)
            elif field.required:
                raise MissingField("expected a value, but the field is empty")
        except MissingField as error:
            faults[field.name] = str(error)
    return (values if faults else {**others, **values}), faults


def texts_of(fields: Sequence[Field], values: Mapping[str, Any]) -> dict[str, str]:
    """Return a form's texts for inputs, by field name.

    ``values_of`` turns these texts into the same inputs. Inputs without a field are dropped.
    """
    names = {field.name for field in fields if not field.is_others}
    others = {name: value for name, value in values.items() if name not in names}
    own = {name: value for name, value in values.items() if name in names}
    own |= {field.name: others for field in fields if field.is_others and others}
    return {field.name: write(field, own[field.name]) for field in fields if field.name in own}


def read(field: Field, text: str) -> Any:
    """Return the input value for the text of a form field.

    Raises:
        MissingField: The text is not a valid value of this field.
    """
    match field.kind:
        case "text" | "choice":
            text = text.strip()
            return _chosen(field, text) if field.kind == "choice" else text
        case "long":
            return text.replace("\r\n", "\n")
        case "lines" | "line_or_lines":
            listed = _as_json_texts(text)
            if listed is not None and (field.kind != "lines" or isinstance(listed, list)):
                return listed
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            return lines[0] if field.kind == "line_or_lines" and len(lines) == 1 else lines
        case "integer" | "number":
            return _bounded(field, _number(field, text.strip()))
        case _:
            return _json(text)


def write(field: Field, value: Any) -> str:
    """Return the text of a form field for an input value. ``read`` is the reverse.

    The text is '' for None, and for a flag that is False.
    """
    if value is None or (value is False and field.kind == "flag"):
        return ""
    match field.kind:
        case "flag":
            return "on"
        case "text" | "long":
            return str(value)
        case "lines" | "line_or_lines":
            items = value if isinstance(value, list) else [value]
            if (
                all(isinstance(each, str) and is_line(each) for each in items)
                and _as_json_texts("\n".join(items)) is None
            ):
                return "\n".join(items)
            # A text with a line break would come back as two. An older schema had other values.
            return json.dumps(value)
        case _:
            return json.dumps(
                value, ensure_ascii=False, indent=2 if isinstance(value, dict | list) else None
            )


def is_line(text: str) -> bool:
    """Return whether a text fits on one line unchanged.

    It is then read back from a text area as it was written.
    """
    return text.isprintable() and text == text.strip() != ""


def _as_json_texts(text: str) -> str | list[str] | None:
    """Return the text or list of texts in JSON.

    Returns:
        None if ``text`` is not JSON, or is JSON of another type.
    """
    if text.lstrip()[:1] not in ("[", '"'):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return value if is_list or isinstance(value, str) else None


def _field(name: str, schema: Mapping[str, Any], required: bool) -> Field:
    kind = _kind(schema)
    choices = (
        tuple((json.dumps(value, ensure_ascii=False), _label(value)) for value in _values(schema))
        if kind == "choice"
        else ()
    )
    bare = Field(
        name=name,
        kind=kind,
        label=_title(name, schema),
        required=required and kind != "flag",
        description=str(schema.get("description") or ""),
        choices=choices,
        minimum=_bound(schema, "minimum", "exclusiveMinimum"),
        maximum=_bound(schema, "maximum", "exclusiveMaximum"),
    )
    default = schema.get("default")
    return Field(**{**vars(bare), "filled": write(bare, default)})


def _title(name: str, schema: Mapping[str, Any]) -> str:
    """Return the title of an input from its schema, or else the input's name.

    A title that pydantic derived from the name is not used: code and API use the name itself.
    """
    title = str(schema.get("title") or name)
    return name if title == name.replace("_", " ").title() else title


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
    """Return the values that a JSON schema lists. Empty if the schema lists none.

    A nullable boolean counts as a list of True and False.
    """
    if "const" in schema:
        return [schema["const"]]
    if schema.get("type") == "boolean" and schema.get("nullable"):
        return [True, False]
    return list(schema.get("enum", ()))


def _resolved(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return an input's JSON schema with its references resolved.

    ``anyOf`` of one schema and null becomes that schema with ``nullable: true``.

    Args:
        whole: The flow's schema, which has the definitions (``$defs``).
    """
    resolved = dict(schema)
    # References may be nested. The limit ends a reference to itself, which no input could match.
    for _ in range(10):
        if "$ref" in resolved:
            target = whole.get("$defs", {}).get(str(resolved.pop("$ref")).rpartition("/")[2], {})
            resolved = {**target, **resolved}
        elif len(resolved.get("allOf", ())) == 1:
            resolved = {**resolved.pop("allOf")[0], **resolved}
        else:
            break
    others = [each for each in resolved.get("anyOf", ()) if each.get("type") != "null"]
    if "anyOf" in resolved and len(others) == 1 and len(others) < len(resolved["anyOf"]):
        del resolved["anyOf"]
        resolved = {**_resolved(others[0], whole), **resolved, "nullable": True}
    return resolved


def _number(field: Field, text: str) -> Any:
    expected = "a whole number" if field.kind == "integer" else "a number"
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    fits = isinstance(value, int if field.kind == "integer" else int | float) and not isinstance(
        value, bool
    )
    if not fits or not -math.inf < value < math.inf:
        raise MissingField(f"expected {expected}, got {_short(text)}")
    return value


def _bounded(field: Field, value: float) -> float:
    if field.minimum is not None and value < field.minimum:
        raise MissingField(f"expected at least {figure(field.minimum)}, got {value}")
    if field.maximum is not None and value > field.maximum:
        raise MissingField(f"expected at most {figure(field.maximum)}, got {value}")
    return value


def _chosen(field: Field, text: str) -> Any:
    if text not in {value for value, _ in field.choices}:
        raise MissingField(
            f"expected one of {', '.join(label for _, label in field.choices)}, got {_short(text)}"
        )
    return json.loads(text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MissingField(f"expected JSON: {error}") from error


def _bound(schema: Mapping[str, Any], *names: str) -> float | None:
    """Return the minimum or maximum of a field from its JSON schema.

    The form treats an exclusive bound as inclusive. The flow itself enforces it exactly.

    Args:
        names: The keys of the schema in which to look, the preferred one first.

    Returns:
        None if no key has a number.
    """
    bounds = [
        schema[name]
        for name in names
        if isinstance(schema.get(name), int | float) and not isinstance(schema[name], bool)
    ]
    return bounds[0] if bounds else None


def _label(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
