"""JSON values that read back equal. Any other value raises UnstorableValue before it is stored."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import deque
from collections.abc import Callable, Mapping, Set
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from perdure.flows.core.errors import UnstorableValue, described
from perdure.flows.core.files import File


def _writer(**options: Any) -> Callable[[Any], str]:
    """Return a JSON encoder that is faster than ``json.JSONEncoder.encode``.

    The C encoder is created once. The standard library creates one in each call, which takes longer
    than encoding a small value.

    Args:
        options: arguments of ``json.JSONEncoder``.
    """
    encoder = json.JSONEncoder(allow_nan=False, ensure_ascii=False, **options)
    make, escape = getattr(json.encoder, "c_make_encoder", None), json.encoder.encode_basestring
    if make is None:  # This interpreter has no C encoder.
        return encoder.encode
    pieces = make(
        None,
        encoder.default,
        escape,
        None,
        encoder.key_separator,
        encoder.item_separator,
        encoder.sort_keys,
        False,
        False,
    )

    def write(value: Any) -> str:
        try:
            return "".join(pieces(value, 0))
        except RecursionError:
            return encoder.encode(value)  # It reports a value that contains itself.

    return write


_encode_plain = _writer()
_encode_canonical = _writer(sort_keys=True, separators=(",", ":"))
_decode = json.JSONDecoder().raw_decode

#: Types whose values are texts or numbers in JSON, as pydantic writes them. They may be keys, too.
#: A ``datetime`` is a ``date``.
SCALARS = (date, time, timedelta, Decimal, Enum, PurePath, UUID)

#: Maximum nesting. JSON readers (pydantic's among them) give up near 200 levels.
MAX_DEPTH = 100


def storable(value: Any, what: str) -> Any:
    """Convert a value to plain JSON data that reads back equal.

    Models and dataclasses become objects, and tuples become lists. A ``datetime``, ``Decimal``,
    ``UUID``, ``Path`` or enum is written as pydantic writes it. A set becomes a list in the order
    of its items' JSON, so that every process writes the same.

    Args:
        value: JSON data or such objects, nested at most ``MAX_DEPTH`` deep.
        what: the name of the value in an error ("the answer", "the input 'repo'").

    Raises:
        UnstorableValue: the value would not read back equal. The message gives the path inside the
            value.
    """
    try:
        return _copy_plain(value, 0)
    except (_NotPlain, UnicodeEncodeError):
        plain = _plain_of_user(value, what)
    try:
        text = _encode_plain(plain)
        text.encode("utf-8")
        back = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnstorableValue(
            f"{what} cannot be stored as JSON: {error}; use JSON values only"
        ) from error
    if back != plain:
        raise UnstorableValue(f"{what} would not read back equal from JSON; use JSON values only")
    return plain


def _plain_of_user(value: Any, what: str) -> Any:
    """Convert a value whose classes may be the user's, and may raise anything."""
    try:
        return _plain(value, what, "", 0)
    except UnstorableValue:
        raise
    except Exception as error:
        raise UnstorableValue(
            f"{what} cannot be stored as JSON: its class raised {described(error)}"
        ) from error


class _NotPlain(Exception):
    """Raised for a value that is not plain JSON. ``storable`` may be able to convert it."""


