"""Digests of step arguments. They show when a journal's entry belongs to another step.

The journal finds the entry of a step by its name and its number. If the function of a workflow asks
for its steps in another order, the name and the number fit, and the arguments do not.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from types import CellType, FunctionType
from typing import Any

from pydantic import BaseModel, TypeAdapter

#: The digest of arguments that cannot be compared.
INCOMPARABLE = "-"
#: Bytes of a digest. Entries of one run are compared, so a collision by chance is out of reach.
SIZE = 9
#: How deep values are read that JSON does not know.
DEEPEST = 8
#: Arguments whose digests are cached: values of ATOMS, and texts of at most LONGEST characters.
ATOMS = frozenset((str, int, bool, type(None)))
LONGEST = 200

_any = TypeAdapter(Any)
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


def digest_of(value: Any) -> str:
    """Return a short digest of a value that is the same in each process.

    Sets are sorted. Models, dataclasses, dates and the like are read as JSON. A value that has no
    such form gets INCOMPARABLE.
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
    """Return the digest of the arguments of a step's call.

    They include the arguments held by ``functools.partial``, the object of a method, the defaults
    of a function, and the variables that a lambda or an inner function has from around it.
    """
    # These attributes are where a function holds values.
    if (
        type(function) is not FunctionType
        or function.__closure__ is not None
        or function.__defaults__ is not None
        or function.__kwdefaults__ is not None
    ):
        hidden = _hidden(function, DEEPEST)
        if hidden:
            return digest_of([list(args), hidden])
    for each in args:
        if type(each) not in ATOMS or (type(each) is str and len(each) > LONGEST):
            return digest_of(list(args))
    return _digest_of_atoms(*args)


# A function is run again in each round, and asks for the same steps.
@functools.lru_cache(maxsize=4096, typed=True)
def _digest_of_atoms(*args: Any) -> str:
    return digest_of(list(args))


def _hidden(function: Any, depth: int) -> list[Any]:
    """Return the values that a function holds besides its arguments, as JSON data.

    ``digest_of_call`` lists them. Values that cannot be compared are left out.
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
    """Return a value as JSON data. None if it cannot be compared."""
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
