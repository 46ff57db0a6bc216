"""A server with a password: the errors if it is missing or wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from perdure.worker.store import AccessDenied
from perdure.worker.store.urls import check_answers
from tests.support.redis_servers import CrashableServer
from tests.support.redis_servers import server as server_of_its_own


@pytest.fixture
def guarded() -> Iterator[CrashableServer]:
    with server_of_its_own(appendfsync="everysec") as running:
        with redis.Redis.from_url(running.url) as admin:
            admin.config_set("requirepass", "hunter22")
        yield running
        with redis.Redis.from_url(running.url, password="hunter22") as admin:
            admin.config_set("requirepass", "")


def test_a_missing_and_a_wrong_password_are_told_as_such_with_the_form_of_the_url(
    guarded: CrashableServer,
) -> None:
    separator = "&" if "?" in guarded.url else "?"
    for url, words in (
        (guarded.url, "wants a password"),
        (f"{guarded.url}{separator}password=wrong", "does not accept the password"),
    ):
        with pytest.raises(AccessDenied, match=words) as told:
            check_answers(url)
        assert (
            "redis://:PASSWORD@HOST" in str(told.value)
            and "HELLO" not in str(told.value)
            and "wrong" not in str(told.value)
        )
