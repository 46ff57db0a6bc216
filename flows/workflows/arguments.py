"""Digests of calls. They show when a journal's entry belongs to another step.

The journal finds the entry of a step by its name and its number. If the function of a workflow asks
for its steps in another order, the name and the number fit, and the call does not.

A digest has one of two forms. The newer one begins with ``FORM``. Entries with the older form are
compared in the older way (``older_digest_of_call``).
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from hashlib import blake2b, sha256
from pathlib import PurePath
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

from pydantic import BaseModel, TypeAdapter

from perdure.flows.core.json_values import storable

#: The digest of arguments that cannot be compared.
INCOMPARABLE = "-"
#: Begins a digest of a call, unless an older release made it.
FORM = "2:"
#: Bytes of a digest. Entries of one run are compared, so a collision by chance is out of reach.
SIZE = 9
#: How deep values are read that JSON does not know.
DEEPEST = 8
#: How many functions and plain objects are read, one inside the other. A function may hold others
#: that hold it.
OPENED = 3
#: Arguments whose digests are cached: values of ATOMS, and texts of at most LONGEST characters.
ATOMS = frozenset((str, int, bool, type(None)))
LONGEST = 200
#: Functions of modules that held no values at their first step. Each round asks for steps with the
#: same functions, and later changes of their defaults do not count. An inner function is another
#: object in each round.
_OF_MODULES: set[Callable[..., Any]] = set()
#: As many functions as digests are cached. Both are kept as long as the process lives.
MOST_FUNCTIONS = 4096

_any = TypeAdapter(Any)
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


def digest_of(value: Any) -> str:
    """Return a short digest of a value. All processes compute the same digest.

    Sets are sorted. Models, dataclasses, dates and the like are read as JSON. For a value that
    cannot be converted to JSON data, the result is INCOMPARABLE.
    """
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError):
        try:
            text = _encode(_plain(value, DEEPEST))
        except Exception:  # A model of the user may raise anything.
            return INCOMPARABLE
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=SIZE).hexdigest()


def digest_of_call(function: Callable[..., Any], args: Sequence[Any]) -> str:
    """Return the digest of a step's call: of its function, and of each argument.

    A function counts by its module and its name, and by what it holds: the arguments of
    ``functools.partial``, the object of a method, its defaults, and the variables that a lambda or
    an inner function has from around it. A value that is no data counts by its class alone: the
    fields of a service may change with each call.
    """
    named: Any
    digest: Callable[..., str]
    if type(function) is FunctionType and function in _OF_MODULES:
        named, digest = function, _digest_of_atoms
    elif _holds_values(function):
        return f"{FORM}{_short_digest(_text_of([_form_of_target(function), list(args)]))}"
    else:
        named, digest = _name_of(function), _digest_of_named
        if "<" not in named and len(_OF_MODULES) < MOST_FUNCTIONS:
            _OF_MODULES.add(function)
    for each in args:
        kind = type(each)
        if kind not in ATOMS or (kind is str and len(each) > LONGEST):
            return f"{FORM}{_short_digest(_text_of([_name_of(function), list(args)]))}"
    return digest(named, *args)


def _holds_values(function: Callable[..., Any]) -> bool:
    """Return whether a callable may hold values besides its arguments (``digest_of_call``)."""
    return (
        type(function) is not FunctionType
        or function.__closure__ is not None
        or function.__defaults__ is not None
        or function.__kwdefaults__ is not None
    )


def whole_digest_of_call(key: str, function: Callable[..., Any], args: Sequence[Any]) -> str:
    """Return the SHA-256 of a step's call. A person's approval is valid for this digest only.

    Args:
        key: the key of the step.
    """
    text = _text_of([key, _form_of_target(function), list(args)])
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def data_of(value: Any) -> Any:
    """Return a value as JSON data that is the same in each process.

    Raises:
        Exception: the value cannot be read as such data.
    """
    return storable(_data(value, DEEPEST), "the value")


def is_older(digest: str) -> bool:
    """Return whether a digest of a call has the older form."""
    return digest not in ("", INCOMPARABLE) and not digest.startswith(FORM)


def older_digest_of_call(function: Callable[..., Any], args: Sequence[Any]) -> str:
    """Return the digest of a step's arguments in the older form.

    The arguments include those held by ``functools.partial``, the object of a method, the defaults
    of a function, and the variables that a lambda or an inner function has from around it. The
    digest is INCOMPARABLE if a value in ``args`` cannot be converted to JSON data. Any of the other
    values that cannot be converted does not count.
    """
    hidden = _hidden(function, DEEPEST)
    return digest_of([list(args), hidden] if hidden else list(args))


@functools.lru_cache(maxsize=4096, typed=True)
def _digest_of_atoms(function: FunctionType, *args: Any) -> str:
    return _digest_of_named(_name_of(function), *args)


@functools.lru_cache(maxsize=4096, typed=True)
def _digest_of_named(name: str, *args: Any) -> str:
    return f"{FORM}{_short_digest(_text_of([name, list(args)]))}"


def _short_digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=SIZE).hexdigest()


def _text_of(call: list[Any]) -> str:
    """Return the text of which the digest of a call is made."""
    try:
        return _encode(call)
    except (TypeError, ValueError, RecursionError):
        return _encode(_form(call, DEEPEST + 2, OPENED))


def _form_of_target(function: Callable[..., Any]) -> Any:
    """Return the function of a step as JSON data. It may be any object that can be called."""
    form = _form_of_callable(function, DEEPEST, OPENED)
    return form or [_name_of(type(function)), _form(function, DEEPEST, OPENED)]


def _form(value: Any, depth: int, opened: int) -> Any:
    """Return a value as JSON data that is the same in each process.

    A value that cannot be read as such data becomes the name of its class.

    Args:
        depth: how deep values inside the value are read.
        opened: how many functions and plain objects may be read, one inside the other.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if depth == 0:
        return _name_of(type(value))
    try:
        if (found := _form_of_callable(value, depth, opened)) is not None:
            return found
        if isinstance(value, Mapping):
            pairs = ([_form(each, depth - 1, opened) for each in pair] for pair in value.items())
            return sorted(pairs, key=lambda pair: _encode(pair[0]))
        if isinstance(value, Set):
            return sorted((_form(each, depth - 1, opened) for each in value), key=_encode)
        if isinstance(value, list | tuple):
            return [_form(each, depth - 1, opened) for each in value]
        return _data(value, depth)
    except Exception:  # An object of the user may raise anything.
        return _name_of(type(value))


