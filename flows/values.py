"""JSON values that read back equal, or a clear error before anything is stored."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from flows.errors import UnstorableValue

#: Made once: ``json.dumps`` makes an encoder for each call that asks for anything special.
_plainly = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
_canonically = json.JSONEncoder(allow_nan=False, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode

#: Deeper nesting is refused: JSON readers (pydantic's among them) give up near 200 levels.
MAX_DEPTH = 100


def storable(value: Any, what: str) -> Any:
    """Return ``value`` as plain JSON data (models and dataclasses become objects, tuples become lists).

    Args:
        value: JSON data, pydantic models or dataclasses, nested at most ``MAX_DEPTH`` deep.
        what: how to name the value in an error ("the answer", "the input 'repo'").

    Raises:
        UnstorableValue: it would not read back equal; the message names the place inside the value.
    """
    plain = _plain(value, what, "", 0)
    if _reads_back(plain) or (isinstance(plain, dict) and all(map(_reads_back, plain.values()))):
        return plain
    try:
        text = _plainly(plain)
        text.encode("utf-8")
        back = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnstorableValue(f"{what} cannot be stored as JSON: {error}; hand back JSON values only") from error
    if back != plain:
        raise UnstorableValue(f"{what} would not read back equal from JSON; hand back JSON values only")
    return plain


def _reads_back(plain: Any) -> bool:
    """Whether JSON of it reads back equal without a try; of whole numbers with thousands of digits it does not."""
    return plain is None or isinstance(plain, str | bool) or (isinstance(plain, int) and abs(plain) < 2**63)


def canonical(value: Any) -> str:
    """The one JSON text of a storable value: sorted keys, no spaces; for digests and for storage."""
    return _canonically(value)


def _plain(value: Any, what: str, path: str, depth: int) -> Any:
    where = f" at {path}" if path else ""
    if depth > MAX_DEPTH:
        raise UnstorableValue(f"{what} is nested more than {MAX_DEPTH} levels deep; flatten it, or store a reference to it")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UnstorableValue(f"{what}{where} holds a lone surrogate ({error.reason}); it is not valid Unicode text") from error
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnstorableValue(f"{what}{where} is {value!r}, which JSON does not have; use null or a string")
        return float(value)
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(mode="python"), what, path, depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shallow = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _plain(shallow, what, path, depth)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise UnstorableValue(f"{what}{where} has the key {key!r}; JSON objects have text keys only")
            _plain(key, what, f"{path}.{key!r}", depth)
        return {str(k): _plain(v, what, f"{path}.{k}" if path else k, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, what, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    raise UnstorableValue(
        f"{what}{where} is a {type(value).__name__}, which JSON does not have; "
        "expected null, bool, number, text, list, object, a pydantic model or a dataclass"
    )
