"""The web app in the test's own process, without a socket, and browsers that send it requests."""

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
def site_on(server: CrashableServer, **settings: Any) -> Iterator[Site]:
    """Yield a site for the tests of a module, on a new prefix."""
    client = Client(
        settings=Settings(redis_url=server.url, prefix=f"site{uuid4().hex[:8]}", **settings)
    )
    site = Site(client)
    try:
        with start_blocking_portal() as site.portal:
            yield site
    finally:
        site.clear()
        client.close()


class Site:
    """The web app on the runs of a client, with its tokens and browsers.

    ``options`` are arguments of create_app.
    """

    def __init__(self, client: Client, **options: Any) -> None:
        self.app = create_app(client=client, **options)
        self.client = client
        self.tokens = Tokens(client)
        self.authenticator: Authenticator = self.app.state.authenticator
        #: The event loop of all requests. With None, each request starts one, which takes longer.
        self.portal: BlockingPortal | None = None

    def clear(self) -> None:
        """Delete everything that is stored under the site's prefix, and reset its clock."""
        store = self.client._store
        keys = keys_under(store.redis, store.keys.prefix)
        if keys:
            store.redis.delete(*keys)
        self.authenticator._clock = time.time

    def asking(
        self, token: str | None = None, base_url: str = HERE, app: Any = None, **headers: str
    ) -> TestClient:
        """Return a browser with these headers, keeping cookies.

        It does not follow redirects, and errors of the app are responses.
        """
        sent = {name.replace("_", "-"): value.encode() for name, value in headers.items()}
        sent |= {"authorization": f"Bearer {token}".encode()} if token is not None else {}
        browser = TestClient(
            app or self.app,
            base_url,
            headers=sent,  # type: ignore[arg-type]  # bytes, too
            follow_redirects=False,
            raise_server_exceptions=False,
        )
        browser.portal = self.portal
        return browser

    def token(self, name: str, *scopes: str) -> str:
        """Create a token, and return its text."""
        return self.tokens.create(name, scopes or ("admin",)).text

    def token_without_scopes(self, name: str) -> str:
        """Store a token without scopes, which no command can create, and return its text."""
        token_id, secret = new_secret()
        made = self.tokens.create(name, ["read"]).token
        self.tokens.revoke(made.id)
        token = AccessToken(token_id, name, frozenset(), digest_of(secret), made.created_at)
        self.tokens._records.put(token_id, token.kept())
        return written(token_id, secret)

    def signed_in(self, token: str, **options: Any) -> TestClient:
        """Return a browser signed in with a token."""
        browser = self.asking(**options)
        answer = browser.post("/login", data={"csrf": csrf_of(browser), "token": token})
        assert answer.status_code == 303, answer.text
        return browser


def csrf_of(browser: TestClient, page: str = "/login") -> str:
    """Return the CSRF token of a page's forms."""
    found = re.search(r'name="csrf" value="([^"]+)"', browser.get(page).text)
    assert found is not None, "no form"
    return found[1]
