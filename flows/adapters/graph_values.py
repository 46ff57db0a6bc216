"""Values of a LangGraph graph's state as texts: JSON, or MessagePack with the types of the state.

A text that names any other type is refused. So reading a text runs no code from outside the graph.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Collection
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from perdure.flows.core.errors import UnstorableValue
from perdure.flows.core.json_values import canonical

#: Types of the library itself that are data only.
SAFE = frozenset(
    {
        ("builtins", "frozenset"),
        ("builtins", "set"),
        ("collections", "deque"),
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "time"),
        ("datetime", "timedelta"),
        ("datetime", "timezone"),
        ("decimal", "Decimal"),
        ("langchain_core.documents.base", "Document"),
        ("langgraph.types", "Interrupt"),
        ("langgraph.types", "Overwrite"),
        ("langgraph.types", "Send"),
        ("uuid", "UUID"),
        ("zoneinfo", "ZoneInfo"),
    }
)
MESSAGES = "langchain_core.messages."
#: The code of MessagePack by which the library stores an array of numpy. It names no type.
ARRAY = 6
#: The code of MessagePack for a value that names a method, and the only method that is accepted.
METHOD, FROM_ISO = 3, ("datetime", "datetime", "fromisoformat")


class StateSerializer:
    """A serializer of state values as JSON texts. Unknown types raise UnstorableValue.

    Args:
        types: the accepted types, as module and name, beside JSON, messages and ``SAFE``.
    """

    def __init__(self, types: Collection[tuple[str, str]]) -> None:
        self._types = frozenset(types)
        self._packer = JsonPlusSerializer(
            pickle_fallback=False, allowed_msgpack_modules=[*SAFE, *types]
        )

    def encode(self, value: Any, what: str) -> str:
        """Return a value as a text.

        Args:
            what: name of the value in an error.

        Raises:
            UnstorableValue: the value cannot be encoded, or has a type that is not accepted.
        """
        if is_plain(value):
            return canonical({"json": value})
        try:
            kind, packed = self._packer.dumps_typed(value)
        except (TypeError, ValueError, RecursionError) as error:
            cause = error.__cause__ or error
            raise UnstorableValue(
                f"{what} cannot be stored: {cause}. Expected JSON, messages, or types of the "
                "state's schema. A file, a client or a function does not belong in the state"
            ) from error
        if kind == "msgpack":
            self._check(packed, what)
        return canonical({"type": kind, "data": base64.b64encode(packed).decode()})

    def decode(self, text: str, what: str) -> Any:
        """Return the value that a text encodes.

        Raises:
            UnstorableValue: the text names a type that is not accepted, or a form that this class
                does not write.
        """
        stored = json.loads(text)
        if "json" in stored:
            return stored["json"]
        kind, packed = stored["type"], base64.b64decode(stored["data"])
        if kind == "msgpack":
            self._check(packed, what)
        elif kind not in ("null", "bytes", "bytearray"):
            raise UnstorableValue(f"{what} is stored as {kind!r}; expected JSON or MessagePack")
        return self._packer.loads_typed((kind, packed))

    def _check(self, packed: bytes, what: str) -> None:
        """Raise UnstorableValue if MessagePack data names a type that is not accepted."""

        unknown: list[str] = []

        def look(code: int, data: bytes) -> Any:
            told = ormsgpack.unpackb(data, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
            if code == ARRAY or not (isinstance(told, list) and len(told) >= 3):
                return None
            module, name = told[0], told[1]
            is_known = self._is_known(module, name)
            if code == METHOD:
                is_known = (module, name, told[-1]) == FROM_ISO
            if not is_known:
                unknown.append(f"{module}.{name}")
            return None

        ormsgpack.unpackb(packed, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
        if unknown:
            raise UnstorableValue(
                f"{what} has a value of the type {unknown[0]}, which is not one of the state's "
                "schema. Annotate the state with it, name it in register_graph(types=[...]), or "
                "put JSON into the state"
            )

    def _is_known(self, module: Any, name: Any) -> bool:
        if (module, name) in SAFE or (module, name) in self._types:
            return True
        return str(module).startswith(MESSAGES) and str(name).endswith(("Message", "Chunk"))


def is_plain(value: Any) -> bool:
    """Return whether JSON preserves a value's types."""
    kind = type(value)
    if value is None or kind in (str, bool, int):
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(map(is_plain, value))
    return kind is dict and all(
        type(name) is str and is_plain(each) for name, each in value.items()
    )
