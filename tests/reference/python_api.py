"""Pages of the Python API: each public name with its signature, docstring and members."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Iterator
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import BaseModel

import perdure
import perdure.testing
from perdure.worker import testing as worker_testing
from tests.golden import declarations
from tests.golden.declarations import PROTOCOLS
from tests.reference.docstrings import (
    attribute_comments,
    descriptions,
    markdown_of,
    summary_of,
)
from tests.reference.markdown import anchor, code, items, page, paragraph, table, text
from tests.reference.subjects import SUBJECTS

#: Longest signature on one line; a longer one has a line for each parameter.
ONE_LINE = 88
#: Docstrings of the language say nothing about ours.
_OF_THE_LANGUAGE = (object, Exception, BaseException, enum.Enum, tuple, BaseModel)


class Member(NamedTuple):
    """A member of a public class.

    Attributes:
        kind: method, async method, class method, static method, property or attribute.
        declaration: its signature, or ``name: type = default``.
    """

    name: str
    kind: str
    declaration: str
    docstring: str


def pages() -> dict[str, str]:
    """Return the pages by their path in ``docs/reference/``: an index, and one for each subject."""
    written = {"python.md": _index()}
    for key, subject in SUBJECTS.items():
        entries = [entry(name, public_value(subject.module, name)) for name in subject.names]
        imported = f"Import these names from `{subject.module}`."
        written[f"python/{key}.md"] = page(
            subject.title, paragraph(f"{subject.introduction} {imported}"), *entries
        )
    return written


#: The modules with public names. Two adapters may have a name in common.
MODULES = (
    "perdure", "perdure.testing", "perdure.pydantic_ai", "perdure.openai_agents",
    "perdure.langgraph",
)  # fmt: skip


def exported() -> list[tuple[str, str]]:
    """Return each public name with its module."""
    return [(name, module) for module in MODULES for name in import_module(module).__all__]


def public_names() -> set[str]:
    """Return the public names of all modules."""
    return {name for name, _ in exported()}


def public_value(module: str, name: str) -> Any:
    """Return the public object of this name."""
    return getattr(import_module(module), name)


def heading(name: str, value: Any) -> str:
    """Return the heading of a public name. ``Command`` and ``command`` get different anchors."""
    if inspect.isclass(value):
        return f"class `{name}`"
    return f"`{name}()`" if inspect.isroutine(value) else f"`{name}`"


def entry(name: str, value: Any) -> str:
    """Return the section of one public name."""
    if inspect.isclass(value) and value.__name__ != name:
        body = [paragraph(f"Earlier name of `{value.__name__}`. The next release drops it.")]
    elif inspect.isclass(value):
        body = _class_body(name, value)
    elif inspect.isroutine(value):
        body = [code(signature(name, value)), markdown_of(value.__doc__)]
    else:
        body = [code(_constant(name, value)), paragraph(text(value_comment(name)))]
    return "\n\n".join([f"## {heading(name, value)}", *filter(None, body)])


def signature(name: str, function: Any, *, method: bool = False) -> str:
    """Return ``def name(...) -> result``, on one line or with a line for each parameter."""
    described = declarations.describe_call(function)
    parameters = [_with_written_default(each, function) for each in described["parameters"]]
    parameters = parameters[1 if method else 0 :]
    result = f" -> {described['returns']}" if "returns" in described else ""
    begin = f"{'async ' if described.get('async') else ''}def {name}("
    line = f"{begin}{', '.join(parameters)}){result}"
    if len(line) <= ONE_LINE:
        return line
    return begin + "\n" + "".join(f"    {each},\n" for each in parameters) + f"){result}"


def members(cls: type) -> Iterator[Member]:
    """Yield the members that a class adds to the public classes it inherits from."""
    fields = declarations._fields(cls)
    seen: set[str] = set()
    for owner in cls.__mro__:
        if owner is not cls and (owner.__name__ in perdure.__all__ or owner in _OF_THE_LANGUAGE):
            continue
        if not declarations._is_ours(owner):
            continue
        names = [*vars(owner), *(each for each in inspect.get_annotations(owner))]
        for name in dict.fromkeys(names):
            hidden = name.startswith("_") and (name not in PROTOCOLS or owner is not cls)
            if hidden or name in seen or name in fields or name == "model_config":
                continue
            seen.add(name)
            if issubclass(cls, enum.Enum) and name in cls.__members__:
                continue
            member = _member(cls, owner, name)
            if member is not None:
                yield member


def fields(cls: type) -> dict[str, str]:
    """Return the fields of a dataclass, a named tuple or a model, with type and default."""
    made = {
        each.name: each.default_factory
        for each in (dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ())
        if each.default_factory is not dataclasses.MISSING
    }
    return {
        name: _with_plain_default(declaration, made.get(name))
        for name, declaration in declarations._fields(cls).items()
        if not name.startswith("_")
    }


def field_descriptions(cls: type) -> dict[str, str]:
    """Return the ``#:`` comment of each field, of inherited ones too."""
    return {
        name: comment
        for owner in reversed(cls.__mro__)
        if declarations._is_ours(owner)
        for name, comment in attribute_comments(owner).items()
    }


