"""A tool as its server tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flows.errors import BadReply, FatalError
from flows.summaries import safe_text

if TYPE_CHECKING:
    import mcp_types

#: Characters of a tool's description that controllers are told, and of one fault in its arguments.
DESCRIPTION, FAULT = 4000, 300
#: Faults that one reply is told.
FAULTS = 5


@dataclass(frozen=True)
class Tool:
    """What a server says of a tool.

    Attributes:
        schema: JSON schema of its arguments.
    """

    name: str
    description: str
    schema: Mapping[str, Any]

    @classmethod
    def of(cls, told: mcp_types.Tool) -> Tool:
        """From the server's own words, which are bounded here."""
        return cls(told.name, safe_text(told.description or "", DESCRIPTION), told.input_schema)

    def check(self, args: Mapping[str, Any], what: str) -> None:
        """Raises BadReply naming each argument that the schema does not accept; FatalError if it is no schema."""
        from referencing.exceptions import Unresolvable

        from flows.executors.mcp.checks import TooManySteps, counting

        try:
            with counting():
                faults = [safe_text(_fault(error), FAULT) for error in self._validator.iter_errors(dict(args))]
        except (TooManySteps, RecursionError) as error:
            raise FatalError(f"tool {self.name!r}: its JSON schema takes too many steps to check; a simpler one is needed") from error
        except Unresolvable as error:
            raise FatalError(f"tool {self.name!r}: its schema refers to {safe_text(str(error), FAULT)}, which is not in it") from error
        if faults:
            more = f"; and {len(faults) - FAULTS} more" if len(faults) > FAULTS else ""
            raise BadReply(f"{what} does not accept these arguments: {'; '.join(faults[:FAULTS])}{more}. It takes: {self._described()}")

    @cached_property
    def _validator(self) -> Any:
        from jsonschema import SchemaError
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry

        from flows.executors.mcp.checks import bounded

        kind = bounded(validator_for(self.schema, default=Draft202012Validator))
        try:
            kind.check_schema(self.schema)
        except SchemaError as error:
            raise FatalError(
                f"tool {self.name!r}: its server tells a JSON schema that is none: {safe_text(error.message, FAULT)}"
            ) from error
        return kind(self.schema, registry=Registry())  # of its own: a "$ref" to elsewhere is not fetched

    def _described(self) -> str:
        required = self.schema.get("required", [])
        named = [name if name in required else f"{name} (optional)" for name in self.schema.get("properties", {})]
        return ", ".join(named) or "no arguments"


def _fault(error: Any) -> str:
    place = ".".join(str(step) for step in error.absolute_path)
    return f"{place}: {error.message}" if place else str(error.message)
