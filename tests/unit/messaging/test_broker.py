"""The possible URLs of a broker, and their errors."""

from __future__ import annotations

import ssl

import pytest
from celery import Celery

from perdure import Client, Settings
from perdure.worker.app import engine_of, make_app
from perdure.worker.broker_urls import broker_url, is_amqp
from perdure.worker.errors import InvalidSettings
from perdure.worker.messaging.broker import broker_ssl, is_fused, is_verified
from perdure.worker.urls import place_of


@pytest.mark.parametrize(
    "url",
    [
        "http://x",
        "memory://",
        "sqs://key:secret@",
        "rabbit.internal",
        "user:secret@host",
        "redis://h:port",
    ],
)
def test_a_broker_url_that_cannot_be_one_is_told_without_its_password(url: str) -> None:
    with pytest.raises(InvalidSettings) as told:
        Client(settings=Settings(redis_url="redis://localhost", broker_url=url))
    assert "secret" not in str(told.value)
    assert "should begin with one of" in str(
        told.value
    ) or "its host or port cannot be parsed" in str(told.value)


@pytest.mark.parametrize(
    ("urls", "amqp"),
    [
        ("amqp://a", True),
        ("amqps://a", True),
        ("pyamqp://a", True),
        ("amqp://a;amqp://b", True),
        (["amqp://a"], True),
        ("redis://a", False),
        (None, False),
    ],
)
def test_rabbitmq_is_told_by_the_scheme_of_the_first_url(
    urls: str | list[str] | None, amqp: bool
) -> None:
    assert is_amqp(urls) == amqp


@pytest.mark.parametrize(
    ("state", "broker", "fused"),
    [
        ("redis://localhost:6379/0", "redis://127.0.0.1", True),
        ("redis://localhost:6379/0", "redis://user:secret@localhost/0", True),
        ("redis://localhost:6379/0", "redis://localhost:6379/1", False),
        ("redis://localhost:6379/0", "redis://localhost:6380/0", False),
        ("redis://localhost:6379/0", "rediss://localhost:6379/0", True),
        ("unix:///run/r.sock", "redis+socket:///run/r.sock", True),
        ("unix:///run/r.sock?db=2", "redis+socket:///run/r.sock?virtual_host=2", True),
        ("unix:///run/r.sock?db=2", "redis+socket:///run/r.sock", False),
        ("redis://localhost", "amqp://localhost", False),
        ("redis://localhost", "redis://localhost;redis://other", False),
        ("redis://localhost", "sentinel://localhost", False),
    ],
)
def test_state_and_broker_are_fused_where_they_are_the_same_database(
    state: str, broker: str, fused: bool
) -> None:
    app = Celery("theirs", broker=broker, set_as_current=False)
    assert is_fused(app, state) == fused


def test_lists_under_other_names_than_the_scripts_push_to_are_not_fused() -> None:
    app = Celery("theirs", broker=broker_url("redis://localhost"), set_as_current=False)
    app.conf.broker_transport_options = {"global_keyprefix": "theirs:"}
    assert not is_fused(app, "redis://localhost")


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:top/secret@h",
        "redis://me:12/secret@h",
        "amqp://me:secret/x@h",
        "amqp://me:12#secret@h",
        "amqp://h:secret",
    ],
)
def test_a_password_that_should_have_been_quoted_is_shown_nowhere(url: str) -> None:
    assert "secret" not in place_of(url)
    for settings in (
        Settings(redis_url=url),
        Settings(redis_url="redis://localhost", broker_url=url),
    ):
        assert "secret" not in refusal(settings)


def refusal(settings: Settings) -> str:
    """Return why no client can be made with them; empty if one can."""
    try:
        Client(settings=settings).close()
    except InvalidSettings as told:
        return str(told)
    return ""


def test_an_app_of_ours_fails_over_between_no_brokers_as_only_the_first_would_be_guarded() -> None:
    with pytest.raises(InvalidSettings, match="names several"):
        make_app(Settings(redis_url="redis://localhost", broker_url="amqp://a;amqp://b"))


def test_a_broker_url_for_other_apps_in_the_environment_draws_no_message_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "amqp://theirs")
    app = make_app(Settings(redis_url="redis://localhost"))
    assert engine_of(app).publisher.name == "fused"
    assert {app.connection_for_read().hostname, app.connection_for_write().hostname} == {
        "localhost"
    }


def test_what_amqps_is_to_trust_is_said_in_its_url() -> None:
    url = "amqps://u:p@rabbit:5671/v?ssl_ca_certs=/ca.pem&ssl_certfile=/me.pem&ssl_keyfile=/me.key&heartbeat=3"
    assert broker_url(url) == "amqps://u:p@rabbit:5671/v?heartbeat=3"
    assert broker_ssl(url) == {
        "cert_reqs": ssl.CERT_REQUIRED,
        "server_hostname": "rabbit",
        "ca_certs": "/ca.pem",
        "certfile": "/me.pem",
        "keyfile": "/me.key",
    }
    assert broker_ssl("amqps://rabbit?ssl_cert_reqs=none") == {"cert_reqs": ssl.CERT_NONE}
    assert broker_ssl("amqp://rabbit") is False and broker_ssl("redis://h") is False


@pytest.mark.parametrize("query", ["ssl_cacerts=/ca.pem", "ssl_cert_reqs=maybe"])
def test_an_unknown_word_about_trust_is_refused_and_not_overlooked(query: str) -> None:
    with pytest.raises(InvalidSettings, match="is not known; known are ssl_cert_reqs"):
        make_app(
            Settings(redis_url="redis://localhost", broker_url=f"amqps://u:secret@rabbit/v?{query}")
        )


@pytest.mark.parametrize("word", ["false", "0", "no", "F", "n"])
def test_whether_a_host_name_is_checked_is_read_alike_everywhere(word: str) -> None:
    url = f"amqps://rabbit?ssl_check_hostname={word}"
    assert broker_ssl(url) == {"cert_reqs": ssl.CERT_REQUIRED} and not is_verified(url)
    assert is_verified("amqps://rabbit") and "server_hostname" in broker_ssl("amqps://rabbit")  # type: ignore[operator]
