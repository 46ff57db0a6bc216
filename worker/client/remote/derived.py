"""Operations over HTTP: the request of an operation, and the result of its response."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote

from perdure.worker.client.remote.connection import RemoteConnection, not_here
from perdure.worker.operations import validation
from perdure.worker.operations.arguments import CALLER
from perdure.worker.operations.operation import Operation
from perdure.worker.operations.session import not_found

R = TypeVar("R")
#: Maximum items that the server returns at once.
PAGE = 1000
PLACEHOLDER = re.compile(r"\{(\w+)\}")
#: Methods whose arguments are in the query.
WITHOUT_BODY = ("GET", "DELETE")


def request(
    connection: RemoteConnection, operation: Operation[Any, R], bound: inspect.BoundArguments
) -> R:
    """Carry an operation out by an HTTP request, and return its result.

    Raises:
        InvalidInput, UnstorableValue: An argument is not valid, or names the caller or an owner.
        RunNotFound: No run can have the argument ``run_id``.
    """
    operation.check(bound)
    http, arguments = operation.http, dict(bound.arguments)
    for name in (*CALLER, "submitted_by"):
        not_here(**{name: arguments.pop(name, None)})
    if "limit" in arguments:
        arguments["limit"] = min(arguments["limit"], PAGE)
    path = PLACEHOLDER.sub(lambda found: _quoted(found[1], arguments.pop(found[1])), http.path)
    if http.method in WITHOUT_BODY:
        response = connection._sent(http.method, path, http.is_repeatable or None, params=arguments)
        data: Any = response.json() if response.content else None
    else:
        data = connection._tell(http.method, path, arguments, repeat=http.is_repeatable)
    if http.result is not None:
        data = data[http.result]
    return operation.decode(data) if operation.decode else decoder(operation.function)(data)


def _quoted(name: str, value: Any) -> str:
    """Return an argument as a part of a path."""
    if name == "run_id" and not validation.is_run_id(value):
        raise not_found(value)
    return quote(str(value), safe="")


@cache
def decoder(function: Callable[..., R]) -> Callable[[Any], R]:
    """Return the function that makes a function's result of JSON data, by the type of the result.

    Raises:
        TypeError: No rule says how to make such a type.
    """
    return _decoder(get_type_hints(function)["return"])


def _decoder(kind: Any) -> Callable[[Any], Any]:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is list:
        item = _decoder(parts[0])
        return lambda data: [item(each) for each in data]
    if origin is dict:
        value = _decoder(parts[1])
        return lambda data: {name: value(each) for name, each in data.items()}
    if origin in (Union, types.UnionType):
        (one,) = (_decoder(each) for each in parts if each is not type(None))
        return lambda data: None if data is None else one(data)
    if from_dict := getattr(kind, "from_dict", None):
        decode: Callable[[Any], Any] = from_dict
        return decode
    # A TypedDict is the JSON object itself.
    if kind in (Any, bool, int, str) or (isinstance(kind, type) and issubclass(kind, dict)):
        return lambda data: data
    raise TypeError(f"no rule makes {kind} of JSON; declare the operation with `decode`")
