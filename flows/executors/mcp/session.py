"""A session with one MCP server. It runs in the event loop that all sessions of a process share."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from perdure.flows.core.errors import (
    FatalError,
    OutcomeUnknown,
    PerdureError,
    RetryableError,
    leaves_of,
)
from perdure.flows.core.names import suggest
from perdure.flows.executors.mcp.config import Secrets, ServerConfig
from perdure.flows.executors.mcp.liveness import LAST_SECONDS, Ping, StartLimit, is_unread
from perdure.flows.executors.mcp.odd_messages import error_without_request
from perdure.flows.executors.mcp.odd_results import accept_result, repair_result, unknown_result
from perdure.flows.executors.mcp.results import (
    Tool,
    ToolFailed,
    error_text,
    observation_of,
    text_of_server,
)
from perdure.flows.executors.mcp.tool_list import drop_invalid_tools, tools_of
from perdure.flows.executors.mcp.transports import (
    BUSY,
    DENIED,
    GATEWAY,
    LATER,
    McpTransport,
    ProgramOutput,
    connected,
    is_undone,
    requests,
)

if TYPE_CHECKING:
    from mcp import Client

logger = logging.getLogger("perdure.mcp")
#: Seconds after which a list is read again because one of its pages could not be read.
LIST_SECONDS = 10.0


class McpSession:
    """A session with an MCP server. The constructor begins to open it.

    The session ends when the server ends it or when ``close`` is called.

    Args:
        name: The server's name, for errors.
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
        self._invalid_tools: dict[str, str] = {}
        self._is_list_old = False
        self._list_fault: str | None = None
        self._list_due = math.inf
        self._listing = asyncio.Lock()
        self._ready, self._unwanted, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._calls = 0
        self._complaint = (0.0, "")
        self._is_retired = False
        self._client: Client | None = None
        self._version: str | None = None
        self._fault: PerdureError | None = None
        self.ping = Ping(self.what, self._retire, self._unwanted.set)
        self._start = StartLimit(server.start_seconds)
        self._life = asyncio.create_task(self._live())

    @property
    def ended(self) -> bool:
        """Whether the session takes no further calls."""
        return self._is_retired or self._is_closed

    @property
    def _is_closed(self) -> bool:
        """Whether no call can succeed any more, also none that runs."""
        return self._ended.is_set() or self._unwanted.is_set() or self._life.done()

    def _retire(self) -> None:
        """Take no further calls, and end the session after its running calls.

        Runs share the session, and the MCP server may still answer their calls.
        """
        self._is_retired = True
        if not self._calls:
            self._unwanted.set()

    async def tool(self, name: str, is_old: bool = False) -> Tool:
        """Return the server's declaration of a tool.

        This waits until the server has listed its tools. The list is read again if the server has
        reported a change, if a page of it could not be read, or if the tool is not in it.

        Args:
            is_old: Whether to read the list again in any case.

        Raises:
            RetryableError: The server cannot be reached, or a page of its list cannot be read.
            FatalError: The server refuses the credentials, has no such tool, or declares the tool
                against the protocol.
        """
        client = await self._opened()
        async with self._listing:
            is_due = asyncio.get_running_loop().time() >= self._list_due
            if is_old or is_due or self._is_list_old or name not in self._tools:
                await self._list_again(client)
        if name in self._tools:
            return self._tools[name]
        if name in self._invalid_tools:
            raise FatalError(
                f"{self.what} declares its tool {name!r} against the protocol: "
                f"{self._invalid_tools[name]}"
            )
        if self._list_fault is not None:
            raise RetryableError(
                f"{self.what} has no tool {name!r} on the pages of its list that can be read: "
                f"{self._list_fault}"
            )
        raise FatalError(f"{self.what} has no tool {name!r}; {suggest(name, self._tools)}")

    async def _read_list(self, client: Client) -> None:
        """Read the list of the MCP server's tools, up to the first page that cannot be read.

        Such a page is logged. Tools that an earlier list had then remain.
        """
        tools, fault = await tools_of(client)
        self._list_fault = None if fault is None else self._cleaned(fault)
        # A page that cannot be read may list the tools that it listed before.
        self._tools = tools if fault is None else {**self._tools, **tools}
        now = asyncio.get_running_loop().time()
        self._list_due = math.inf if fault is None else now + LIST_SECONDS
        if fault is not None:
            logger.warning(
                "%s: a page of its tools cannot be read: %s", self.what, self._list_fault
            )

    async def _list_again(self, client: Client) -> None:
        """Read the list of the MCP server's tools again.

        Raises:
            RetryableError: The server cannot be reached or does not respond in time.
            FatalError: The server refuses the credentials.
        """
        served: list[McpTransport] = []
        requests.set(served)
        seconds = self._server.start_seconds
        try:
            self._is_list_old = False
            async with asyncio.timeout(seconds):
                await self._read_list(client)
        except BaseException as error:
            self._is_list_old = True
            if not isinstance(error, Exception):
                raise  # the round was cancelled
            if isinstance(error, TimeoutError):
                self.ping.send(client)
            await self._check_session(client, served)
            fault = self._judged(error, served, "list of tools", seconds)
            raise self._without_doubt(fault) from None

    async def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> Any:
        """Call a tool, and return the observation (``observation_of``).

        Secrets in the result are replaced.

        Args:
            seconds: Time limit of the call.

        Raises:
            ToolFailed: The tool or its server reports an error.
            RetryableError: The server is gone or busy, and the call had no effect.
            OutcomeUnknown: The server ended or took too long, and the call may have had its effect.
            FatalError: The server refuses the credentials.
        """
        self._calls += 1  # A session that is retired meanwhile goes on until the call has ended.
        try:
            return await self._call(await self._opened(), name, arguments, seconds)
        finally:
            self._calls -= 1
            if self._is_retired:
                self._retire()

    async def _call(
        self, client: Client, name: str, arguments: Mapping[str, Any], seconds: float
    ) -> Any:
        served: list[McpTransport] = []
        requests.set(served)
        asking = asyncio.create_task(client.call_tool(name, dict(arguments)))
        # Retrieves the exception even if no round waits for it.
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        what = f"tool {name!r}"
        begin = asyncio.get_running_loop().time()
        try:
            # The time limit is not the client library's, whose error looks like a tool's own error
            # with the code -32001.
            await asyncio.wait(
                {asking, self._life}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            is_answered = asking.done()
            asking.cancel()  # has no effect on a task that is done
        if not is_answered and not self._life.done():
            self.ping.send(client)
            # Without an id, the error may be that of another request.
            when, text = self._complaint
            reported = f"; meanwhile the server reported: {text}" if text and when >= begin else ""
            raise OutcomeUnknown(f"{self.what}, {what}: no answer within {seconds:g} s{reported}")
        if not is_answered or asking.cancelled():
            raise self._lost("it ended before it answered", OutcomeUnknown)
        error = asking.exception()
        if error is None:
            result = asking.result()
        elif (unknown := unknown_result(error, self._secrets.cleaned)) is not None:
            result = unknown
        else:
            await self._check_session(client, served)
            # The cause is suppressed, because it may contain a secret and would be logged.
            raise self._judged(error, served, what, seconds) from None
        try:
            return self._secrets.cleaned(observation_of(result, f"{what} of {self.what}"))
        except ToolFailed as failed:
            raise ToolFailed(self._secrets.cleaned(str(failed))) from None
        except Exception as fault:  # A call that has failed would be repeated, but the tool acted.
            why = f"its result cannot be converted: {type(fault).__name__}: {self._cleaned(fault)}"
            raise OutcomeUnknown(f"{self.what}, {what}: {why}") from None

    async def _check_session(self, client: Client, served: list[McpTransport]) -> None:
        """Find out by a ping whether a status means that the server has lost the session."""
        if served and served[-1].may_be_lost and not self.ended:
            self.ping.send(client)
            await self.ping.settle()

    def _inspect(self, message: Any) -> None:
        """Check a server's message before the client library reads it.

        Declarations of tools that violate the protocol are removed from the message. A report that
        the list of tools has changed is noted.
        """
        method = getattr(getattr(message, "message", None), "method", None)
        if method == "notifications/tools/list_changed":
            self._is_list_old = True
        complaint = error_without_request(message)
        if complaint is not None:
            text = self._cleaned(complaint)
            self._complaint = (asyncio.get_running_loop().time(), text)
            logger.warning("%s reports an error without a request: %s", self.what, text)
        if self._version is None:
            return
        repair_result(message, self._version, self._secrets.cleaned)
        for tool, fault in drop_invalid_tools(message, self._version).items():
            self._invalid_tools[tool] = self._secrets.cleaned(fault)
            logger.warning("%s declares an invalid tool, %s: %s", self.what, tool, fault)

    async def close(self) -> None:
        """End the session and its program. Wait for the end."""
        self._is_retired = True
        await self.ping.end(LAST_SECONDS if self._server.url is not None else 0)
        self._unwanted.set()
        if self._client is None and self._server.url is None and not self._start.expire():
            self._life.cancel()
        await asyncio.wait({self._life})
        await self.ping.settle(LAST_SECONDS)

    async def _opened(self) -> Client:
        """Wait for the open session, and return its client.

        Raises:
            PerdureError: The session could not be opened, or has ended.
        """
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({ready, self._life}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._client is None or self._is_closed:
            raise self._fault or self._lost("it ended")
        return self._client

    async def _live(self) -> None:
        """Run the session from its connection to its end.

        This is one task, as the client library requires. If the session cannot be opened,
        ``_opened`` raises the error, not this method.
        """
        from mcp import Client
        from mcp_types import Implementation

        served: list[McpTransport] = []
        requests.set(served)
        try:
            lift = self._start.lift
            async with self._start.begin():
                streams = connected(
                    self._server, self._secrets, self._output, self._ended, self._inspect, lift
                )
                async with Client(
                    streams, client_info=Implementation(name="perdure", version="1")
                ) as client:
                    self._version = client.protocol_version
                    # The library would list the tools after a call, and raise that list's error.
                    client.session.validate_tool_result = accept_result  # type: ignore[method-assign]
                    await self._read_list(client)
                    lift()
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
            if not (self._ready.is_set() or self._unwanted.is_set()):
                self._fault = self._failed_start(leaves_of(error)[0], served)

    def _failed_start(self, error: BaseException, served: list[McpTransport]) -> PerdureError:
        """Return the round's error after a failed start.

        No tool was called yet, so nothing is in doubt. Another attempt or another worker may
        succeed. So the error is retryable, except for refused credentials.
        """
        fault = self._judged(
            error,
            [each for each in served[-1:] if each.failed],
            "start",
            self._server.start_seconds,
        )
        if isinstance(error, TimeoutError) and type(fault) is OutcomeUnknown:
            return self._lost("it did not start in time (start_seconds)")
        return self._without_doubt(fault)

    def _without_doubt(self, fault: PerdureError) -> PerdureError:
        """Return the round's error for a request without effect, which is never in doubt."""
        if isinstance(fault, OutcomeUnknown):
            return RetryableError(str(fault), fault.retry_after)
        return fault if isinstance(fault, FatalError | RetryableError) else self._lost(str(fault))

    def _judged(
        self, error: BaseException, served: list[McpTransport], what: str, seconds: float
    ) -> PerdureError:
        """Translate a client library's exception to the round's error.

        A session that is broken or was refused is ended, so that the next call opens a new one.

        Args:
            served: the outcomes of the HTTP requests that belong to the failed call.
            what: the failed call, for the message.
            seconds: the time limit of the call, for the message.

        Returns:
            FatalError: the server refused the credentials. ToolFailed: it responded with an error.
                RetryableError: it did nothing. OutcomeUnknown: it may have acted.
        """
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND
        from pydantic import ValidationError

        if isinstance(error, MCPError) and error.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
            self._is_list_old = True  # the server may have another schema by now
        last = served[-1] if served else None
        kind = RetryableError if is_undone(served) else OutcomeUnknown
        if last is not None and last.failed:
            why = last.text
            fault = self._judged_status(error, last, kind, what, why)
            if fault is not None:
                return fault
            is_answer = False
        else:
            # The server did answer, even if the answer is unusable.
            is_answer = isinstance(error, MCPError | ValidationError | RuntimeError)
            why = self._cleaned(error)
        if isinstance(error, TimeoutError):
            return OutcomeUnknown(f"{self.what}, {what}: no answer within {seconds:g} s")
        if (
            is_answer
            and not self._is_closed
            and not (is_unread(error) and self._server.url is not None)
        ):
            return ToolFailed(f"{what}: {why}")
        # The service may have restarted, and no longer know this session.
        if self._client is not None and not self.ended:
            self.ping.send(self._client)
        return self._lost(why, kind)

    def _judged_status(
        self,
        error: BaseException,
        last: McpTransport,
        kind: type[RetryableError],
        what: str,
        why: str,
    ) -> PerdureError | None:
        """Return the round's error for an HTTP status. None if the status says nothing of the call.

        Args:
            last: the outcome of the last HTTP request of the failed call.
            kind: RetryableError if the server surely did nothing, else OutcomeUnknown.
            why: the status and the beginning of the body.
        """
        if last.status is None:
            return None
        is_undone = kind is RetryableError
        if is_undone and last.status in DENIED:
            self._retire()
            return FatalError(
                f"{self.what} refuses the credentials ({why}); "
                "check the headers that the flow declares"
            )
        if last.status in BUSY:
            return kind(f"{self.what} is busy ({why})", last.retry_after)
        if last.is_lost or (last.may_be_lost and self.ended):
            self._retire()
            return self._lost(why, kind)
        if last.is_answer and last.status not in GATEWAY:
            return ToolFailed(f"{what}: {self._cleaned(error)}")
        if is_undone and last.status < 500 and last.status not in LATER:
            return ToolFailed(f"{what}: {why}")
        return None

    def _lost(self, why: str, kind: type[RetryableError] = RetryableError) -> RetryableError:
        stderr = f"; last output: {self._output.tail}" if self._output.tail else ""
        return kind(f"{self.what} cannot be reached: {why}{stderr}")

    def _cleaned(self, error: BaseException) -> str:
        """Return an error's text without secrets (``text_of_server``)."""
        data = self._secrets.cleaned(getattr(error, "data", None))
        return error_text(self._secrets.cleaned(text_of_server(error, data)))
