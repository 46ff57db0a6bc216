"""A server with exposed flows, a worker and tokens, for clients of MCP and OpenAI's API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from uuid import uuid4

from perdure import Client
from perdure.worker.client.tokens import Tokens
from perdure.worker.settings import Settings
from tests.support.leftover_keys import keys_under
from tests.support.redis_servers import CrashableServer
from tests.support.threaded_server import serving
from tests.support.workers import workers

MODULE = "tests.support.example_flows.exposed_flows"


@dataclass(frozen=True)
class ExposedServer:
    """``perdure server`` in this process, and its state server's client."""

    url: str
    client: Client

    def token(self, name: str, *scopes: str) -> str:
        """Create a token, and return its text; without scopes it may do all with its own runs."""
        own = scopes or ("read", "submit", "answer", "stop")
        return Tokens(self.client).create(name, own).text


@contextmanager
def exposed_server(
    server: CrashableServer, worker_count: int = 1, modules: Sequence[str] = (MODULE,)
) -> Iterator[ExposedServer]:
    """Start a server on a separate prefix, with workers that play the flows of some modules."""
    settings = Settings(
        redis_url=server.url, prefix=f"exposed{uuid4().hex[:8]}", flow_modules=tuple(modules)
    )
    with ExitStack() as stack:
        client = stack.enter_context(closing(Client(settings=settings)))

        @stack.callback
        def clear() -> None:
            keys = keys_under(client._store.redis, settings.prefix)
            if keys:
                client._store.redis.delete(*keys)

        url = stack.enter_context(serving(settings))
        stack.enter_context(workers(worker_count, settings, PERDURE_FLOW_MODULES=",".join(modules)))
        yield ExposedServer(url, client)
