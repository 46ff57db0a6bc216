"""JSON values that read back equal, or a clear error before anything is stored."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from perdure.flows.errors import UnstorableValue


def _writer(**options: Any) -> Callable[[Any], str]:
    """Return a function that encodes values as JSON, faster than ``json.JSONEncoder.encode``.

    Its C encoder is made only once. The library makes one for each call, which takes longer than
    encoding a small value.
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

#: Maximum nesting. JSON readers (pydantic's among them) give up near 200 levels.
MAX_DEPTH = 100


def storable(value: Any, what: str) -> Any:
    """Convert a value to plain JSON data that reads back equal after it was stored.

    Models and dataclasses become objects, and tuples become lists.

    Args:
        value: JSON data, pydantic models or dataclasses, nested at most ``MAX_DEPTH`` deep.
        what: the name of the value in an error ("the answer", "the input 'repo'").

    Raises:
        UnstorableValue: it would not read back equal. The message gives the path inside the value.
    """
    try:
        return _copy_plain(value, 0)
    except (_NotPlain, UnicodeEncodeError):
        plain = _plain(value, what, "", 0)
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


class _NotPlain(Exception):
    """A value that may be storable but is not plain JSON data, so it is checked in full."""


def _copy_plain(value: Any, depth: int) -> Any:
    """Copy a value that is already plain JSON data and surely reads back equal, as most values do.

    Raises:
        _NotPlain, UnicodeEncodeError: it is not such data.
    """
    if depth > MAX_DEPTH:
        raise _NotPlain
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
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise _NotPlain
            if not key.isascii():
                key.encode("utf-8")
        return {key: _copy_plain(item, depth + 1) for key, item in value.items()}
    if kind is list:
        return [_copy_plain(item, depth + 1) for item in value]
    raise _NotPlain


def canonical(value: Any) -> str:
    """Encode a value as its one canonical JSON text, with sorted keys and no spaces.

    It is used for digests and for storage.
    """
    return _encode_canonical(value)


def read(text: str) -> Any:
    """Decode a JSON text as ``json.loads`` does, in half of the time if ``canonical`` wrote it.

    It raises what ``json.loads`` raises.
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
        return _plain(value.model_dump(mode="python"), what, path, depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shallow = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _plain(shallow, what, path, depth)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise UnstorableValue(
                    f"{what}{where} has the key {key!r}; JSON objects have text keys only"
                )
            _plain(key, what, f"{path}.{key!r}", depth)
        return {
            str.__str__(k): _plain(v, what, f"{path}.{k}" if path else k, depth + 1)
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item, what, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    raise UnstorableValue(
        f"{what}{where} is a {type(value).__name__}, which JSON does not have; "
        "expected null, bool, number, text, list, object, a pydantic model or a dataclass"
    )
