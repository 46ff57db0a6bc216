"""Errors for callers about a state server that does not answer: only an admin reads its address."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from starlette.testclient import TestClient

from perdure import Client, Settings
from perdure.worker.cli.main import run as perdure
from perdure.worker.client.remote import RemoteClient
from perdure.worker.domain.verdict import VerdictCode
from perdure.worker.errors import StoreUnavailable
from perdure.worker.web import Caller, Scope, create_app
from tests.support.spoiled_servers import without_disk
from tests.support.threaded_server import serving

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
    """Return the text of the response to a call, with the own authentication if ``who`` is None."""
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


def test_over_http_why_and_writes_name_a_full_disk_as_they_do_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with without_disk() as full:
        settings = Settings(redis_url=full.url)
        with closing(Client(settings=settings)) as client:
            client._store.redis.config_set("stop-writes-on-bgsave-error", "no")
            run_id = client.submit("countdown", "g", {"rounds": 1}).id
            ended = client.submit("countdown", "g", {"rounds": 1}).id
            client.request_stop(ended, "now")
            client._store.redis.config_set("stop-writes-on-bgsave-error", "yes")
            here = client.why(run_id)
            assert client.why(ended).code is VerdictCode.ENDED
            reader = Caller("ann", frozenset({Scope.READ_ALL, Scope.SUBMIT}))
            browser = TestClient(
                create_app(client=client, caller=lambda _: reader), base_url="http://localhost"
            )
            refused = browser.post("/api/v1/runs", json={"flow": "countdown", "goal": "g"})
            page = browser.get("/stuck")
        with serving(settings) as url, closing(RemoteClient(url)) as remote:
            there = remote.why(run_id)
            with pytest.raises(StoreUnavailable, match=r"MISCONF.*It cannot write to its disk"):
                remote.submit("countdown", "g", {"rounds": 1})
            monkeypatch.delenv("PERDURE_REDIS_URL", raising=False)
            assert perdure(["why", run_id, "--url", url]) == 0
    assert here.code is there.code is VerdictCode.SERVER_SILENT
    assert here.details["refuses"] == there.details["refuses"] == "MISCONF"
    assert here.details["otherwise"] == "no-worker-for-the-role"
    for text in (here.sentence, there.sentence, capsys.readouterr().out, refused.text):
        assert "MISCONF" in text and "It cannot write to its disk" in text
        assert full.url.rpartition("/")[2] not in text
    assert refused.status_code == 503 and page.status_code == 200
