"""The facts of each operation, compared with the clients and with the HTTP API."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi import FastAPI

from perdure import RemoteClient
from perdure.worker.client.remote.derived import QUERY_NAMES, WITHOUT_BODY, decoder
from perdure.worker.operations.arguments import CALLER_ARGUMENTS, CHECKS
from perdure.worker.operations.operation import OPERATIONS, Operation, Owner
from perdure.worker.web.app import create_app
from tests.support.cases import EachCase, cases_of

#: Operations whose method of RemoteClient is not written by hand.
DERIVED = sorted(
    name
    for name, operation in OPERATIONS.items()
    if getattr(RemoteClient, name).__dict__.get("__wrapped__") is operation.function
)
#: Arguments that no request has, or that are in a header.
NOT_SENT = (*CALLER_ARGUMENTS, "submitted_by", "on_end")


@pytest.fixture(scope="module")
def paths() -> dict[str, Any]:
    """The paths of the OpenAPI document, with ``{}`` for each parameter."""
    app = create_app()
    assert isinstance(app, FastAPI)
    document = app.openapi()
    prefix = "/api/v1"
    return {
        re.sub(r"\{\w+\}", "{}", path.removeprefix(prefix)): {
            method.upper(): _names(route, document) for method, route in methods.items()
        }
        for path, methods in document["paths"].items()
    }


def _names(route: dict[str, Any], document: dict[str, Any]) -> set[str]:
    """Return the names that a route takes in its query and in its body."""
    names = {each["name"] for each in route.get("parameters", ()) if each["in"] == "query"}
    schema = (
        route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    )
    for part in [schema, *(schema or {}).get("anyOf", ())] if schema else ():
        if "$ref" in part:
            body = document["components"]["schemas"][part["$ref"].rpartition("/")[2]]
            names |= set(body["properties"])
    return names


def _sent(operation: Operation[Any, Any]) -> set[str]:
    """Return the names of the arguments that a request has beside its path."""
    names = set(operation.signature.parameters) - {*NOT_SENT, operation.http.key}
    names -= set(re.findall(r"\{/?(\w+)\}", operation.http.path))
    if operation.http.method in WITHOUT_BODY:
        names = {QUERY_NAMES.get(name, name) for name in names}
    return names


def test_there_are_operations_that_the_remote_client_derives() -> None:
    assert len(DERIVED) > 25


def test_the_request_of_a_derived_operation_fits_a_route(
    each_case: EachCase, paths: dict[str, Any]
) -> None:
    def check(name: str) -> None:
        operation = OPERATIONS[name]
        path = re.sub(r"\{/\w+\}", "", operation.http.path)
        path = re.sub(r"\{\w+\}", "{}", path)
        [*_, methods] = [
            methods
            for route, methods in paths.items()
            if re.fullmatch(re.escape(route).replace(r"\{\}", "[^/]+"), path)
        ]
        if operation.encode is None:  # It names the arguments of the request.
            assert _sent(operation) <= methods[operation.http.method]

    each_case(cases_of(DERIVED), check)


def test_the_result_of_a_derived_operation_can_be_made_of_json(each_case: EachCase) -> None:
    def check(name: str) -> None:
        assert OPERATIONS[name].decode or decoder(OPERATIONS[name].function)

    each_case(cases_of(DERIVED), check)


def test_each_argument_has_a_check(each_case: EachCase) -> None:
    def check(name: str) -> None:
        operation = OPERATIONS[name]
        assert set(operation.signature.parameters) <= {*CHECKS, *operation.checks}

    each_case(cases_of(sorted(OPERATIONS)), check)


def test_the_owner_of_an_operation_is_in_its_arguments(each_case: EachCase) -> None:
    needed = {Owner.RUN: "run_id", Owner.SUBMITTER: "submitted_by", Owner.CALLER: "submitted_by"}

    def check(name: str) -> None:
        operation = OPERATIONS[name]
        assert needed.get(operation.owner) in (None, *operation.signature.parameters)

    each_case(cases_of(sorted(OPERATIONS)), check)


def test_a_derived_route_tells_and_takes_what_its_operation_does(each_case: EachCase) -> None:
    app = create_app()
    assert isinstance(app, FastAPI)
    routes = {
        each["operationId"]: each
        for methods in app.openapi()["paths"].values()
        for each in methods.values()
    }

    def check(name: str) -> None:
        operation = OPERATIONS[name]
        route = routes[str(operation.http.route)]
        summary = (operation.function.__doc__ or "").partition("\n")[0].replace("``", "`")
        assert route["description"].startswith(summary)
        taken = {each["name"] for each in route.get("parameters", ()) if each["in"] == "query"}
        assert taken == _sent(operation)

    derived = sorted(name for name in OPERATIONS if OPERATIONS[name].http.route)
    assert len(derived) > 10
    each_case(cases_of(derived), check)
