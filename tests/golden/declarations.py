"""Declarations: what a public name promises to its callers, described without modules and prose."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from types import ModuleType
from typing import Any

from celery import Celery
from pydantic import BaseModel

from tests.golden.golden_files import PACKAGES, without_modules

#: Methods with underscores that callers use through the language.
PROTOCOLS = (
    "__aenter__", "__aexit__", "__aiter__", "__anext__", "__call__", "__contains__", "__enter__",
    "__exit__", "__getitem__", "__iter__", "__len__", "__next__",
)  # fmt: skip
#: Reprs with an address or a function in them say nothing that stays.
_PASSING = re.compile(r" at 0x|<function|<built-in|<class|<object")


def exported(module: ModuleType) -> dict[str, str]:
    """Return the descriptions of all names that a module exports, and of their members."""
    lines: dict[str, str] = {}
    for name in module.__all__:
        lines |= describe(name, getattr(module, name))
    return lines


def describe(name: str, value: Any) -> dict[str, str]:
    """Return what a public object is, and each thing that its users can see of it, by name."""
    if inspect.isclass(value):
        return describe_class(name, value)
    if isinstance(value, Celery):
        return {name: "celery app"}
    if inspect.isroutine(value):
        return {name: describe_signature("function", value)}
    if inspect.ismodule(value):
        return {name: "module"}
    return {name: f"value {type(value).__name__} = {describe_default(value)}"}


def describe_class(name: str, cls: type) -> dict[str, str]:
    """Return a class's kind, bases, constructor, fields and public members, inherited ones too.

    Bases of the product that are not exported are left out: they are a way to split a file.
    """
    fields = _fields(cls)
    members = cls.__members__ if issubclass(cls, enum.Enum) else {}
    described = {name: f"{_kind(cls)} ({', '.join(_bases(cls))})"}
    described |= {f"{name}.{key}": f"field {text}" for key, text in fields.items()}
    described |= {
        f"{name}.{key}": f"member {describe_default(each.value)}" for key, each in members.items()
    }
    has_constructor = not issubclass(cls, BaseModel | enum.Enum)
    if has_constructor and _is_ours(_owner(cls, "__init__")):
        parameters = describe_call(cls.__init__)["parameters"]
        described[f"{name}.__init__"] = f"constructor ({', '.join(parameters)})"
    for key in dir(cls):
        if (key.startswith("_") and key not in PROTOCOLS) or key in fields or key in members:
            continue
        if _is_ours(_owner(cls, key)):
            described[f"{name}.{key}"] = _member(key, inspect.getattr_static(cls, key))
    return described


def describe_signature(kind: str, function: Any) -> str:
    """Return a function or method in one line."""
    described = describe_call(function)
    result = f" -> {described['returns']}" if "returns" in described else ""
    is_async = "async " if described.get("async") else ""
    return f"{is_async}{kind} ({', '.join(described['parameters'])}){result}"


def describe_call(function: Any) -> dict[str, Any]:
    """Return the parameters and the result of a function or method."""
    signature = inspect.signature(function)
    parameters: list[str] = []
    before: Any = None
    for parameter in signature.parameters.values():
        kind = parameter.kind
        if before is parameter.POSITIONAL_ONLY and kind is not parameter.POSITIONAL_ONLY:
            parameters.append("/")
        if kind is parameter.KEYWORD_ONLY and before not in (kind, parameter.VAR_POSITIONAL):
            parameters.append("*")
        parameters.append(describe_parameter(parameter))
        before = kind
    described: dict[str, Any] = {"parameters": parameters}
    if signature.return_annotation is not signature.empty:
        described["returns"] = describe_annotation(signature.return_annotation)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        described["async"] = True
    return described


def describe_parameter(parameter: inspect.Parameter) -> str:
    """Return ``name: annotation = default``; the type of ``self`` is the class's own affair."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    text = stars.get(parameter.kind, "") + parameter.name
    if parameter.annotation is not parameter.empty and parameter.name not in ("self", "cls"):
        text += f": {describe_annotation(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text += f" = {describe_default(parameter.default)}"
    return text


def describe_annotation(annotation: Any) -> str:
    """Return an annotation as its author wrote it, without module paths."""
    if isinstance(annotation, str):
        return without_modules(annotation)
    return without_modules(inspect.formatannotation(annotation))


def describe_default(value: Any) -> str:
    """Return a value's repr, or its type's name where the repr differs between processes."""
    if inspect.isroutine(value) or inspect.isclass(value):
        return f"{type(value).__name__} {value.__name__}"
    text = repr(value)
    return type(value).__name__ if _PASSING.search(text) else without_modules(text)


def _member(name: str, member: Any) -> str:
    if isinstance(member, property) or hasattr(member, "attrname"):  # cached_property
        return "property"
    if isinstance(member, staticmethod | classmethod):
        return describe_signature(type(member).__name__, member.__func__)
    if inspect.isroutine(member):
        return describe_signature("method", member)
    if name == "model_config":
        member = {key: member.get(key) for key in ("env_prefix", "extra", "frozen")}
        return f"attribute {member}"
    return f"attribute {describe_default(member)}"


def _kind(cls: type) -> str:
    if issubclass(cls, enum.Enum):
        return "enum"
    if issubclass(cls, BaseException):
        return "exception"
    if dataclasses.is_dataclass(cls):
        return "frozen dataclass" if cls.__dataclass_params__.frozen else "dataclass"  # type: ignore[attr-defined]
    if hasattr(cls, "_fields") and issubclass(cls, tuple):
        return "named tuple"
    if getattr(cls, "_is_protocol", False):
        return "protocol"
    return "model" if issubclass(cls, BaseModel) else "class"


def _bases(cls: type) -> list[str]:
    import perdure

    public = set(perdure.__all__)
    return [
        base.__name__
        for base in cls.__mro__[1:]
        if base is not object and (not _is_ours(base) or base.__name__ in public)
    ]


def _fields(cls: type) -> dict[str, str]:
    if issubclass(cls, BaseModel):
        written = {
            name: annotation
            for base in reversed(cls.__mro__)
            for name, annotation in inspect.get_annotations(base).items()
        }
        return {
            name: _model_field(written[name], field) for name, field in cls.model_fields.items()
        }
    if dataclasses.is_dataclass(cls):
        return {field.name: _dataclass_field(field) for field in dataclasses.fields(cls)}
    if hasattr(cls, "_fields") and issubclass(cls, tuple):
        defaults = cls._field_defaults
        return {
            name: describe_annotation(cls.__annotations__[name])
            + (f" = {describe_default(defaults[name])}" if name in defaults else "")
            for name in cls._fields
        }
    return {}


def _model_field(annotation: Any, field: Any) -> str:
    text = describe_annotation(annotation)
    if not field.is_required():
        text += f" = {describe_default(field.get_default(call_default_factory=True))}"
    bounds = [describe_default(each) for each in field.metadata]
    bounds = [
        each if "(" in each and "Validator" not in each else each.split("(")[0] for each in bounds
    ]
    return f"{text}; {', '.join(bounds)}" if bounds else text


def _dataclass_field(field: dataclasses.Field[Any]) -> str:
    text = describe_annotation(field.type)
    if field.default is not dataclasses.MISSING:
        text += f" = {describe_default(field.default)}"
    elif field.default_factory is not dataclasses.MISSING:
        text += " = factory"
    return text


def _owner(cls: type, name: str) -> type:
    return next((base for base in cls.__mro__ if name in vars(base)), object)


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in PACKAGES
