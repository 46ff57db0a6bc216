"""Routes that are derived from operations.

An operation whose ``Http`` has a ``route`` needs no route of its own. It reads: its arguments are
in the path and in the query, and its result is a document, a list of documents, or JSON data.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Annotated, Any, get_type_hints

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field, create_model

from perdure.worker.client.remote.derived import PLACEHOLDER, result_type
from perdure.worker.operations.arguments import CALLER_ARGUMENTS
from perdure.worker.operations.operation import OPERATIONS, Operation
from perdure.worker.operations.validation import MOST_GENERATIONS
from perdure.worker.web.api.requests import Known
from perdure.worker.web.api.routes import RunId, problems, resource_router
from perdure.worker.web.auth.permissions import MAX_PAGE_SIZE, Runs
from perdure.worker.web.json_body import Json

#: The tags of paths whose first segment is not their tag.
TAGS = dict.fromkeys(("workers", "queues", "dead-letters", "doctor"), "fleet")
#: The bounds of arguments in a query, by name. Others have the types that the function names.
FIELDS: dict[str, Any] = {
    "limit": Annotated[
        int, Field(ge=1, le=MAX_PAGE_SIZE, description="Maximum number of items on the page.")
    ],
    "cursor": Annotated[
        str | None, Field(description="The cursor that the previous page returned.")
    ],
    "step": Annotated[int, Field(ge=0, description="The number of the step.")],
    "depth": Annotated[
        int,
        Field(ge=1, le=MOST_GENERATIONS, description="The number of generations below the run."),
    ],
    "width": Annotated[
        int,
        Field(
            ge=1,
            le=MAX_PAGE_SIZE,
            description="How many children of a run are listed of each flow and status. The others "
            "are counted.",
        ),
    ],
}
#: The first section of a docstring after its text.
SECTION = re.compile(r"\n(Args|Returns|Raises|Yields):\n")


def derived_routers() -> Iterator[APIRouter]:
    """Yield a router for each tag of the operations whose routes are derived."""
    by_tag: dict[str, APIRouter] = {}
    for operation in OPERATIONS.values():
        if operation.http.route:
            segment = operation.http.path.split("/")[1]
            tag = TAGS.get(segment, segment)
            router = by_tag.setdefault(tag, resource_router(tag))
            _add_route(router, operation)
    yield from by_tag.values()


def _add_route(router: APIRouter, operation: Operation[Any, Any]) -> None:
    http = operation.http
    assert http.method == "GET" and http.route, f"{operation.name}: only reads are derived"
    doc = inspect.getdoc(operation.function) or ""
    router.add_api_route(
        http.path,
        _endpoint(operation),
        methods=[http.method],
        name=http.route,
        operation_id=http.route,
        response_model=result_type(operation.function),
        responses=problems(*http.problems),
        description=SECTION.split(doc)[0].replace("``", "`"),
    )


def _endpoint(operation: Operation[Any, Any]) -> Callable[..., Response]:
    """Return the function of a route: the arguments of its request, as FastAPI reads them."""
    name, in_path = operation.name, [found[1] for found in PLACEHOLDER.findall(operation.http.path)]
    parameters = {
        each: RunId if each == "run_id" else Annotated[str, Path()] for each in in_path
    } | {"runs": Runs}
    if fields := _query_fields(operation, in_path):
        parameters["query"] = Annotated[
            create_model(f"{operation.http.route}_query", __base__=Known, **fields), Query()
        ]

    def endpoint(runs: Any, query: Known | None = None, **arguments: str) -> Response:
        return Json(_as_json(getattr(runs, name)(**arguments, **dict(query or ()))))

    endpoint.__dict__["__signature__"] = inspect.Signature(
        [
            inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
            for each, kind in parameters.items()
        ]
    )
    return endpoint


def _query_fields(operation: Operation[Any, Any], in_path: list[str]) -> dict[str, Any]:
    """Return type and default of the arguments in the query, by name."""
    written = {
        each.name: each
        for each in operation.signature.parameters.values()
        if each.name not in (*in_path, *CALLER_ARGUMENTS, "submitted_by")
    }
    hints = get_type_hints(
        SimpleNamespace(__annotations__={name: each.annotation for name, each in written.items()}),
        operation.function.__globals__,
    )
    return {
        name: (FIELDS.get(name, hints[name]), ... if each.default is each.empty else each.default)
        for name, each in written.items()
    }


def _as_json(result: Any) -> Any:
    if isinstance(result, list):
        return [_as_json(each) for each in result]
    return result.to_dict() if hasattr(result, "to_dict") else result
