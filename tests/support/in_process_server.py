"""A control room in this process, asked without a socket, and those who ask it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.testclient import TestClient

from perdure import Client
from perdure.worker.client.tokens import Tokens
from perdure.worker.domain.token import AccessToken, digest_of, new_secret, written
from perdure.worker.settings import Settings
from perdure.worker.web import create_app
from perdure.worker.web.auth.authenticate import Authenticator
from tests.support.leftover_keys import keys_under
from tests.support.redis_servers import CrashableServer

HERE = "http://localhost"


@contextmanager
def room_on(server: CrashableServer, **given: Any) -> Iterator[Room]:
    """One for the tests of a module, on a prefix of its own; ``given`` goes to Settings."""
    client = Client(
        settings=Settings(redis_url=server.url, prefix=f"room{uuid4().hex[:8]}", **given)
    )
    room = Room(client)
    try:
        with start_blocking_portal() as room.portal:
            yield room
    finally:
        room.clear()
        client.close()


class Room:
    """The app on the runs of ``client``; ``given`` goes to create_app."""

    def __init__(self, client: Client, **given: Any) -> None:
        self.app = create_app(client=client, **given)
        self.client = client
        self.tokens = Tokens(client)
        self.authenticator: Authenticator = self.app.state.authenticator
        #: The event loop that all who ask share; None: each call has one of its own, which takes longer.
        self.portal: BlockingPortal | None = None

    def clear(self) -> None:
        """As if nobody had ever asked it for anything: an app takes longer to make than to ask."""
        store = self.client._store
        keys = keys_under(store.redis, store.keys.prefix)
        if keys:
            store.redis.delete(*keys)
        self.authenticator._clock = time.time

    def asking(
        self, token: str | None = None, base_url: str = HERE, app: Any = None, **headers: str
    ) -> TestClient:
        """Somebody who asks, with these headers, and keeps cookies; redirects are not followed, and no error is raised here."""
        given = {name.replace("_", "-"): value.encode() for name, value in headers.items()}
        given |= {"authorization": f"Bearer {token}".encode()} if token is not None else {}
        browser = TestClient(
            app or self.app,
            base_url,
            headers=given,  # type: ignore[arg-type]  # bytes, too
            follow_redirects=False,
            raise_server_exceptions=False,
        )
        browser.portal = self.portal
        return browser

    def token(self, name: str, *scopes: str) -> str:
        """A new token, as its bearer has it."""
        return self.tokens.create(name, scopes or ("admin",)).text

    def token_without_scopes(self, name: str) -> str:
        """One such as nobody can make."""
        token_id, secret = new_secret()
        made = self.tokens.create(name, ["read"]).token
        self.tokens.revoke(made.id)
        kept = AccessToken(token_id, name, frozenset(), digest_of(secret), made.created_at)
        self.tokens._records.put(token_id, kept.kept())
        return written(token_id, secret)

    def signed_in(self, token: str, **given: Any) -> TestClient:
        """Somebody's browser, after they have signed in."""
        browser = self.asking(**given)
        answer = browser.post("/login", data={"csrf": csrf_of(browser), "token": token})
        assert answer.status_code == 303, answer.text
        return browser


def csrf_of(browser: TestClient, page: str = "/login") -> str:
    """What the forms of a page carry."""
    found = re.search(r'name="csrf" value="([^"]+)"', browser.get(page).text)
    assert found is not None, "no form"
    return found[1]
