"""How messages go to and fro: a program's stdin and stdout, or HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.executors.mcp.declaration import ServerConfig
from flows.executors.mcp.references import Secrets
from flows.executors.shell import PASSED_ON
from flows.summaries import safe_text

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger("holdfast.mcp")

#: Characters of a line of a server's stderr that go to the log, and of all its lines that an error tells.
LINE, TAIL = 1000, 500


@dataclass(frozen=True, slots=True)
class Served:
    """How an HTTP request was served: with this ``status``, or, where that is None, not at all, since nobody was there."""

    status: int | None
    retry_after: float | None = None

    @property
    def refused(self) -> bool:
        """Whether nothing was done: what was asked for is not in doubt."""
        return self.status is None or 400 <= self.status < 500 or self.status == 503


#: How the requests were served that belong to the call whose context this is.
requests: ContextVar[list[Served]] = ContextVar("requests")


class Heard(asyncio.Protocol):
    """What a program says on stderr: each line goes to the log, the end of it is kept."""

    def __init__(self, name: str, secrets: Secrets) -> None:
        self._name, self._secrets = name, secrets
        self._line = b""
        self.tail = ""

    def data_received(self, data: bytes) -> None:
        """More of it; a line without end is cut into pieces."""
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > LINE:
            lines, self._line = [*lines, self._line], b""
        for line in lines:
            self._tell(line)

    def eof_received(self) -> None:
        """The last of it."""
        self._tell(self._line)

    def _tell(self, line: bytes) -> None:
        text = self._secrets.cleaned(line.decode("utf-8", "replace").strip())
        if text:
            logger.info("MCP server %s says: %s", self._name, safe_text(text, LINE))
            self.tail = f"{self.tail}\n{text}"[-TAIL:].strip()


class _Watched:
    """The stream of messages that come in, and a word when it has ended."""

    def __init__(self, stream: Any, ended: asyncio.Event) -> None:
        self._stream, self._ended = stream, ended

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:  # its end, or whatever else: nothing will come any more
            self._ended.set()
            raise

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._stream.__aexit__(*error)  # type: ignore[no-any-return]


@asynccontextmanager
async def connected(server: ServerConfig, secrets: Secrets, heard: Heard, ended: asyncio.Event) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of messages from and to a server; ``ended`` is set when nothing will come any more."""
    async with _program(server, secrets, heard, ended) if server.command else _service(server, secrets) as (incoming, outgoing):
        yield _Watched(incoming, ended), outgoing


@asynccontextmanager
async def _program(server: ServerConfig, secrets: Secrets, heard: Heard, ended: asyncio.Event) -> AsyncIterator[tuple[Any, Any]]:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    from flows.executors.mcp.bounds import ENCODING, TOO_LARGE, too_long

    program, *args = server.command or []
    # A worker of a virtual environment that was not activated finds the programs installed beside it all the same.
    beside = Path(sys.executable).parent / program
    found = program if shutil.which(program) or not beside.is_file() else str(beside)
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    given = secrets.resolved(server.env)
    parameters = StdioServerParameters(command=found, args=args, env={**environment, **given}, encoding=ENCODING)

    def end() -> None:
        heard.tail = TOO_LARGE
        ended.set()

    too_long.set(end)
    reading, writing = os.pipe()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: heard, os.fdopen(reading, "rb"))
    try:
        # A file of ours: the worker's own sys.stderr may be Celery's, which no program can write to.
        with os.fdopen(writing, "w") as stderr:
            async with stdio_client(parameters, errlog=stderr) as streams:
                yield streams
    finally:
        heard.eof_received()
        pipe.close()


@asynccontextmanager
async def _service(server: ServerConfig, secrets: Secrets) -> AsyncIterator[tuple[Any, Any]]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from flows.executors.mcp.bounds import MOST_BYTES, bound

    class Client(httpx2.AsyncClient):
        """Notes what the client library keeps to itself: statuses, and requests that were never sent."""

        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            noted = requests.get([])
            try:
                response = await super().send(request, **options)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                noted.append(Served(None))
                raise
            wait = response.headers.get("retry-after", "")
            noted.append(Served(response.status_code, float(wait) if wait.isdecimal() else None))
            bound(response)
            return response

    limits = httpx2.Timeout(server.start_seconds, read=None)  # how long an answer may take is the session's to say
    async with (
        Client(headers={"Accept-Encoding": "identity", **secrets.resolved(server.headers)}, timeout=limits) as client,
        streamable_http_client(str(server.url), http_client=client, max_sse_event_size=MOST_BYTES) as streams,
    ):
        yield streams
