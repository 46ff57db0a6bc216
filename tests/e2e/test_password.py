"""A server with a password: runs are played, however its URL spells it, and nothing that is printed
holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import redis

from perdure.worker.settings import Settings
from tests.support.command_line import CommandLine
from tests.support.redis_servers import server

PASSWORD = "s/cr@t:?&#"


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    """The socket of a server that wants PASSWORD."""
    with server("valkey") as running:
        assert running.url is not None
        with redis.Redis.from_url(running.url) as admin:
            admin.acl_setuser(
                "me",
                enabled=True,
                passwords=[f"+{PASSWORD}2"],
                keys=["*"],
                channels=["*"],
                commands=["+@all"],
            )
            admin.config_set("requirepass", PASSWORD)
            try:
                yield str(running.directory / "server.sock")
            finally:
                admin.config_set("requirepass", "")


@pytest.mark.slow
@pytest.mark.parametrize("who", [pytest.param("", marks=pytest.mark.slow), "me"])
@pytest.mark.parametrize("place", ["in front", "behind"])
def test_rounds_are_played_on_a_unix_socket_with_a_password(
    socket: str, tmp_path: Path, place: str, who: str
) -> None:
    secret = quote(PASSWORD + ("2" if who else ""), "")
    behind = f"unix://{socket}?password={secret}" + (f"&username={who}" if who else "")
    url = f"unix://{who}:{secret}@{socket}" if place == "in front" else behind
    perdure = CommandLine(tmp_path, Settings(redis_url=url, prefix=f"p{place[:2]}{who}"))
    with perdure.worker():
        done = perdure("submit", "countdown", "x", "--input", "rounds=1", "--watch")
    assert done.code == 0, done


@pytest.mark.slow
def test_no_hint_repeats_the_password_of_a_url(socket: str, tmp_path: Path) -> None:
    perdure = CommandLine(tmp_path, PERDURE_PREFIX="hints")
    url = f"unix://{socket}?password={quote(PASSWORD, '')}"
    submitted = perdure("submit", "question", "x", "--id", "r", "--url", url)
    assert submitted.code == 0 and f"perdure watch r --url unix://{socket}" in submitted.err
    stopped = perdure("stop", "r", "--url", url)
    resumed = perdure("resume", "r", "--url", url)
    assert resumed.code == 0
    for said in (
        submitted,
        stopped,
        resumed,
        perdure("doctor", "--url", url),
        perdure("list", "--url", url.replace("server.sock", "no.sock")),
    ):
        assert (
            PASSWORD not in said.out + said.err and quote(PASSWORD, "") not in said.out + said.err
        )