def value_comment(name: str) -> str:
    """Return the ``#:`` comment of a public value in the module that defines it."""
    homes = {**perdure._HOMES, **worker_testing._HOMES}
    return attribute_comments(import_module(homes[name])).get(name, "")


def description(name: str, value: Any) -> str:
    """Return the docstring of a public class or function, or the comment of another value."""
    if inspect.isclass(value):
        return class_docstring(value)
    return (value.__doc__ or "") if inspect.isroutine(value) else value_comment(name)


def class_docstring(cls: type) -> str:
    """Return a class's own docstring; empty if it has none or the docstring of dataclasses."""
    docstring = cls.__dict__.get("__doc__") or ""
    return "" if docstring.startswith(f"{cls.__name__}(") else inspect.cleandoc(docstring)


def gaps() -> list[str]:
    """Return the undescribed objects: names, members, and fields that no text mentions."""
    found: list[str] = []
    for name, module in exported():
        value = public_value(module, name)
        if not inspect.isclass(value):
            found += [] if description(name, value) else [name]
            continue
        docstring = class_docstring(value)
        found += [] if docstring else [name]
        found += [
            f"{name}.{member.name}"
            for member in members(value)
            if not member.docstring and member.name not in (*PROTOCOLS, *described_by(value))
        ]
    return found


def described_by(cls: type) -> set[str]:
    """Return the names that the docstrings of a class and of its bases describe."""
    return {
        name
        for owner in cls.__mro__
        if declarations._is_ours(owner)
        for name in descriptions(class_docstring(owner))
    }


def undescribed_fields() -> list[str]:
    """Return the fields without a description of their own, for a report only."""
    return [
        f"{name}.{each}"
        for name, module in exported()
        if inspect.isclass(value := public_value(module, name))
        for each in fields(value)
        if each not in field_descriptions(value)
        and each not in descriptions(class_docstring(value))
        and f"``{each}``" not in class_docstring(value)
    ]


def _index() -> str:
    sections = []
    for key, subject in SUBJECTS.items():
        rows = []
        for name in subject.names:
            value = public_value(subject.module, name)
            link = f"[`{name}`](python/{key}.md#{anchor(heading(name, value))})"
            rows.append((link, summary_of(description(name, value)).replace("|", "or")))
        sections.append(
            f"## [{subject.title}](python/{key}.md)\n\n{table(('Name', 'What it is'), rows)}"
        )
    return page(
        "Python API",
        "All names that `perdure`, `perdure.testing` and the adapters export. They change only with"
        "\na note in the changelog.",
        *sections,
    )


def _class_body(name: str, cls: type) -> list[str]:
    body = [code(_declaration(name, cls)), markdown_of(class_docstring(cls))]
    comments = field_descriptions(cls)
    if issubclass(cls, enum.Enum):
        rows = [
            f"`{each.name}` = `{each.value!r}`" + _after_colon(comments.get(each.name, ""))
            for each in cls
        ]
        body += ["**Members**", items(rows)]
    elif cls is not perdure.Settings and (
        described := [
            f"`{each}`: {text(comments[each])}" for each in fields(cls) if each in comments
        ]
    ):
        body += ["**Fields**", items(described)]
    own = list(members(cls))
    attributes = [each for each in own if each.kind == "attribute"]
    if attributes:
        rows = [f"`{each.declaration}`" + _after_colon(each.docstring) for each in attributes]
        body += ["**Class attributes**", items(rows)]
    shown = [each for each in own if each.kind != "attribute"]
    body += [_member_section(name, each) for each in shown if each.docstring]
    if silent := [f"`{each.name}`" for each in shown if not each.docstring]:
        body.append(paragraph(f"It also has {', '.join(silent)}."))
    return body


def _member_section(class_name: str, member: Member) -> str:
    call = "" if member.kind == "property" else "()"
    blocks = [
        f"### `{class_name}.{member.name}{call}`",
        code(member.declaration),
        markdown_of(member.docstring),
    ]
    return "\n\n".join(filter(None, blocks))


