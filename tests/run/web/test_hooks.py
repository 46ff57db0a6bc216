"""Hooks: a service that holds no token posts a signal to one run, by an address only it knows."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest

from perdure import Client, Mailbox, RoundContext, Run, Settings
from perdure.worker.client.tokens import Tokens
from tests.support.example_flows import waits  # noqa: F401 -- registers flows
from tests.support.runs import everything, hash_of, phase
from tests.support.runs_in_every_status import play
from tests.support.threaded_server import serving

MODULE = "tests.support.example_flows.waits"


@pytest.fixture
def address(settings: Settings, client: Client) -> Iterator[str]:
    """A server that wants tokens."""
    Tokens(client).create("ann", ["read"])
    with serving(settings) as reached:
        yield reached


pytestmark = pytest.mark.settings(flow_modules=(MODULE,))


def hooked(client: Client, settings: Settings, address: str, tmp_path: Path) -> tuple[Run, str]:
    """Return a run that waits for its hook, and the hook's address."""
    run = client.submit("hooked", str(tmp_path / "urls"))
    play(settings.model_copy(update={"public_url": address}), run.id)
    assert phase(client._store, run.id) == "parked"
    return run, urls(tmp_path)[-1]


def urls(tmp_path: Path) -> list[str]:
    return (tmp_path / "urls").read_text("utf-8").split()


def post(url: str, content: str = "null", **headers: str) -> httpx2.Response:
    given = {"Content-Type": "application/json", **headers}
    return httpx2.post(url, content=content, headers=given, timeout=30)


def test_a_service_without_a_token_signals_the_run_by_its_hook(
    client: Client, settings: Settings, address: str, tmp_path: Path
) -> None:
    run, url = hooked(client, settings, address, tmp_path)
    assert url.startswith(f"{address}/api/v1/hooks/{run.id}/paid/")
    body = json.dumps({"amount": 12})
    for headers in ({"webhook-id": "evt-1"}, {"Idempotency-Key": "evt-1"}):
        told = post(url, body, **headers)
        assert (told.status_code, told.json()) == (202, {"status": "stored"})
    assert post(url, "1", **{"webhook-id": "evt-1"}).status_code == 409
    assert client._store.signals.counts_of(run.id, ["paid"])["paid"] == (0, 1)
    play(settings.model_copy(update={"public_url": address}), run.id)
    assert client.get(run.id).answer == {"amount": 12}
    assert urls(tmp_path) == [url, url], "the node played again gets the same address"


def test_whatever_is_wrong_with_the_address_the_answer_is_the_same(
    client: Client, settings: Settings, address: str, tmp_path: Path
) -> None:
    run, url = hooked(client, settings, address, tmp_path)
    other = client.submit("hooked", str(tmp_path / "other"))
    client._store.redis.set(client._store.keys.run("odd"), "x")
    secret = url.rpartition("/")[2]
    digest = sha256(secret.encode()).hexdigest()
    base = f"{address}/api/v1/hooks"
    answers = {
        (told.status_code, told.text)
        for told in (
            post(f"{base}/{run.id}/paid/{'0' * 32}"),
            post(f"{base}/{run.id}/paid/{digest}"),
            post(f"{base}/{run.id}/other/{secret}"),
            post(f"{base}/{run.id}/a b/{secret}"),
            post(f"{base}/{other.id}/paid/{secret}"),
            post(f"{base}/nothing/paid/{secret}"),
            post(f"{base}/{run.id}:memory/paid/{secret}"),
            post(f"{base}/odd/paid/{secret}"),
        )
    }
    assert post(url).status_code == 202
    play(settings.model_copy(update={"public_url": address}), run.id)
    told = post(url)
    answers.add((told.status_code, told.text))
    assert len(answers) == 1 and told.status_code == 404, "it dies with its run"
    assert client._store.signals.counts_of(run.id, ["paid"])["paid"] == (1, 1)


def test_a_hook_ends_with_its_run_also_for_an_event_that_it_has_stored(
    client: Client, settings: Settings, address: str, tmp_path: Path
) -> None:
    run, url = hooked(client, settings, address, tmp_path)
    known = {"webhook-id": "evt-1"}
    assert post(url, "1", **known).status_code == 202
    assert post(url, "1", **known).status_code == 202, "it is sent again while the run lives"
    play(settings.model_copy(update={"public_url": address}), run.id)
    assert client.get(run.id).status.value == "completed"
    told = [post(url, "1", **known), post(url, "2", **known), post(url, "1")]
    assert [each.status_code for each in told] == [404, 404, 404]
    assert len({each.text for each in told}) == 1


def test_the_secret_of_a_hook_is_nowhere_but_in_its_address(
    client: Client,
    settings: Settings,
    address: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    run, url = hooked(client, settings, address, tmp_path)
    secret = url.rpartition("/")[2]
    assert len(secret) == 32
    assert post(url).status_code == 202
    assert post(url, "{").status_code == 400
    client._store.redis.hset(client._store.keys.run(run.id), "step", "x")
    assert post(url).status_code == 409
    client._store.redis.hset(client._store.keys.run(run.id), "step", "0")
    fields = hash_of(client._store, run.id)
    assert fields["h:paid"] == sha256(secret.encode()).hexdigest()
    told = [str(everything(client._store)), json.dumps(client.transcript(run.id))]
    told += [each.getMessage() for each in caplog.records if not each.name.startswith("http")]
    told += [str([event.to_dict() for event in client.events(run.id, follow=False)])]
    told += [
        str(client.get(run.id).to_dict()),
        str(client.why(run.id).to_dict()),
        *capfd.readouterr(),
    ]
    assert not [text for text in told if secret in text]


@pytest.mark.parametrize("given", [None, "runs.example.org"])
def test_without_the_servers_url_the_run_says_what_to_set(
    client: Client, settings: Settings, tmp_path: Path, given: str | None
) -> None:
    run = client.submit("hooked", str(tmp_path / "urls"))
    play(settings.model_copy(update={"public_url": given}), run.id)
    assert "PERDURE_PUBLIC_URL" in str(client.get(run.id).error)


def test_a_payload_by_a_hook_has_the_limits_of_signals(
    client: Client, settings: Settings, address: str, tmp_path: Path
) -> None:
    _, url = hooked(client, settings, address, tmp_path)
    told = post(url, json.dumps("x" * 300_000))
    assert (told.status_code, told.json()["type"]) == (422, "urn:perdure:invalid-input")


def test_a_nodes_test_gets_an_address_too() -> None:
    context = RoundContext(goal="g", mailbox=Mailbox())
    assert "/hooks/run/paid/" in context.hook("paid")
