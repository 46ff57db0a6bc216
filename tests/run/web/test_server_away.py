"""What callers learn of a state server that does not answer: only an admin reads its address."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from starlette.testclient import TestClient

from perdure import Client, Settings
from perdure.worker.web import Caller, Scope, create_app

#: Nothing listens there.
AWAY = "redis://someone:secret@localhost:1/0"
ADDRESS = "localhost:1"
CALLS: list[tuple[str, str, Any]] = [
    ("GET", "/api/v1/runs", None),
    ("POST", "/api/v1/runs", {"flow": "countdown", "goal": "g"}),
    ("GET", "/v1/models", None),
]
#: No caller is known: a page needs the key of its cookies first.
PUBLIC: list[tuple[str, str, Any]] = [
    ("GET", "/runs", None),
    ("GET", "/api/v1/ready", None),
    ("POST", "/api/v1/hooks/r/paid/0", {}),
    ("GET", "/login", None),
]


@pytest.fixture
def client() -> Iterator[Client]:
    with closing(Client(settings=Settings(redis_url=AWAY))) as made:
        yield made


def asked(client: Client, who: Caller | None, call: tuple[str, str, Any]) -> str:
    """The text of the response to a call, with the own authentication if ``who`` is None."""
    app = (
        create_app(client=client)
        if who is None
        else create_app(client=client, caller=lambda _: who)
    )
    method, path, body = call
    answer = TestClient(app, base_url="http://localhost").request(method, path, json=body)
    assert answer.status_code == 503, (path, answer.text)
    return answer.text


@pytest.mark.parametrize("call", [*CALLS, *PUBLIC], ids=lambda call: f"{call[0]} {call[1]}")
def test_a_caller_who_is_not_known_does_not_read_the_address_of_the_state_server(
    client: Client, caplog: pytest.LogCaptureFixture, call: tuple[str, str, Any]
) -> None:
    caplog.set_level(logging.WARNING, "perdure.web")
    text = asked(client, None, call)
    assert ADDRESS not in text and "someone" not in text
    assert ADDRESS in caplog.text, "the operator finds it in the log"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]} {call[1]}")
def test_a_caller_who_is_no_admin_does_not_read_it_and_an_admin_does(
    client: Client, call: tuple[str, str, Any]
) -> None:
    some = frozenset(Scope) - {Scope.ADMIN}
    assert ADDRESS not in asked(client, Caller("ann", some), call)
    assert ADDRESS in asked(client, Caller("root", frozenset({Scope.ADMIN})), call)
