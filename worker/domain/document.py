"""Document: base of the frozen dataclasses that clients see. Python, HTTP and --json share them.

The fields of such a class determine ``to_dict``, ``from_dict`` and, through pydantic, its schema in
OpenAPI. A new object is not validated, because a damaged run must be readable, and because a list
makes thousands of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from enum import Enum
from functools import cache, partial
from inspect import getdoc
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter, WithJsonSchema
from pydantic_core import CoreSchema

from perdure.worker.domain.execution_state import ExecutionState


class Document:
    """Base of the frozen dataclasses that clients see. A text below a field describes the field."""

    #: Names of the document's members, in order. Properties and methods can be members too. Empty:
    #: the fields.
    _members: ClassVar[tuple[str, ...]] = ()
    #: Names in JSON data that differ from the attribute's, by attribute.
    _aliases: ClassVar[Mapping[str, str]] = {}
    #: Members that may be absent. ``from_dict`` reads None then.
    _later: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build an object of the client API from the JSON data that ``to_dict`` returned.

        Raises:
            KeyError: A field is missing.
            ValueError: A field has an impossible value.
        """
        values = {}
        # mypy does not see that classes are hashable.
        for name, key, read, is_optional in _readers(cls):  # type: ignore[arg-type]
            value = data.get(key) if is_optional else data[key]
            values[name] = value if read is None or value is None else read(value)
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return this object of the client API as JSON data."""
        data = {}
        for name, key, write in _writers(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            data[key] = value if write is None or value is None else write(value)
        return data


class DescribedBy:
    """Annotation of a JSON value that OpenAPI describes as a ``kind``."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return pydantic's schema of the class ``kind``. The annotated type is ignored."""
        return handler.generate_schema(self._kind)


#: A time as ISO 8601 text, in dicts of JSON data.
TimeText = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]


def absent(value: str | int) -> Any:
    """Return an annotation for a member that may be absent. Its default is ``value``."""
    return Field(json_schema_extra={"default": value})


#: A text that is empty if it is absent.
MaybeText = Annotated[str, absent("")]
#: A boolean that is false if it is absent.
Flag = Annotated[bool, absent(False)]
#: Settings of the TypedDicts that describe dicts of JSON data: a text below a key describes it.
CLOSED = ConfigDict(extra="forbid", use_attribute_docstrings=True)
#: As ``CLOSED``, for dicts that may have further keys.
OPEN = ConfigDict(extra="allow", use_attribute_docstrings=True)
#: A function that makes a value from another.
Convert = Callable[[Any], Any]


@cache
def _readers(cls: Any) -> list[tuple[str, str, Convert | None, bool]]:
    """Return how to read the fields of a document class from JSON data.

    The result is cached for each class.

    Returns:
        For each field its name, its name in the JSON data, the function that converts its value
        (None: no conversion), and whether the JSON data may lack it.
    """
    hints = get_type_hints(cls)
    return [
        (
            each.name,
            cls._aliases.get(each.name, each.name),
            _reader(hints[each.name]),
            each.name in cls._later,
        )
        for each in fields(cls)
    ]


@cache
def _writers(cls: Any) -> list[tuple[str, str, Convert | None]]:
    """Return how to write the members of a document class as JSON data.

    The result is cached for each class.

    Returns:
        For each member its name, its name in the JSON data, and the function that converts its
        value (None: no conversion).
    """
    names = cls._members or [each.name for each in fields(cls)]
    return [(name, cls._aliases.get(name, name), _writer(_hint_of(cls, name))) for name in names]


def _hint_of(cls: Any, name: str) -> Any:
    """Return the type of a class's field or property.

    For a method, return ``Callable``.
    """
    hints = get_type_hints(cls)
    if name in hints:
        return hints[name]
    member = getattr(cls, name)
    return get_type_hints(member.fget)["return"] if isinstance(member, property) else Callable


def _kinds(hint: Any) -> Iterator[type]:
    """Yield the classes that occur in a type annotation.

    A union yields each of its classes. A generic type yields its origin and its arguments.
    """
    for each in (hint, *get_args(hint)):
        kind = get_origin(each) or each
        if isinstance(kind, type):
            yield kind


def _reader(hint: Any) -> Convert | None:
    """Return the function that converts JSON data to a value of this type.

    Return None if the value needs no conversion.
    """
    for kind in _kinds(hint):
        if issubclass(kind, datetime):
            return datetime.fromisoformat
        if issubclass(kind, Enum):
            return kind
        if issubclass(kind, Document | ExecutionState):
            return kind.from_dict if kind is hint else partial(_read_all, kind.from_dict)
        if kind is tuple:
            return tuple
    return None


def _read_all(read: Convert, items: list[Any]) -> list[Any]:
    return [read(each) for each in items]


def _writer(hint: Any) -> Convert | None:
    """Return the function that converts a value of this type to JSON data.

    Return None if the value needs no conversion.
    """
    if hint is Callable:
        return lambda method: list(method())
    for kind in _kinds(hint):
        if issubclass(kind, datetime):
            return datetime.isoformat
        if issubclass(kind, Enum):
            return _value_of
        if issubclass(kind, Document | ExecutionState):
            return _to_dict if kind is hint else lambda items: [each.to_dict() for each in items]
        if kind in (Mapping, dict):
            return dict
        if kind is tuple:
            return list
    return None


def _value_of(member: Enum) -> Any:
    return member.value


def _to_dict(document: Any) -> dict[str, Any]:
    data: dict[str, Any] = document.to_dict()
    return data


def _describe(schema: dict[str, Any], cls: type[Document]) -> None:
    """Add to a document's schema, in place, the facts that pydantic does not know.

    These are the members that are not fields, the names that differ in the JSON data, and that
    every member is always written. Before version 2.13, it does not read the class's
    docstring either.
    """
    schema.setdefault("description", getdoc(cls))
    properties = schema["properties"]
    for each in properties.values():
        each.pop("default", None)  # each member is always written
    for name in cls._members:
        if name not in properties:
            member = getattr(cls, name)
            hint = get_type_hints(getattr(member, "fget", member))["return"]
            properties[name] = {**TypeAdapter(hint).json_schema(), "description": getdoc(member)}
    for name, alias in cls._aliases.items():
        properties[alias] = properties.pop(name)
    schema["required"] = [name for name in properties if name not in cls._later]


# Set here because the function above needs the class.
Document.__pydantic_config__ = ConfigDict(  # type: ignore[attr-defined]
    extra="forbid",
    use_attribute_docstrings=True,
    json_schema_extra=_describe,
)
