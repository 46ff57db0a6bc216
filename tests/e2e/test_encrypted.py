"""Encrypted connections, to state server and broker: the server must prove its identity, and a
refusal has a clear error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, RunStatus, Settings, StoreUnavailable
from perdure.worker.app import make_app
from perdure.worker.doctor import Level
from perdure.worker.doctor.server_checks import connection
from perdure.worker.store import Store
from perdure.worker.store.urls import check_answers
from tests.support.command_line import CommandLine
from tests.support.rabbitmq import rabbit_server
from tests.support.redis_servers import CrashableServer
from tests.support.tls_servers import NOT_IN_IT, TlsRabbit, TlsServer, tls_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tls() -> Iterator[TlsServer]:
    with tls_server() as running:
        yield running


@pytest.fixture(scope="module")
def rabbit_tls() -> Iterator[TlsRabbit]:
    with rabbit_server(TlsRabbit) as running:
        yield running


def reach_broker(url: str) -> None:
    """Open a channel as a worker does, once."""
    app = make_app(Settings(redis_url="redis://localhost", broker_url=url))
    with app.connection_for_read(
        transport_options={**app.conf.broker_transport_options, "max_retries": 0}, connect_timeout=5
    ) as made:
        made.connect()
        made.default_channel.close()


@pytest.mark.timeout(120)
def test_a_run_is_played_where_state_and_messages_are_encrypted(
    tls: TlsServer, tmp_path: Path
) -> None:
    settings = Settings(redis_url=tls.url(tls.certificates.ca))
    perdure = CommandLine(tmp_path, settings)
    with perdure.worker():
        client = Client(settings=settings)
        run = client.submit("countdown", "x", {"rounds": 2})
        assert client.wait(run.id, 60).status is RunStatus.COMPLETED
        levels = {finding.check: finding.level for finding in client.doctor()}
        assert levels["connection"] is levels["handover"] is Level.OK
        client.close()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("authority", "CERTIFICATE_VERIFY_FAILED.*name its authority"),
        ("no authority", "CERTIFICATE_VERIFY_FAILED.*name its authority"),
        ("host name", "not valid for '127.0.0.1'.*the host name that the certificate has"),
        ("plain to an encrypted port", "must begin with rediss://"),
        ("encrypted to a plain port", "Does this port use TLS"),
    ],
)
def test_another_server_than_the_one_meant_is_not_spoken_to(
    tls: TlsServer, wrong: str, told: str
) -> None:
    ca = tls.certificates.ca
    url = {
        "authority": tls.url(tls.certificates.wrong_ca),
        "no authority": tls.url(),
        "host name": tls.url(ca, NOT_IN_IT),
        "plain to an encrypted port": tls.url(scheme="redis"),
        "encrypted to a plain port": f"rediss://localhost:{tls.plain_port}/0?ssl_ca_certs={ca}",
    }[wrong]
    store = Store(url, timeout=3, resends=0)
    with pytest.raises(StoreUnavailable, match=told):
        store.fleet.workers()
    store.close()
    with pytest.raises(StoreUnavailable, match=told):
        check_answers(url)
    if "plain" not in wrong:
        with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
            reach_broker(url)


def test_the_broker_is_reached_where_it_proves_itself(
    tls: TlsServer, rabbit_tls: TlsRabbit
) -> None:
    reach_broker(tls.url(tls.certificates.ca))
    reach_broker(rabbit_tls.tls_url(f"ssl_ca_certs={rabbit_tls.certificates.ca}"))


@pytest.mark.timeout(180)
def test_a_run_is_played_where_messages_go_through_an_encrypted_rabbitmq(
    server: CrashableServer, prefix: str, rabbit_tls: TlsRabbit, tmp_path: Path
) -> None:
    broker = rabbit_tls.tls_url(f"ssl_ca_certs={rabbit_tls.certificates.ca}")
    settings = Settings(redis_url=server.url, prefix=prefix, broker_url=broker)
    perdure = CommandLine(tmp_path, settings, PERDURE_BROKER_URL=broker)
    with perdure.worker():
        client = Client(settings=settings)
        run = client.submit("countdown", "x", {"rounds": 2})
        assert client.wait(run.id, 60).status is RunStatus.COMPLETED
        levels = {finding.check: finding.level for finding in client.doctor()}
        assert levels["connection"] is levels["handover"] is Level.OK
        client.close()


@pytest.mark.parametrize("wrong", ["authority", "no authority", "host name"])
def test_another_rabbitmq_than_the_one_meant_is_not_spoken_to(
    rabbit_tls: TlsRabbit, wrong: str
) -> None:
    """kombu itself takes any host name with a certificate that is valid for some other."""
    ca = rabbit_tls.certificates.ca
    url = {
        "authority": rabbit_tls.tls_url(f"ssl_ca_certs={rabbit_tls.certificates.wrong_ca}"),
        "no authority": rabbit_tls.tls_url(),
        "host name": rabbit_tls.tls_url(f"ssl_ca_certs={ca}", NOT_IN_IT),
    }[wrong]
    with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
        reach_broker(url)


@pytest.mark.parametrize(
    "query", ["ssl_cert_reqs=none", "ssl_check_hostname=false&ssl_ca_certs={ca}"]
)
def test_who_says_so_in_the_url_takes_an_unproven_rabbitmq_and_the_doctor_says_it(
    rabbit_tls: TlsRabbit, query: str
) -> None:
    url = rabbit_tls.tls_url(query.format(ca=rabbit_tls.certificates.ca), NOT_IN_IT)
    reach_broker(url)
    found: Any = connection(
        Settings(redis_url="redis://localhost", broker_url=url), "redis://localhost"
    )
    assert found.level is Level.WARNING and "any server could answer" in found.sentence