def _copy_plain(value: Any, depth: int) -> Any:
    """Copy plain JSON data that surely reads back equal. Most values are such data.

    Most leaves are short texts in ASCII, which need no call of their own.

    Raises:
        _NotPlain: the value has another type, is nested too deep, or may not read back equal.
        UnicodeEncodeError: a text holds a lone surrogate.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            value.encode("utf-8")
        return value
    if (
        value is None
        or kind is bool
        or (kind is int and -(2**63) < value < 2**63)
        or (kind is float and math.isfinite(value))
    ):
        return value
    if depth == MAX_DEPTH:
        raise _NotPlain
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise _NotPlain
            if not key.isascii():
                key.encode("utf-8")
        return {
            key: item if type(item) is str and item.isascii() else _copy_plain(item, depth + 1)
            for key, item in value.items()
        }
    if kind is list:
        return [
            item if type(item) is str and item.isascii() else _copy_plain(item, depth + 1)
            for item in value
        ]
    raise _NotPlain


def canonical(value: Any) -> str:
    """Encode a value as canonical JSON, for digests and storage: sorted keys, no spaces."""
    return _encode_canonical(value)


def read(text: str) -> Any:
    """Decode a JSON text. The result and the errors are those of ``json.loads``.

    If ``canonical`` wrote the text, this takes half of the time of ``json.loads``.
    """
    try:
        value, end = _decode(text)
    except ValueError:
        end = -1
    return value if end == len(text) else json.loads(text)


def _plain(value: Any, what: str, path: str, depth: int) -> Any:
    where = f" at {path}" if path else ""
    if depth > MAX_DEPTH:
        raise UnstorableValue(
            f"{what} is nested more than {MAX_DEPTH} levels deep; flatten it, "
            "or store a reference to it"
        )
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UnstorableValue(
                f"{what}{where} holds a lone surrogate ({error.reason}); "
                "it is not valid Unicode text"
            ) from error
        return str.__str__(value)  # An enum's own would give its name.
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnstorableValue(
                f"{what}{where} is {value!r}, which JSON does not have; use null or a string"
            )
        return float(value)
    if isinstance(value, BaseModel):
        return _plain(_written_by(value), what, path, depth)
    if isinstance(value, File):
        raise UnstorableValue(
            f"{what}{where} is the file {value.name!r}; store the reference that "
            "context.attach(file) returns"
        )
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shallow = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _plain(shallow, what, path, depth)
    if isinstance(value, Mapping):
        return _plain_object(value, what, path, depth)
    if isinstance(value, list | tuple | deque):
        return [_plain(item, what, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, Set):
        items = [_plain(item, what, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
        return sorted(items, key=canonical)
    if isinstance(value, SCALARS) or _is_of_pydantic(value):
        try:
            written = to_jsonable_python(value)
        except PydanticSerializationError:
            written = value
        if type(written) is not type(value):
            return _plain(written, what, path, depth)
    raise UnstorableValue(
        f"{what}{where} is a {type(value).__name__}, which JSON does not have; "
        "expected null, bool, number, text, list, object, a set, a pydantic model, a dataclass, "
        "or a value that pydantic writes as one of these (datetime, Decimal, UUID, Path, enum)"
    )


def _written_by(model: BaseModel) -> Any:
    """Return a model as JSON data. If pydantic cannot write it, return its fields.

    Pydantic writes null for NaN, and a set in an order that differs between processes. The result
    has NaN itself (which ``storable`` rejects), and a sorted list for a set.
    """
    held = model.model_dump(mode="python")
    try:
        return _put_right(model.model_dump(mode="json"), held)
    except (PydanticSerializationError, ValueError):
        return held  # Storing it fails, with the place of the invalid value.


def _put_right(written: Any, held: Any) -> Any:
    if isinstance(held, float) and not isinstance(written, str):
        return held
    if isinstance(held, Mapping) and isinstance(written, dict) and len(held) == len(written):
        both = zip(written.items(), held.values(), strict=True)
        return {key: _put_right(item, inner) for (key, item), inner in both}
    if isinstance(written, list) and isinstance(held, Set):
        return sorted(written, key=canonical)
    if isinstance(written, list) and isinstance(held, list | tuple) and len(held) == len(written):
        return [_put_right(*each) for each in zip(written, held, strict=True)]
    return written


def _is_of_pydantic(value: Any) -> bool:
    """Return whether pydantic defines the class of a value. Examples are a URL and a secret."""
    return type(value).__module__.partition(".")[0] in ("pydantic", "pydantic_core")


def _plain_object(value: Mapping[Any, Any], what: str, path: str, depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        where = f" at {path}" if path else ""
        name = to_jsonable_python(key) if isinstance(key, SCALARS) else key
        if not isinstance(name, str):
            raise UnstorableValue(
                f"{what}{where} has the key {key!r}; JSON objects have text keys only"
            )
        name = _plain(name, what, f"{path}.{name!r}", depth)
        if name in plain:
            raise UnstorableValue(f"{what}{where} has two keys that are {name!r} in JSON")
        plain[name] = _plain(item, what, f"{path}.{name}" if path else name, depth + 1)
    return plain
