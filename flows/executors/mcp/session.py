"""One session with one MCP server, in the event loop that all sessions of a process share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flows.definition import known
from flows.errors import FatalError, HoldfastError, OutcomeUnknown, RetryableError
from flows.executors.mcp.declaration import ServerConfig
from flows.executors.mcp.references import Secrets
from flows.executors.mcp.results import TOLD_CHARACTERS, ToolFailed, observation_of
from flows.executors.mcp.tool import Tool
from flows.executors.mcp.transports import Heard, Served, connected, requests
from flows.summaries import safe_text

if TYPE_CHECKING:
    from mcp import Client

#: Pages of a list of tools that are read; a server could go on for ever.
PAGES = 100
#: HTTP's words for "not with these credentials", and for "not now".
_DENIED, _BUSY = frozenset({401, 403}), frozenset({425, 429, 503})


class Session:
    """A session: opened when it is made, ended by its server's end or by ``close``.

    Args:
        name: the server's, in errors.
        server: how it is reached.
    """

    def __init__(self, name: str, server: ServerConfig) -> None:
        self.what = f"MCP server {name!r} ({Path(server.command[0]).name if server.command else urlsplit(str(server.url)).hostname})"
        self._server = server
        self._secrets = Secrets(self.what)
        self._heard = Heard(name, self._secrets)
        self._tools: dict[str, Tool] = {}
        self._ready, self._unwanted, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._client: Client | None = None
        self._fault: HoldfastError | None = None
        self._life = asyncio.create_task(self._live())

    @property
    def ended(self) -> bool:
        """Whether no call can succeed any more."""
        return self._ended.is_set() or self._unwanted.is_set() or self._life.done()

    async def tool(self, name: str) -> Tool:
        """The tool, once the server has told what it has.

        Raises:
            RetryableError: the server cannot be reached. FatalError: it refuses us, or has no such tool.
        """
        await self._opened()
        if name not in self._tools:
            raise FatalError(f"{self.what} has no tool {name!r}; {known(name, self._tools)}")
        return self._tools[name]

    async def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> Any:
        """Call a tool; what it observed, as JSON data.

        Raises:
            ToolFailed: the tool, or its server, says so. RetryableError: nothing was done; the server is gone or busy.
            OutcomeUnknown: it may have been done; the server died, or took too long. FatalError: it refuses us.
        """
        client = await self._opened()
        served: list[Served] = []
        requests.set(served)
        asking = asyncio.create_task(client.call_tool(name, dict(arguments), read_timeout_seconds=seconds))
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())  # also where nobody waits for it any more
        what = f"tool {name!r}"
        try:
            await asyncio.wait({asking, self._life}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asking.cancel()  # of no effect on one that is done
        if not asking.done() or asking.cancelled():
            raise self._lost("it ended before it had answered", OutcomeUnknown)
        error = asking.exception()
        if error is not None:
            # Without its cause, which may hold a secret and would be logged beside it.
            raise self._judged(error, served, what, seconds) from None
        try:
            return self._secrets.cleaned(observation_of(asking.result(), f"{what} of {self.what}"))
        except ToolFailed as failed:
            raise ToolFailed(self._secrets.cleaned(str(failed))) from None

    async def close(self) -> None:
        """End it, and with it the program that was started for it."""
        self._unwanted.set()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({self._life})

    async def _opened(self) -> Client:
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({ready, self._life}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._client is None or self._life.done():
            raise self._fault or self._lost("it ended")
        return self._client

    async def _live(self) -> None:
        """From the connection to its end, in one task, as the client library wants it."""
        from mcp import Client
        from mcp_types import Implementation

        served: list[Served] = []
        requests.set(served)
        try:
            async with asyncio.timeout(self._server.start_seconds) as patience:
                streams = connected(self._server, self._secrets, self._heard, self._ended)
                async with Client(streams, client_info=Implementation(name="holdfast", version="1")) as client:
                    self._tools = {tool.name: tool async for tool in _tools_of(client)}
                    patience.reschedule(None)
                    self._client = client
                    self._ready.set()
                    waits = [asyncio.create_task(event.wait()) for event in (self._unwanted, self._ended)]
                    try:
                        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        for wait in waits:
                            wait.cancel()
        except HoldfastError as error:
            self._fault = error
        except Exception as error:
            if not self._ready.is_set():
                self._fault = self._failed_start(next(_leaves(error)), served)

    def _failed_start(self, error: BaseException, served: list[Served]) -> HoldfastError:
        """Nothing was called yet, so nothing is in doubt; another attempt, or another worker, may fare better."""
        fault = self._judged(error, [each for each in served if each.refused], "start", self._server.start_seconds)
        if isinstance(fault, FatalError) or type(fault) is RetryableError:
            return fault
        return self._lost("it did not start within its time" if isinstance(error, TimeoutError) else self._cleaned(error))

    def _judged(self, error: BaseException, served: list[Served], what: str, seconds: float) -> HoldfastError:
        """What an error of the client library means for the round."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_TIMEOUT
        from pydantic import ValidationError

        code = error.code if isinstance(error, MCPError) else None
        refused = served[-1] if served and all(each.refused for each in served) else None
        if refused is not None and refused.status in _DENIED:
            self._unwanted.set()
            return FatalError(f"{self.what} refuses us (HTTP {refused.status}); look at the headers that the flow declares for it")
        if refused is not None and refused.status in _BUSY:
            return RetryableError(f"{self.what} is busy (HTTP {refused.status})", refused.retry_after)
        if isinstance(error, TimeoutError) or code == REQUEST_TIMEOUT:
            return OutcomeUnknown(f"{self.what}, {what}: no answer within {seconds:g} s")
        failed = any(each.status is None or each.status >= 400 for each in served)
        if code not in (INVALID_PARAMS, METHOD_NOT_FOUND):  # these come with any status
            closed = self.ended or failed or (self._server.url is not None and code == CONNECTION_CLOSED)
        else:
            closed = self.ended
        if isinstance(error, MCPError | ValidationError | RuntimeError) and not closed:  # an answer, be it one that cannot be used
            return ToolFailed(f"{what}: {self._cleaned(error)}")
        self._unwanted.set()  # a service that was started anew refuses the session too: it knows nothing of it
        return self._lost(self._cleaned(error), OutcomeUnknown if refused is None else RetryableError)

    def _lost(self, why: str, kind: type[RetryableError] = RetryableError) -> RetryableError:
        heard = f"; it said: {self._heard.tail}" if self._heard.tail else ""
        return kind(f"{self.what} cannot be reached: {why}{heard}")

    def _cleaned(self, error: BaseException) -> str:
        return safe_text(self._secrets.cleaned(str(error) or type(error).__name__), TOLD_CHARACTERS)


async def _tools_of(client: Client) -> Any:
    cursor = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            yield Tool.of(tool)
        cursor = page.next_cursor
        if cursor is None:
            return


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in an error of a task group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
