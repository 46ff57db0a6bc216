"""One session with one MCP server, in the event loop that all sessions of a process share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from perdure.flows.errors import FatalError, OutcomeUnknown, PerdureError, RetryableError
from perdure.flows.executors.mcp.config import Secrets, ServerConfig
from perdure.flows.executors.mcp.results import TOLD_CHARACTERS, Tool, ToolFailed, observation_of
from perdure.flows.executors.mcp.transports import McpTransport, ProgramOutput, connected, requests
from perdure.flows.names import suggest
from perdure.flows.summaries import safe_text

if TYPE_CHECKING:
    from mcp import Client

#: Maximum number of pages read of a list of tools. A server could send pages for ever.
PAGES = 100
#: HTTP statuses for refused credentials, and for a server that is busy.
_DENIED, _BUSY = frozenset({401, 403}), frozenset({425, 429, 503})


class McpSession:
    """A session that opens when it is created, and ends with its server or with ``close``.

    Args:
        name: The server's name in errors.
        server: How to reach the server.
    """

    def __init__(self, name: str, server: ServerConfig) -> None:
        where = (
            Path(server.command[0]).name if server.command else urlsplit(str(server.url)).hostname
        )
        self.what = f"MCP server {name!r} ({where})"
        self._server = server
        self._secrets = Secrets(self.what)
        self._output = ProgramOutput(name, self._secrets)
        self._tools: dict[str, Tool] = {}
        self._ready, self._unwanted, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._client: Client | None = None
        self._fault: PerdureError | None = None
        self._life = asyncio.create_task(self._live())

    @property
    def ended(self) -> bool:
        """Whether the session with the MCP server has ended, so that no call can succeed."""
        return self._ended.is_set() or self._unwanted.is_set() or self._life.done()

    async def tool(self, name: str) -> Tool:
        """Return the MCP server's declaration of a tool, once the server has listed its tools.

        Raises:
            RetryableError: The server cannot be reached.
            FatalError: The server refuses the credentials, or has no such tool.
        """
        await self._opened()
        if name not in self._tools:
            raise FatalError(f"{self.what} has no tool {name!r}; {suggest(name, self._tools)}")
        return self._tools[name]

    async def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> Any:
        """Call a tool of the MCP server, and return its result as JSON data.

        Raises:
            ToolFailed: The tool or its server reports an error.
            RetryableError: Nothing was done: the server is gone or busy.
            OutcomeUnknown: The call may have been done: the server died or took too long.
            FatalError: The server refuses the credentials.
        """
        client = await self._opened()
        served: list[McpTransport] = []
        requests.set(served)
        asking = asyncio.create_task(
            client.call_tool(name, dict(arguments), read_timeout_seconds=seconds)
        )
        # Retrieves the exception even if no round waits for it.
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        what = f"tool {name!r}"
        try:
            await asyncio.wait({asking, self._life}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asking.cancel()  # has no effect on a task that is done
        if not asking.done() or asking.cancelled():
            raise self._lost("it ended before it answered", OutcomeUnknown)
        error = asking.exception()
        if error is not None:
            # The cause is suppressed, because it may contain a secret and would be logged.
            raise self._judged(error, served, what, seconds) from None
        try:
            return self._secrets.cleaned(observation_of(asking.result(), f"{what} of {self.what}"))
        except ToolFailed as failed:
            raise ToolFailed(self._secrets.cleaned(str(failed))) from None

    async def close(self) -> None:
        """End the session with the MCP server, and the program that was started for it."""
        self._unwanted.set()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({self._life})

    async def _opened(self) -> Client:
        """Wait until the session with the MCP server is open, and return the library's client."""
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({ready, self._life}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._client is None or self._life.done():
            raise self._fault or self._lost("it ended")
        return self._client

    async def _live(self) -> None:
        """Run the session with the MCP server from connect to end.

        This is one task, as the client library requires.
        """
        from mcp import Client
        from mcp_types import Implementation

        served: list[McpTransport] = []
        requests.set(served)
        try:
            async with asyncio.timeout(self._server.start_seconds) as patience:
                streams = connected(self._server, self._secrets, self._output, self._ended)
                async with Client(
                    streams, client_info=Implementation(name="perdure", version="1")
                ) as client:
                    self._tools = {tool.name: tool async for tool in _tools_of(client)}
                    patience.reschedule(None)
                    self._client = client
                    self._ready.set()
                    waits = [
                        asyncio.create_task(event.wait()) for event in (self._unwanted, self._ended)
                    ]
                    try:
                        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        for wait in waits:
                            wait.cancel()
        except PerdureError as error:
            self._fault = error
        except Exception as error:
            if not self._ready.is_set():
                self._fault = self._failed_start(next(_leaves(error)), served)

    def _failed_start(self, error: BaseException, served: list[McpTransport]) -> PerdureError:
        """Return the error that a round raises because the MCP server did not start.

        Nothing was called yet, so nothing is in doubt. Another attempt or another worker may
        succeed.
        """
        fault = self._judged(
            error, [each for each in served if each.refused], "start", self._server.start_seconds
        )
        if isinstance(fault, FatalError) or type(fault) is RetryableError:
            return fault
        return self._lost(
            "it did not start in time (start_seconds)"
            if isinstance(error, TimeoutError)
            else self._cleaned(error)
        )

    def _judged(
        self, error: BaseException, served: list[McpTransport], what: str, seconds: float
    ) -> PerdureError:
        """Translate an exception of the MCP client library into the error that the round raises."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_TIMEOUT
        from pydantic import ValidationError

        code = error.code if isinstance(error, MCPError) else None
        refused = served[-1] if served and all(each.refused for each in served) else None
        if refused is not None and refused.status in _DENIED:
            self._unwanted.set()
            return FatalError(
                f"{self.what} refuses the credentials (HTTP {refused.status}); "
                "check the headers that the flow declares"
            )
        if refused is not None and refused.status in _BUSY:
            return RetryableError(
                f"{self.what} is busy (HTTP {refused.status})", refused.retry_after
            )
        if isinstance(error, TimeoutError) or code == REQUEST_TIMEOUT:
            return OutcomeUnknown(f"{self.what}, {what}: no answer within {seconds:g} s")
        failed = any(each.status is None or each.status >= 400 for each in served)
        if code not in (INVALID_PARAMS, METHOD_NOT_FOUND):  # these come with any HTTP status
            closed = (
                self.ended or failed or (self._server.url is not None and code == CONNECTION_CLOSED)
            )
        else:
            closed = self.ended
        # The server did answer, even if the answer is unusable.
        if isinstance(error, MCPError | ValidationError | RuntimeError) and not closed:
            return ToolFailed(f"{what}: {self._cleaned(error)}")
        # Close this session, so that the next call opens a new one. The service may have restarted
        # and no longer know this session.
        self._unwanted.set()
        return self._lost(
            self._cleaned(error), OutcomeUnknown if refused is None else RetryableError
        )

    def _lost(self, why: str, kind: type[RetryableError] = RetryableError) -> RetryableError:
        stderr = f"; last output: {self._output.tail}" if self._output.tail else ""
        return kind(f"{self.what} cannot be reached: {why}{stderr}")

    def _cleaned(self, error: BaseException) -> str:
        return safe_text(self._secrets.cleaned(str(error) or type(error).__name__), TOLD_CHARACTERS)


async def _tools_of(client: Client) -> Any:
    """Yield all tools that an MCP server lists."""
    cursor = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            yield Tool.of(tool)
        cursor = page.next_cursor
        if cursor is None:
            return


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors inside an exception group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
