"""The inputs of a written flow: each key and its type become a field of one pydantic model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from flows.written.faults import Faults
from flows.written.keys import InputKeys

_TYPES: dict[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list[Any], "object": dict[str, Any], "any": Any,
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


def model_of(inputs: Mapping[str, InputKeys], faults: Faults) -> type[BaseModel]:
    """The model that checks a submission's inputs."""
    fields: dict[str, Any] = {}
    for name, keys in inputs.items():
        if not _NAME.fullmatch(name) or hasattr(BaseModel, name) or name == "goal":
            why = (
                "the goal is there in any case"
                if name == "goal"
                else "expected a letter, then letters, digits or '_', and no name of pydantic's"
            )
            faults.add(("inputs", name), f"{name!r} cannot name an input; {why}")
            continue
        kind, has_default = _TYPES[keys.type], "default" in keys.model_fields_set
        if has_default and keys.required:
            faults.add(("inputs", name, "required"), "an input with a default is not required; leave one of the two out")
        if has_default and keys.default is not None:
            try:
                TypeAdapter(kind).validate_python(keys.default, strict=True)
            except ValidationError as error:
                faults.add(("inputs", name, "default"), f"{error.errors()[0]['msg']}, not {keys.default!r}")
        optional = has_default or keys.required is False
        if optional and keys.default is None:
            kind = kind | None
        fields[name] = (kind, Field(keys.default if optional else ..., description=keys.description or None))
    return create_model("Inputs", __config__=ConfigDict(protected_namespaces=()), **fields)
