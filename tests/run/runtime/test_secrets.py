"""A canary for a password: it goes through everything that speaks, and is nowhere to be read
afterwards.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from perdure import Client, PerdureError, Settings
from perdure.worker.cli.main import run as perdure
from perdure.worker.settings import load_settings
from tests.support.acl_server import LockedServer
from tests.support.canary_password import CANARY, locked

__all__ = ["locked"]

#: URLs that cannot be used, each for another reason.
UNUSABLE = [
    f"redis://me:{CANARY}@127.0.0.1:1/0",
    f"rediss://me:{CANARY}@127.0.0.1:1/0?ssl_ca_certs=/none",
    f"redis://me:{CANARY}@127.0.0.1:port/0",
    f"redis://me:{CANARY}#more@127.0.0.1/0",
    f"redis://me:{CANARY}@127.0.0.1/zero",
    f"redis://me:{CANARY}@[::1/0",
    f"redis://127.0.0.1:1/0?password={CANARY}&what={CANARY}",
    f"unix://me:{CANARY}@/nowhere.sock",
    f"unix:///nowhere.sock?password={CANARY}&db=x",
    f"http://me:{CANARY}@127.0.0.1/0",
    f"me:{CANARY}@127.0.0.1",
]
BROKERS = [
    f"amqp://me:{CANARY}@127.0.0.1:1//",
    f"amqps://me:{CANARY}@127.0.0.1:1//?ssl_what={CANARY}",
    f"amqp://me:{CANARY}@127.0.0.1:1/v;amqp://me:{CANARY}@127.0.0.1:2/v",
    f"redis://me:{CANARY}@127.0.0.1:1/1",
    f"sqs://me:{CANARY}@127.0.0.1:1/1",
    f"amqp://me:{CANARY}/@127.0.0.1:1//",
]


def test_settings_show_their_urls_without_passwords() -> None:
    settings = Settings(
        redis_url=f"redis://me:{CANARY}@h/1?password={CANARY}",
        broker_url=f"amqp://me:{CANARY}@a//;amqp://me:{CANARY}@b//",
    )
    shown = [
        repr(settings),
        str(settings),
        f"{settings}",
        settings.model_dump_json(),
        repr([settings]),
    ]
    for text in [*shown, repr(settings.model_copy(update={"redis_url": f"redis://:{CANARY}@h"}))]:
        assert CANARY not in text and "redis://h" in text
    assert settings.redis_url is not None and CANARY in settings.redis_url


@pytest.mark.parametrize(
    "given", [{"lease_seconds": 0.1}, {"prefix": "no prefix"}, {"redis_url": [CANARY]}, {"what": 1}]
)
def test_no_fault_of_the_settings_repeats_their_passwords(given: dict[str, Any]) -> None:
    given = {"redis_url": f"redis://me:{CANARY}@h", **given}
    with pytest.raises(ValueError) as wrong:
        Settings(**given)
    assert CANARY not in str(wrong.value)
    with pytest.raises(PerdureError) as told:
        load_settings(**given)
    assert CANARY not in everything_of(told.value)


def everything_of(error: BaseException) -> str:
    """Format the traceback of the error, with the texts of its causes."""
    import traceback

    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.slow
@pytest.mark.parametrize("url", UNUSABLE)
def test_no_error_repeats_the_password_of_a_state_server(
    url: str, monkeypatch: Any, capfd: Any, caplog: Any, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_DEBUG", "1")  # tracebacks, too
    for arguments in (["list"], ["doctor", "--json"], ["worker"]):
        assert perdure([*arguments, "--url", url]) in (2, 7)
    with pytest.raises(PerdureError) as error:
        Client(url).runs()
    said = capfd.readouterr()
    assert CANARY not in said.out + said.err + caplog.text + everything_of(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("url", BROKERS)
def test_no_error_repeats_the_password_of_a_broker(
    url: str, locked: LockedServer, monkeypatch: Any, capfd: Any, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("PERDURE_REDIS_URL", locked.url("producer"))
    monkeypatch.setenv("PERDURE_BROKER_URL", url)
    monkeypatch.setenv("PERDURE_DEBUG", "1")
    for arguments in (["submit", "countdown", "x"], ["doctor"], ["doctor", "--json"]):
        assert perdure(arguments) in (0, 2)
    said = capfd.readouterr()
    assert CANARY not in said.out + said.err + caplog.text
