"""The command line before any command runs."""

from __future__ import annotations

import gc
import sys

import click
import pytest

from perdure.worker.app import make_app
from perdure.worker.cli.exit_codes import code_of
from perdure.worker.cli.main import COMMANDS, main, paused_collector, perdure
from perdure.worker.errors import InvalidSettings
from perdure.worker.messaging.broker import check_broker_url
from perdure.worker.settings import Settings
from perdure.worker.store.urls import check_url


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_as_it_was_after_the_imports_of_a_command(is_on: bool) -> None:
    if not is_on:
        gc.disable()
    try:
        with paused_collector():
            imported = [[] for _ in range(100)]
            assert not gc.isenabled()
        assert gc.isenabled() is is_on
        young = {id(each) for each in gc.get_objects(0)}
        assert young.isdisjoint(map(id, imported)) and gc.get_freeze_count() == 0
    finally:
        gc.enable()


def test_a_process_does_not_search_for_garbage_when_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["perdure", "--version"])
    try:
        with pytest.raises(SystemExit, match="0"):
            main()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_every_command_has_help_and_is_found() -> None:
    context = click.Context(perdure)
    for name in COMMANDS:
        command = perdure.get_command(context, name)
        assert command is not None and command.name == name
        parts = (
            [command.get_command(context, part) for part in command.list_commands(context)]
            if isinstance(command, click.Group)
            else [command]
        )
        for part in parts:
            assert (
                part is not None
                and part.help
                and any(option.name == "as_json" for option in part.params)
            ), name


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://h:1/3",
        "rediss://u:p@h:6380/0?ssl_cert_reqs=none",
        "unix:///run/r.sock?db=0",
        "redis://[::1]:6379",
    ],
)
def test_a_url_that_can_be_a_server_is_taken(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://h",
        "redis://h:70000",
        "redis://h:x",
        "redis://h/db",
        "unix://",
        "redis://[::1",
        "redis://h?socket_timeout=soon",
        "redis://h?colour=red",
    ],
)
def test_a_url_that_cannot_be_one_is_a_usage_error(url: str) -> None:
    with pytest.raises(InvalidSettings) as raised:
        check_url(url)
    assert code_of(raised.value) == 2


BROKERS = [
    "amqp://u:p@h//",
    "amqps://h",
    "pyamqp://h/v",
    "redis://h:1/3",
    "unix:///r.sock?db=1",
]


@pytest.mark.parametrize("url", BROKERS)
def test_a_url_that_can_be_a_broker_is_taken(url: str) -> None:
    check_broker_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "amq://u:secret@h",
        "rabbit://h",
        "sqs://u:secret@",
        "h:5672",
        "amqp://h:x",
        "amqp://h;amq://u:secret@h",
    ],
)
def test_a_url_that_cannot_be_a_broker_is_a_usage_error_and_no_redis_on_localhost(url: str) -> None:
    with pytest.raises(InvalidSettings, match="no URL of a broker") as raised:
        make_app(Settings(redis_url="redis://h", broker_url=url))
    assert code_of(raised.value) == 2 and "secret" not in str(raised.value)


@pytest.mark.parametrize("password", ["se#cret", "se/cret", "12/secret", "12#secret", "se?cret"])
def test_a_password_that_tears_its_url_is_not_told_in_parts(password: str) -> None:
    for check, url in (
        (check_broker_url, f"amqp://u:{password}@h//"),
        (check_url, f"redis://:{password}@h/0"),
    ):
        with pytest.raises(InvalidSettings, match="%23") as raised:
            check(url)
        assert not any(part in str(raised.value) for part in ("se'", "cret", "12"))


def test_exit_codes_are_those_of_the_contract() -> None:
    from perdure import InvalidFlow, InvalidInput, UnstorableValue
    from perdure.worker import errors
    from perdure.worker.store import StoreUnavailable

    codes = {
        2: [InvalidInput, errors.InvalidSettings, UnstorableValue, InvalidFlow],
        3: [errors.RunNotFound, errors.UnknownFlow],
        7: [StoreUnavailable],
        8: [errors.InvalidTransition, errors.Stale, errors.RunExists, errors.Conflict],
        1: [errors.DamagedRun, ValueError],
    }
    assert {kind: code_of(kind("x")) for kinds in codes.values() for kind in kinds} == {
        kind: code for code, kinds in codes.items() for kind in kinds
    }
