"""Operations over HTTP: the request of an operation, and the conversion of its response."""

from __future__ import annotations

import inspect
import re
import types
import uuid
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from perdure.flows.core.names import is_name
from perdure.worker.client.remote.connection import RemoteConnection, not_here, segment
from perdure.worker.client.remote.request_data import as_json, check_no_callback
from perdure.worker.client.results import id_of
from perdure.worker.domain.error_groups import MOST_LOOKED, ErrorGroups
from perdure.worker.domain.interrupt import Inbox
from perdure.worker.domain.prompt import PromptOfRound
from perdure.worker.domain.run_tree import RunTree
from perdure.worker.domain.transcript import Transcript
from perdure.worker.domain.verdict import Verdict
from perdure.worker.errors import UnknownFlow
from perdure.worker.operations import validation
from perdure.worker.operations.arguments import CALLER_ARGUMENTS
from perdure.worker.operations.operation import Operation, Owner
from perdure.worker.operations.session import not_found

R = TypeVar("R")
#: The largest values that the HTTP API accepts, by argument.
MOST = {"limit": 1000, "look": MOST_LOOKED}
#: Types of results that a module may import for type checkers only.
RESULTS = {
    each.__name__: each
    for each in (ErrorGroups, Inbox, PromptOfRound, RunTree, Transcript, Verdict)
}
#: An argument in a path: ``{name}``, or ``{/name}``, which is left out with its slash if it is
#: None.
PLACEHOLDER = re.compile(r"\{(/?)(\w+)\}")
#: Arguments with another name in the query of a request.
QUERY_NAMES = {"query": "q"}
#: Methods whose arguments are in the query.
WITHOUT_BODY = ("GET", "DELETE")


def request(
    connection: RemoteConnection, operation: Operation[Any, R], bound: inspect.BoundArguments
) -> R:
    """Carry an operation out by an HTTP request, and return its result.

    Raises:
        InvalidInput, UnstorableValue: An argument is not valid, or it names the caller or an owner.
        RunNotFound: No run can have the id in the arguments.
        UnknownFlow: No flow can have the name in the arguments.
        PerdureError: The error that the response reports (``raise_problem``).
    """
    http, arguments = operation.http, dict(bound.arguments)
    for name in (*CALLER_ARGUMENTS, "submitted_by"):
        not_here(**{name: arguments.pop(name, None)})
    operation.check(bound)
    if operation.encode:
        arguments = operation.encode(arguments)
    check_no_callback(arguments.pop("on_end", None))
    key = arguments.pop(http.key, None)
    validation.key_over_http(key, http.key)
    validation.topic(arguments.get("topic"), over_http=True)
    if operation.owner is Owner.CALLER:
        # With an id and a nonce of its own, the request can be sent again.
        if arguments["run_id"] is None:
            arguments["run_id"] = uuid.uuid4().hex[:16]
        if arguments["nonce"] is None:
            arguments["nonce"] = uuid.uuid4().hex
    for name, most in MOST.items():
        if http.caps_limits and arguments.get(name) is not None:
            arguments[name] = min(arguments[name], most)
    path = PLACEHOLDER.sub(
        lambda found: _part(found[1], found[2], arguments.pop(found[2])), http.path
    )
    if http.method in WITHOUT_BODY:
        arguments = {QUERY_NAMES.get(name, name): value for name, value in arguments.items()}
        response = connection._sent(http.method, path, http.is_repeatable or None, params=arguments)
        data: Any = response.json() if response.content else None
    else:
        encoded = ((name, as_json(name, value)) for name, value in arguments.items())
        body = {name: data for name, data in encoded if data is not None}
        repeat = http.is_repeatable or key is not None
        data = connection._tell(http.method, path, body, repeat=repeat, Idempotency_Key=key)
    if http.result is not None:
        data = data[http.result]
    return operation.decode(data) if operation.decode else decoder(operation.function)(data)


def _part(slash: str, name: str, value: Any) -> str:
    """Return an argument as a segment of a path.

    Args:
        slash: ``/`` for an argument that may be None, else empty. A segment for it begins with this
            text, and is empty if the argument is None.

    Raises:
        RunNotFound, UnknownFlow: No run can have this id, or no flow can have this name.
    """
    if slash and value is None:
        return ""
    if name == "run":
        value = id_of(value)
    if name in ("run", "run_id") and not validation.is_run_id(value):
        raise not_found(value)
    if name == "flow" and not is_name(value):
        raise UnknownFlow(f"unknown flow {value!r}; see: perdure flows")
    return slash + segment(str(value))


@cache
def decoder(function: Callable[..., R]) -> Callable[[Any], R]:
    """Return the function that converts JSON data to the result type of ``function``.

    Raises:
        TypeError: Values of this type cannot be made from JSON data.
    """
    return _decoder(result_type(function))


def result_type(function: Callable[..., Any]) -> Any:
    """Return the type of the result of ``function``, as an object."""
    result = SimpleNamespace(__annotations__={"return": function.__annotations__["return"]})
    # Modules of operations import these types for checkers only, so that commands start fast.
    return get_type_hints(result, function.__globals__, RESULTS)["return"]


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
    if kind in (Any, bool, float, int, str, type(None)) or (
        isinstance(kind, type) and issubclass(kind, dict)
    ):
        return lambda data: data
    raise TypeError(f"no rule makes {kind} of JSON; declare the operation with `decode`")
