"""The type of a flow's answers: its JSON schema, and the checks of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from perdure.flows.core.errors import InvalidAnswer, InvalidFlow
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.signature import ArgumentSchema
from perdure.flows.core.summaries import safe_text
from perdure.flows.core.validation import faults_text

#: Maximum characters of an answer that an error quotes.
EXCERPT_LENGTH = 200


class AnswerType:
    """The type of a flow's answers.

    It is a pydantic model, a dataclass, a TypedDict, or any other type that pydantic can read.

    Args:
        kind: the type.
        what: the owner of the type. It begins the text of an error.

    Raises:
        InvalidFlow: pydantic cannot read this type, or has no JSON schema for it.
    """

    def __init__(self, kind: Any, what: str) -> None:
        self.name = type_text(kind)
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
            #: The JSON schema of the answers.
            self.schema = self._adapter.json_schema(schema_generator=ArgumentSchema)
        except (PydanticUserError, NameError, TypeError) as error:
            raise InvalidFlow(
                f"{what} is {self.name}, which cannot be the type of an answer: {error}. Expected "
                "a pydantic model, a dataclass, a TypedDict, or a type that pydantic can read"
            ) from error

    def check(self, answer: Any, where: str) -> Any:
        """Validate an answer, and return it as JSON data. ``read`` converts the data back.

        Args:
            answer: a value of this type, or data from which pydantic makes one.
            where: the beginning of the error text.

        Raises:
            InvalidAnswer: the answer does not fit this type.
            UnstorableValue: the answer cannot be JSON data.
        """
        try:
            plain = self._dumped(answer)
            self._read(plain)
        except ValidationError as error:
            raise self._invalid(answer, error, where) from error
        return plain

    def read(self, plain: Any, where: str) -> Any:
        """Return a stored answer as a value of this type.

        Args:
            plain: the answer as JSON data, as ``check`` returned it.
            where: the beginning of the error text.

        Raises:
            InvalidAnswer: the answer does not fit this type.
        """
        try:
            return self._read(plain)
        except ValidationError as error:
            raise self._invalid(plain, error, where) from error

    def _dumped(self, answer: Any) -> Any:
        try:
            value = self._adapter.validate_python(answer)
        except ValidationError:
            # JSON data of a strict type, or an object that has the shape of this type.
            value = self._read(storable(answer, "the answer"))
        # A computed field could not be read again.
        plain = self._adapter.dump_python(value, mode="json", round_trip=True)
        return storable(plain, "the answer")

    def _read(self, plain: Any) -> Any:
        return self._adapter.validate_json(canonical(plain), by_alias=True, by_name=True)

    def _invalid(self, answer: Any, error: ValidationError, where: str) -> InvalidAnswer:
        return InvalidAnswer(
            f"{where}the answer does not fit {self.name}: {faults_text(error)}. It is: "
            f"{safe_text(repr(answer), EXCERPT_LENGTH)}"
        )


def type_text(kind: Any) -> str:
    """Return a type's name for an error text, such as ``Report`` or ``list[int]``."""
    is_plain = isinstance(kind, type) and get_origin(kind) is None
    return kind.__name__ if is_plain else str(kind).replace("typing.", "")


def takes_text(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    """Return whether a JSON schema may accept a string. A schema without a type may.

    Args:
        definitions: ``$defs`` of the whole schema.
    """
    if "$ref" in schema:
        return takes_text(definitions.get(str(schema["$ref"]).rpartition("/")[2], {}), definitions)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return any(takes_text(each, definitions) for each in choices)
    kinds = schema.get("type", "string")
    return "string" in ([kinds] if isinstance(kinds, str) else kinds)
