"""The arguments of a command, as a pydantic model made once from the function's signature."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, PydanticUndefined, to_jsonable_python

from perdure.flows.core.docstrings import read_docstring
from perdure.flows.core.errors import BadReply, InvalidFlow, UnstorableValue
from perdure.flows.core.json_values import storable
from perdure.flows.core.validation import faults_text


class ArgumentSchema(GenerateJsonSchema):
    """A generator of JSON schemas. It omits defaults that JSON cannot hold, without a warning."""

    ignored_warning_kinds: ClassVar[set[JsonSchemaWarningKind]] = {  # type: ignore[misc]
        "skipped-choice",
        "non-serializable-default",
    }


class Signature(Protocol):
    """The arguments that a command accepts."""

    @property
    def wants_context(self) -> bool:
        """Whether the command's function takes the ``RoundContext`` as ``context``."""

    def check(self, args: Mapping[str, Any], what: str) -> dict[str, Any]:
        """Validate a command's arguments, and return them as its function gets them.

        Args:
            what: the command, for the error.

        Raises:
            BadReply: an argument is missing, unknown or wrong. The message names each.
        """

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a command's arguments."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of one function, without ``self`` and ``context``.

    Attributes:
        model: the pydantic model of the arguments. Its fields are numbered and have the arguments'
            names as aliases, because pydantic refuses some names (``json``, ``_x``).
        names: the name of the argument, by the name of the model's field.
        wants_context: whether the function has a parameter ``context``.
    """

    model: type[BaseModel]
    names: Mapping[str, str]
    wants_context: bool

    def check(self, args: Mapping[str, Any], what: str) -> dict[str, Any]:
        """Validate and convert a command's arguments for its function.

        The result has only the passed arguments. The call of the function fills in its defaults for
        the others.

        Args:
            what: the command, for the error.

        Raises:
            BadReply: an argument is missing, unknown or wrong. The message names each.
        """
        try:
            read = self.model.model_validate(dict(args))
        except ValidationError as error:
            raise BadReply(
                f"{what} does not accept these arguments: {faults_text(error)}. "
                f"It takes: {self.described()}"
            ) from error
        by_name = {
            self.names[field]: getattr(read, field)
            for field in read.model_fields_set
            if field in self.names
        }
        return {**by_name, **(read.model_extra or {})}

    def complete(self, args: Mapping[str, Any], what: str) -> dict[str, Any]:
        """Return a command's arguments as JSON data: validated, converted, and with defaults.

        An argument stays as it was passed if its JSON data would not be read as the same value
        again (a secret, for example). A default that JSON cannot hold is left out.

        Args:
            what: the command, for the error.

        Raises:
            BadReply: an argument is missing, unknown or wrong. The message names each.
        """
        passed = self.check(args, what)
        completed = {}
        for field, name in self.names.items():
            if name in passed:
                completed[name] = self._as_json(name, passed[name], args)
            elif (default := self.model.model_fields[field].default) is not PydanticUndefined:
                try:
                    completed[name] = _json_of(default, name)
                except (PydanticSerializationError, UnstorableValue, ValueError):
                    continue
        return completed | {name: args[name] for name in passed.keys() - completed.keys()}

    def _as_json(self, name: str, value: Any, args: Mapping[str, Any]) -> Any:
        """Return a validated argument as JSON data that is read as the same value again.

        If there is no such JSON data, return the argument as it was passed.

        Args:
            value: the validated argument.
            args: all arguments as they were passed.
        """
        try:
            plain = _json_of(value, name)
            reads_back = bool(self.check({**args, name: plain}, name)[name] == value)
        except Exception:  # A type of the user may raise anything.
            return args[name]
        return plain if reads_back else args[name]

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the function's arguments."""
        return dict(self._schema)

    @cached_property
    def _schema(self) -> dict[str, Any]:
        schema = self.model.model_json_schema(schema_generator=ArgumentSchema)
        schema.pop("title", None)
        return schema

    def described(self) -> str:
        """Return the arguments' names for an error text. Those with a default are marked."""
        fields = self.model.model_fields
        named = [
            f"{name}{'' if fields[field].is_required() else ' (optional)'}"
            for field, name in self.names.items()
        ]
        return ", ".join(named) or "no arguments"


def arguments_of(function: Callable[..., Any]) -> Arguments:
    """Make an argument validator from a function's signature.

    Args:
        function: the function of a command, or a bound method.

    Raises:
        InvalidFlow: the signature has a parameter that cannot be passed by name, or a type that
            pydantic cannot validate.
    """
    bound = getattr(function, "__func__", None)
    return _read(bound, True) if bound is not None else _read(function, False)


@lru_cache(maxsize=1024)
def _read(function: Callable[..., Any], is_method: bool) -> Arguments:
    name = getattr(function, "__name__", type(function).__name__)
    parameters = list(inspect.signature(function).parameters.values())[1 if is_method else 0 :]
    extra: typing.Literal["allow", "forbid"] = "forbid"
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    own_parameters = [p for p in parameters if p.name != "context"]
    told = read_docstring(inspect.getdoc(function) or "").arguments
    hints = _hints(function, name, [p for p in own_parameters if p.kind is not p.VAR_KEYWORD])
    for parameter in own_parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise InvalidFlow(
                f"command {name!r} takes {parameter}, but arguments are passed by name; "
                "use a parameter that can be passed by name"
            )
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        field = f"argument_{len(fields)}"
        hint = hints[parameter.name]
        # A description in the annotation has precedence.
        text = None if _is_described(hint) else told.get(parameter.name)
        described: dict[str, Any] = {} if text is None else {"description": text}
        fields[field] = (hint, Field(default, alias=parameter.name, **described))
        names[field] = parameter.name
    try:
        # protected_namespaces is empty so that an argument may be named model_name.
        model = create_model(
            name, __config__=ConfigDict(extra=extra, protected_namespaces=()), **fields
        )
        arguments = Arguments(model, names, len(own_parameters) < len(parameters))
        arguments.schema()
    except PydanticUserError as error:
        raise InvalidFlow(
            f"command {name!r} has an argument that JSON cannot hold: {error.message}"
        ) from error
    return arguments


def _json_of(value: Any, name: str) -> Any:
    what = f"the argument {name!r}"
    try:
        return storable(value, what)
    except UnstorableValue:
        return storable(to_jsonable_python(value), what)


def _is_described(hint: Any) -> bool:
    """Return whether a type annotation describes its argument: ``Annotated[int, Field(...)]``."""
    metadata = typing.get_args(hint)[1:] if typing.get_origin(hint) is typing.Annotated else ()
    return any(isinstance(each, FieldInfo) and each.description for each in metadata)


def _hints(
    function: Callable[..., Any], name: str, parameters: list[inspect.Parameter]
) -> dict[str, Any]:
    """Return the evaluated annotations of a function's ``parameters``, by name.

    ``context`` must not be among the parameters, because its annotation may exist for type checkers
    only. A parameter without an annotation accepts any value.

    Args:
        name: the name of the command, for errors.

    Raises:
        InvalidFlow: an annotation cannot be evaluated.
    """
    annotations = {p.name: Any if p.annotation is p.empty else p.annotation for p in parameters}
    holder = types.SimpleNamespace(__annotations__=annotations)
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, namespace, include_extras=True)
    except NameError as error:
        raise InvalidFlow(
            f"command {name!r}: an annotation cannot be resolved ({error}); "
            "define the type at module level"
        ) from error
