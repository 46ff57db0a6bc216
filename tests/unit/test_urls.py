"""Possible URLs of a Sentinel service, and their errors."""

from __future__ import annotations

import pytest
from celery import Celery

from perdure import Client, Settings
from perdure.worker.app import engine_of, install, make_app
from perdure.worker.broker_urls import broker_url
from perdure.worker.errors import InvalidSettings
from perdure.worker.messaging.broker import is_fused
from perdure.worker.store.sentinel import sentinel_options
from perdure.worker.store.urls import check_url
from perdure.worker.urls import SentinelUrl, parse_sentinels, place_of

SERVICE = "redis+sentinel://me:p%40ss@a:1,[::1]:2,c/prime/3"


def test_a_url_says_sentinels_master_database_and_who_we_are() -> None:
    told = parse_sentinels(f"{SERVICE}?sentinel_username=us&sentinel_password=s%2Fp")
    assert told.sentinels == (("a", 1), ("::1", 2), ("c", 26379))
    assert (told.master, told.database, told.username, told.password) == ("prime", 3, "me", "p@ss")
    assert (told.sentinel_username, told.sentinel_password, told.encrypted) == ("us", "s/p", False)


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://a:1/m/0",
        f"{SERVICE}?sentinel_username=us&sentinel_password=s%2Fp",
        "rediss+sentinel://:x@a:1,b:2/my%2Fmaster/0?ssl_ca_certs=%2Fca.pem&ssl_check_hostname=false",
    ],
)
def test_written_again_it_says_the_same(url: str) -> None:
    assert parse_sentinels(str(parse_sentinels(url))) == parse_sentinels(url)


def test_its_secrets_are_in_no_text_but_the_url_itself() -> None:
    told = parse_sentinels(f"{SERVICE}?sentinel_password=own-secret")
    assert "p@ss" not in repr(told) and "own-secret" not in repr(told)
    assert (
        place_of(f"{SERVICE}?sentinel_password=own-secret")
        == "redis+sentinel://a:1,[::1]:2,c/prime/3"
    )


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("redis+sentinel://me:secret@a:1,b:2", "name of the master is missing"),
        ("redis+sentinel://me:secret@a:1,b:2/", "name of the master is missing"),
        ("redis+sentinel://me:secret@a:1/m/zero", "should be a number"),
        ("redis+sentinel://me:secret@a:1/m/0/1", "should be a number"),
        ("redis+sentinel://me:secret@a:one/m", "cannot be parsed"),
        ("redis+sentinel://me:secret@a:0/m", "cannot be parsed"),
        ("redis+sentinel://me:secret@,/m", "cannot be parsed"),
        ("redis+sentinel://me:secret@/m", "cannot be parsed"),
        ("redis+sentinel://me:12/secret@a/m", "cannot be parsed"),
        ("redis+sentinel://me:12#secret@a/m", "cannot be parsed"),
        ("redis+sentinel://me:12?secret@a/m", "cannot be parsed"),
        ("redis+sentinel://me:secret@a/m?socket_timeout=3", "unknown|query parameter"),
        ("rediss+sentinel://me:secret@a/m?ssl_made_up=3", "unknown|query parameter"),
        ("rediss+sentinel://me:secret@a/m?ssl_cert_reqs=perhaps", "unknown|query parameter"),
    ],
)
def test_a_url_that_cannot_be_one_is_told_without_its_password(url: str, fault: str) -> None:
    for settings in (
        Settings(redis_url=url),
        Settings(redis_url="redis://localhost", broker_url=url),
    ):
        with pytest.raises(InvalidSettings, match=fault) as told:
            Client(settings=settings)
        assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    "url", [SERVICE, "rediss+sentinel://a/m?ssl_cert_reqs=none", "redis+sentinel://a/m"]
)
def test_a_url_that_can_be_one_is_accepted_without_connecting(url: str) -> None:
    check_url(url)


def test_state_and_broker_are_fused_where_the_service_is_one() -> None:
    client = Client("redis+sentinel://localhost:1,b:2/m/0")
    assert client._connection.publisher.name == "fused"
    client.close()


@pytest.mark.parametrize(
    ("state", "broker", "name", "fused"),
    [
        ("redis+sentinel://localhost:1,b:2/m/0", "sentinel://127.0.0.1:1/0", "m", True),
        (
            "redis+sentinel://a:1,b:2/m",
            "sentinel://c:3;sentinel://b:2",
            "m",
            True,
        ),  # any Sentinel knows one master of a name
        ("redis+sentinel://a:1,b:2/m", "sentinel://c:3", "m", False),
        ("redis+sentinel://a:1/m", "sentinel://a:1", "n", False),
        ("redis+sentinel://a:1/m/1", "sentinel://a:1/0", "m", False),
        ("redis+sentinel://a:1/m", "redis://a:1", "m", False),
        ("redis://a:1", "sentinel://a:1", "m", False),
        ("redis+sentinel://a:1/m", "amqp://a:1", "m", False),
    ],
)
def test_an_app_of_ones_own_is_fused_with_the_service_that_its_kombu_options_name(
    state: str, broker: str, name: str, fused: bool
) -> None:
    app = Celery("theirs", broker=broker, set_as_current=False)
    app.conf.broker_transport_options = {"master_name": name}
    assert is_fused(app, state) == fused


def test_the_state_of_an_app_of_ones_own_lives_in_the_service_that_is_its_broker() -> None:
    app = Celery("theirs", broker="sentinel://:p%40ss@a:1/2;sentinel://b:2", set_as_current=False)
    app.conf.broker_transport_options = {
        "master_name": "prime",
        "sentinel_kwargs": {"password": "own"},
    }
    engine = engine_of(install(app, Settings()))
    assert parse_sentinels(engine.settings.redis_url or "") == SentinelUrl(
        (("a", 1), ("b", 2)), "prime", 2, password="p@ss", sentinel_password="own"
    )
    assert engine.publisher.name == "fused"


def test_our_app_asks_every_sentinel_and_has_no_second_url_to_fail_over_to_unguarded() -> None:
    app = make_app(Settings(redis_url=f"{SERVICE}?sentinel_password=own"))
    connection = app.connection_for_read()
    assert (
        connection.transport_cls == "perdure.worker.messaging.transports.sentinel:SentinelTransport"
        and connection.alt == []
    )
    assert (connection.hostname, connection.port, connection.virtual_host, connection.password) == (
        "a",
        1,
        "3",
        "p@ss",
    )
    options = connection.transport_options
    assert (options["master_name"], options["guard_sentinels"]) == (
        "prime",
        (("a", 1), ("::1", 2), ("c", 26379)),
    )
    assert options["sentinel_kwargs"]["password"] == "own"
    assert "own" not in broker_url(f"{SERVICE}?sentinel_password=own")


def test_a_sentinel_is_asked_once_and_not_for_long() -> None:
    retry = sentinel_options(parse_sentinels(SERVICE))["retry"]
    assert retry.get_retries() == 0