def _declaration(name: str, cls: type) -> str:
    bases = _bases(cls)
    head = f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    kind = declarations._kind(cls)
    if kind in ("dataclass", "frozen dataclass"):
        head = f"@dataclass{'(frozen=True)' if kind.startswith('frozen') else ''}\n{head}"
    elif kind == "protocol":
        head = f"class {name}(Protocol)"
    lines = [f"{head}:"]
    public_fields = fields(cls)
    lines += [f"    {each}: {declaration}" for each, declaration in public_fields.items()]
    constructor = getattr(cls, "__init__", object.__init__)
    has_own = not public_fields and not issubclass(cls, BaseModel | enum.Enum)
    if has_own and declarations._is_ours(declarations._owner(cls, "__init__")):
        described = signature("__init__", constructor, method=True).removesuffix(" -> None")
        described = described.replace("def __init__", name, 1)
        return f"{head}\n\n{described}"
    return head if len(lines) == 1 else "\n".join(lines)


def _member(cls: type, owner: type, name: str) -> Member | None:
    static = inspect.getattr_static(cls, name, None)
    docstring = inspect.getdoc(getattr(cls, name, None)) or ""
    if isinstance(static, property) or hasattr(static, "attrname"):
        function = static.fget if isinstance(static, property) else static.func
        result = declarations.describe_call(function).get("returns", "Any")
        return Member(
            name, "property", f"{name}: {result}", inspect.cleandoc(function.__doc__ or "")
        )
    if isinstance(static, staticmethod | classmethod):
        decorator = f"@{type(static).__name__}\n"
        is_bound = isinstance(static, classmethod)
        declaration = decorator + signature(name, static.__func__, method=is_bound)
        return Member(name, type(static).__name__, declaration, docstring)
    if inspect.isroutine(static):
        return Member(name, "method", signature(name, static, method=True), docstring)
    if inspect.isclass(static):
        return Member(name, "attribute", f"class {name}", inspect.getdoc(static) or "")
    annotation = inspect.get_annotations(owner).get(name)
    declaration = name if annotation is None else f"{name}: {_annotation(annotation)}"
    if static is not None or name in vars(owner):
        declaration += f" = {_value(static)}"
    return Member(name, "attribute", declaration, attribute_comments(owner).get(name, ""))


def _annotation(annotation: Any) -> str:
    written = declarations.describe_annotation(annotation)
    return written.removeprefix("ClassVar[").removesuffix("]") if "ClassVar" in written else written


def _value(value: Any) -> str:
    if isinstance(value, MappingProxyType):
        return repr(dict(value))
    return declarations.describe_default(value)


def _with_plain_default(declaration: str, factory: Any) -> str:
    """Return a declaration whose default is a literal, or ``...`` if that cannot be written."""
    annotation, equals, written = declaration.partition("; ")[0].partition(" = ")
    if factory in (dict, list):
        written = repr(factory())
    elif factory is not None or written.startswith("function ") or written[:1].isupper():
        written = written if written in ("None", "True", "False") or "." in written else "..."
    return annotation + equals + written


def _with_written_default(parameter: str, function: Any) -> str:
    """Return a parameter with its default as Python has it, or ``...`` for an object."""
    declared, equals, _ = parameter.partition(" = ")
    if not equals:
        return parameter
    value = inspect.signature(function).parameters[declared.partition(":")[0]].default
    if isinstance(value, enum.Enum) and value.name in type(value).__members__:
        written = f"{type(value).__name__}.{value.name}"
        return f"{declared} = {'...' if type(value).__name__ not in public_names() else written}"
    is_literal = value is None or isinstance(value, str | int | float | tuple)
    return f"{declared} = {repr(value) if is_literal else '...'}"


def _constant(name: str, value: Any) -> str:
    """Return ``name = value``, or ``name: Type`` for an object whose repr is no Python."""
    written = _value(value)
    return f"{name}: {written}" if written == type(value).__name__ else f"{name} = {written}"


def _bases(cls: type) -> list[str]:
    """Return the names of the direct bases; a base that is not public stands for its own bases."""
    names: list[str] = []
    for base in cls.__bases__:
        if declarations._is_ours(base) and base.__name__ not in public_names():
            names += _bases(base)
        elif base.__name__ not in ("object", "Generic", "Protocol"):
            names.append(base.__name__)
    return list(dict.fromkeys(names))


def _after_colon(written: str) -> str:
    return f": {text(written)}" if written else ""
