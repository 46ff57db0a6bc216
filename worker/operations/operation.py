"""Operation: a function that every client has as a method, with its HTTP request and scope.

A function with ``@operation(...)`` is written once. Its first parameter is the ``Session`` that it
uses. Each client has a method with the name of the function. ``Client`` performs the operation on
its session, ``RemoteClient`` by an HTTP request. ``AuthorizedClient``, the client of a caller over
HTTP, first checks the caller's permissions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property, wraps
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

from perdure.worker.domain.token import Scope
from perdure.worker.operations.arguments import CHECKS, Check
from perdure.worker.operations.session import Session

P = ParamSpec("P")
R = TypeVar("R")
#: The annotation of options that a TypedDict names.
OPTIONS = re.compile(r"Unpack\[(\w+)\]")
F = TypeVar("F", bound=Callable[..., Any])


#: Problems of a route that reads one run.
RUN_PROBLEMS = ("run-not-found", "damaged-run")


class Http(NamedTuple):
    """The HTTP request of an operation.

    Names in braces in the path are arguments. An argument in ``{/name}`` is a further segment of
    the path. It is left out if the argument is None. GET and DELETE send the other arguments in the
    query, and the other methods send them in the JSON body.

    Args:
        method, path: As in ``PUT /flows/{flow}/pause``, below the path of the API.
        result: The field of the response that is the result. None: the whole response.
        is_repeatable: Whether the client may send the request again if no response came, because
            the server carries it out only once. A GET request may always be sent again.
        caps_limits: Whether the client lowers ``limit`` and ``look`` to the largest values that the
            HTTP API accepts. If not, the API answers a larger value with an error.
        key: The name of the argument that is sent as the header ``Idempotency-Key``. It has no
            effect if the operation has no such argument. A request with a key may be sent again.
        route: The id of the HTTP route, for a GET request whose route is derived
            (``worker/web/api/derived.py``). None: a module of ``worker/web/api`` has the route.
        problems: Last parts of the types of errors that the derived route can respond with, beside
            those of every route.
    """

    method: str
    path: str
    result: str | None = None
    is_repeatable: bool = False
    caps_limits: bool = True
    key: str = "idempotency_key"
    route: str | None = None
    problems: tuple[str, ...] = ()


def _parameters(options: Any) -> list[inspect.Parameter]:
    """Return a keyword-only parameter, with the default None, for each key of a TypedDict."""
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=annotation.__forward_arg__,
        )
        for name, annotation in options.__annotations__.items()
    ]


class Owner(Enum):
    """The runs that an operation concerns. They decide which callers may use it."""

    #: No run. The scope alone decides.
    NONE = "none"
    #: The run ``run_id``. A caller without the scope for the runs of all owners has to own it.
    RUN = "run"
    #: A new run, which belongs to the caller.
    CALLER = "caller"
    #: Runs of all owners. A caller needs the scope for them.
    ALL = "all"
    #: Many runs. For a caller without the scope for all runs, only those that they submitted.
    SUBMITTER = "submitter"


# A dataclass would make its methods at each start of a command, which takes 3 ms.
class Operation(Generic[P, R]):
    """A function that every client has as a method, with its HTTP request and its scope.

    Args:
        function: Carries the operation out.
        http: The HTTP request.
        scope: The permission that a caller over HTTP needs.
        owner: The runs that the operation concerns.
        checks: Checks that replace those of ``CHECKS``, by argument. They are for arguments whose
            names have another meaning here than in other operations.
        encode: Converts the arguments of a call to the arguments of the request. None: they are
            sent unchanged.
        decode: Converts the response's JSON to the result. None: the result type of ``function``
            decides.
    """

    def __init__(
        self,
        function: Callable[Concatenate[Session, P], R],
        http: Http,
        scope: Scope,
        owner: Owner,
        checks: Mapping[str, Check],
        encode: Callable[[Mapping[str, Any]], dict[str, Any]] | None,
        decode: Callable[[Any], R] | None,
    ) -> None:
        self.function = function
        self.http = http
        self.scope = scope
        self.owner = owner
        self.checks = checks
        self.encode = encode
        self.decode = decode

    @property
    def name(self) -> str:
        """The name of the function, and of each client's method."""
        return self.function.__name__

    @cached_property
    def signature(self) -> inspect.Signature:
        """The function's signature without the session.

        A TypedDict of options is replaced by one parameter for each option.
        """
        signature = inspect.signature(self.function)
        parameters: list[inspect.Parameter] = []
        for parameter in list(signature.parameters.values())[1:]:
            options = OPTIONS.fullmatch(str(parameter.annotation))
            parameters += (
                _parameters(self.function.__globals__[options[1]]) if options else [parameter]
            )
        return signature.replace(parameters=parameters)

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> inspect.BoundArguments:
        """Return the arguments of a call by parameter, with defaults for missing arguments.

        Raises:
            TypeError: The arguments do not fit the function's parameters.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}(): {error}") from None
        bound.apply_defaults()
        return bound

    def check(self, bound: inspect.BoundArguments) -> None:
        """Raise an error if an argument is not valid.

        An argument that is None is not checked if None is its default.

        Raises:
            InvalidInput, UnstorableValue: An argument is not valid. The text names the argument,
                the expected and the actual value.
        """
        for name, value in bound.arguments.items():
            check = self.checks.get(name) or CHECKS[name]
            if value is not None or self.signature.parameters[name].default is not None:
                check(value, name)

    def perform(self, session: Session, bound: inspect.BoundArguments) -> R:
        """Check the arguments, carry the operation out, and return its result."""
        self.check(bound)
        return self.function(session, *bound.args, **bound.kwargs)


#: All operations by their names.
OPERATIONS: dict[str, Operation[Any, Any]] = {}


def operation(
    http: Http,
    *,
    scope: Scope,
    owner: Owner,
    checks: Mapping[str, Check] | None = None,
    encode: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Callable[[F], F]:
    """Declare a function as an operation of every client.

    The decorator registers the operation in ``OPERATIONS`` and returns the function unchanged. The
    arguments are those of ``Operation``.
    """

    def declare(function: F) -> F:
        name = function.__name__
        assert name not in OPERATIONS, f"the operation {name} is declared twice"
        OPERATIONS[name] = Operation(function, http, scope, owner, checks or {}, encode, decode)
        return function

    return declare


class Performer(Protocol):
    """A client that can perform operations."""

    def _perform(self, operation: Operation[Any, R], bound: inspect.BoundArguments) -> R: ...


def method(
    function: Callable[Concatenate[Session, P], R],
) -> Callable[Concatenate[Performer, P], R]:
    """Return the method of a client for an operation.

    The method has the function's name and docstring. Its parameters are those of the function, but
    with ``self`` in place of the session. The function must be declared with ``@operation``.
    """
    operation: Operation[P, R] = OPERATIONS[function.__name__]

    @wraps(function)
    def call(self: Performer, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._perform(operation, operation.bind(*args, **kwargs))

    session = next(iter(inspect.signature(function).parameters.values()))
    own = inspect.Parameter("self", session.kind)
    parameters = (own, *operation.signature.parameters.values())
    call.__annotations__ = {
        each.name: each.annotation for each in parameters if each.annotation is not each.empty
    } | {"return": operation.signature.return_annotation}
    call.__dict__["__signature__"] = operation.signature.replace(parameters=parameters)
    return call
