"""The contract of the clients: each has its methods, with its parameters and docstrings."""

from __future__ import annotations

import inspect

import pytest

from perdure import AsyncClient, Client, RemoteClient
from perdure.worker.client.api import ClientApi
from perdure.worker.features.clients import ClientFeatures
from perdure.worker.operations.operation import OPERATIONS
from tests.support.cases import EachCase, cases_of

METHODS = sorted({"again", *OPERATIONS, *ClientApi.__abstractmethods__} - {"_perform"})
#: The attributes of a client beside its methods: properties of features are among them.
ATTRIBUTES = {
    "settings",
    *(name for name, part in inspect.getmembers(ClientFeatures) if isinstance(part, property)),
}
CLIENTS = (Client, RemoteClient, AsyncClient)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_a_client_has_the_methods_of_the_contract_and_no_others(client: type) -> None:
    own = {name for name in dir(client) if not name.startswith("_")}
    assert own - ATTRIBUTES == set(METHODS)
    assert not getattr(client, "__abstractmethods__", None)


def test_a_method_has_the_parameters_of_the_contract(each_case: EachCase) -> None:
    def check(client: type, name: str) -> None:
        expected = inspect.signature(getattr(ClientApi, name)).parameters
        actual = inspect.signature(getattr(client, name)).parameters
        assert list(actual.values()) == list(expected.values())

    each_case(cases_of(CLIENTS, METHODS), check)


def test_a_method_is_documented_by_the_contract(each_case: EachCase) -> None:
    def check(client: type, name: str) -> None:
        documented = inspect.getdoc(getattr(ClientApi, name))
        assert documented
        assert inspect.getdoc(getattr(client, name)) == documented

    each_case(cases_of(CLIENTS, METHODS), check)


def test_a_method_of_the_async_client_is_a_coroutine_or_an_async_iterator(
    each_case: EachCase,
) -> None:
    def check(name: str) -> None:
        method = getattr(AsyncClient, name)
        assert inspect.iscoroutinefunction(method) != inspect.isasyncgenfunction(method)

    each_case(cases_of(METHODS), check)