def _form_of_callable(value: Any, depth: int, opened: int) -> Any:
    """Return a function, method, partial or class as JSON data. None for other values."""
    if isinstance(value, type):
        return _name_of(value)
    if not isinstance(value, functools.partial | FunctionType | MethodType | BuiltinFunctionType):
        return None
    if opened == 0:
        return _name_of(value)

    def held(each: Any) -> Any:
        return _form(each, depth - 1, opened - 1)

    if isinstance(value, functools.partial):
        return [held(value.func), held(value.args), held(value.keywords)]
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        return [held(owner), held(getattr(value, "__func__", None)), _name_of(value)]
    cells = [held(_content(cell)) for cell in getattr(value, "__closure__", None) or ()]
    defaults = held([getattr(value, name, None) for name in ("__defaults__", "__kwdefaults__")])
    return [_name_of(value), cells, defaults]


def _data(value: Any, depth: int) -> Any:
    """Return a value as JSON data. Equal values have equal data in every process.

    Args:
        depth: how many levels of containers the value may have.

    Raises:
        Exception: the value has no such form, or more levels.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if depth == 0:
        raise TypeError("nested too deep")

    def inner(each: Any) -> Any:
        return _data(each, depth - 1)

    if isinstance(value, bytes | bytearray):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, BaseModel):
        held = {name: getattr(value, name) for name in type(value).model_fields}
        return inner({**held, **(value.model_extra or {})})
    if is_dataclass(value) and not isinstance(value, type):
        return inner({each.name: getattr(value, each.name) for each in fields(value)})
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {str(key): inner(each) for key, each in value.items()}
        pairs = ([inner(key), inner(each)] for key, each in value.items())
        return sorted(pairs, key=lambda pair: _encode(pair[0]))
    if isinstance(value, Set):
        return sorted((inner(each) for each in value), key=_encode)
    if isinstance(value, list | tuple):
        return [inner(each) for each in value]
    if isinstance(value, Iterator):
        raise TypeError("to read an iterator would use it up")
    return _any.dump_python(value, mode="json")  # raises for types unknown to pydantic, too


def _name_of(value: Any) -> str:
    """Return the module and the name of a function or a class."""
    name = getattr(value, "__qualname__", type(value).__qualname__)
    module = getattr(value, "__module__", None) or ""
    return f"{_main_module() if module == '__main__' else module}.{name}"


@functools.cache
def _main_module() -> str:
    """Return the name by which another process imports the main module of this one."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return spec.name if spec is not None else PurePath(getattr(main, "__file__", "")).stem


def _hidden(function: Any, depth: int) -> list[Any]:
    """Return the values that a function holds besides its arguments, as JSON data.

    ``older_digest_of_call`` lists them. A value that cannot be converted to JSON data is left out.
    But None takes its place in a keyword-only default and in the arguments of a partial.
    """
    if depth == 0:
        return []
    if isinstance(function, functools.partial):
        inner = _hidden(function.func, depth - 1)
        return [_comparable([list(function.args), function.keywords]), *inner]
    found: list[Any] = []
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, type):
        found.append(_comparable(owner))
        function = getattr(function, "__func__", None)
    cells: Sequence[CellType] = getattr(function, "__closure__", None) or ()
    found += [_comparable(_content(cell)) for cell in cells]
    found += [_comparable(each) for each in getattr(function, "__defaults__", None) or ()]
    named: Mapping[str, Any] = getattr(function, "__kwdefaults__", None) or {}
    found += [[name, _comparable(named[name])] for name in sorted(named)]
    return [each for each in found if each is not None]


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # The variable is not set yet.
        return None


def _comparable(value: Any) -> Any:
    """Return a value as JSON data, for a digest. None if it cannot be converted to JSON data."""
    try:
        plain = _plain(value, DEEPEST)
        _encode(plain)
    except Exception:  # A model of the user may raise anything.
        return None
    return plain


def _plain(value: Any, depth: int) -> Any:
    """Return a value as JSON data. At most ``depth`` levels of nesting are read.

    Raises:
        TypeError, ValueError: the value has no form that is the same in each process.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if depth == 0:
        raise TypeError("nested too deep")
    if isinstance(value, bytes | bytearray):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name), depth - 1) for each in fields(value)}
    if isinstance(value, Mapping):
        return [
            [_plain(key, depth - 1), _plain(value[key], depth - 1)]
            for key in sorted(value, key=lambda key: _encode(_plain(key, depth - 1)))
        ]
    if isinstance(value, Set):
        return sorted((_plain(each, depth - 1) for each in value), key=_encode)
    if isinstance(value, list | tuple):
        return [_plain(each, depth - 1) for each in value]
    return _any.dump_python(value, mode="json")  # raises for types unknown to pydantic, too
