"""Transports of MCP messages: a program's stdin and stdout, or HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.flows.core.summaries import safe_text
from perdure.flows.executors.mcp.config import Secrets, ServerConfig
from perdure.flows.executors.mcp.odd_messages import understood
from perdure.flows.executors.sandbox import PASSED_ON

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger("perdure.mcp")

#: Maximum characters of a line of a server's stderr in the log, and of the end of stderr in an
#: error.
LINE, TAIL = 1000, 500
#: Maximum characters of an error response's body in an error.
BODY = 1800
#: Maximum seconds that a server can ask to wait before the next attempt.
LONGEST_WAIT = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class McpTransport:
    """The outcome of an HTTP request to an MCP server.

    Attributes:
        status: The HTTP status. None if the connection failed.
        was_sent: Whether a connection was made, so that the server may have the request.
        retry_after: Seconds from the response's Retry-After header. None if it has none.
        has_session: Whether the request named a session.
        body: The beginning of the body of a response with an error status, or the error of the
            connection. Without secrets.
        is_answer: Whether the body is a JSON-RPC error with the id of the request. It is the MCP
            server's answer then, and not a gateway's.
    """

    status: int | None
    retry_after: float | None = None
    has_session: bool = False
    body: str = ""
    is_answer: bool = False
    was_sent: bool = True

    @classmethod
    def broken(cls, error: httpx2.TransportError, secrets: Secrets) -> McpTransport:
        """Return the outcome of a request whose connection failed."""
        import httpx2

        unsent = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
        text = safe_text(secrets.cleaned(str(error)) or type(error).__name__, BODY)
        return cls(None, body=text, was_sent=not isinstance(error, unsent))

    @property
    def failed(self) -> bool:
        """Whether there is no whole response, or one with an error status."""
        return self.status is None or self.status >= 400

    @property
    def refused(self) -> bool:
        """Whether the MCP server surely did nothing. The request is not in doubt then.

        A gateway also answers 503 after it has lost the server during the request. Only with
        Retry-After is it certain that the request was not passed on.
        """
        if self.status is None:
            return not self.was_sent
        return 400 <= self.status < 500 or (self.status == 503 and self.retry_after is not None)

    @property
    def is_lost(self) -> bool:
        """Whether the MCP server does not know the session of the request."""
        return self.has_session and self.status in (404, 410) and not self.is_answer

    @property
    def may_be_lost(self) -> bool:
        """Whether the MCP server may not know the session.

        Status 400 may have other reasons, and a JSON-RPC error may be the tool's own.
        """
        return self.has_session and self.status in (400, 404, 410) and not self.is_lost

    @property
    def text(self) -> str:
        """The status and the beginning of the body, or the error of the connection."""
        if self.status is None:
            return self.body
        return f"HTTP {self.status}{f': {self.body}' if self.body else ''}"


#: HTTP statuses for refused credentials, and for a server that is busy.
DENIED, BUSY = frozenset({401, 403}), frozenset({425, 429, 503})
#: HTTP statuses of a gateway that got no answer from the server. Its body may be JSON-RPC.
GATEWAY = frozenset({502, 504})
#: HTTP statuses of an endpoint that is not there, and of a request that did not arrive in time.
LATER = frozenset({404, 408})


def is_undone(served: Sequence[McpTransport]) -> bool:
    """Return whether an HTTP server surely did nothing in any of the requests of a call.

    A redirect says nothing: the request that follows it has an outcome of its own.
    """
    decisive = [each for each in served if each.status is None or each.status // 100 != 3]
    return bool(decisive) and all(each.refused for each in decisive)


#: The outcomes of the requests that belong to the current call.
requests: ContextVar[list[McpTransport]] = ContextVar("requests")


class ProgramOutput(asyncio.Protocol):
    """A reader of a program's stderr. It logs each line, and keeps the last characters in ``tail``.

    Args:
        name: The MCP server's name, for the log.
        secrets: The secrets that are removed from the lines.
    """

    def __init__(self, name: str, secrets: Secrets) -> None:
        self._name, self._secrets = name, secrets
        self._line = b""
        self.tail = ""

    def data_received(self, data: bytes) -> None:
        """Log each complete line of ``data``. A line that is too long is logged in pieces."""
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > LINE:
            lines, self._line = [*lines, self._line], b""
        for line in lines:
            self._log(line)

    def eof_received(self) -> None:
        """Log the last, unfinished line of stderr."""
        self._log(self._line)

    def _log(self, line: bytes) -> None:
        text = self._secrets.cleaned(line.decode("utf-8", "replace").strip())
        if text:
            logger.info("stderr of MCP server %s: %s", self._name, safe_text(text, LINE))
            self.tail = f"{self.tail}\n{text}"[-TAIL:].strip()


class _Watched:
    """A stream of the server's messages. It sets ``ended`` when no further messages can arrive.

    Each message is passed to ``inspect`` before the client library reads the message.
    """

    def __init__(self, stream: Any, ended: asyncio.Event, inspect: Callable[[Any], None]) -> None:
        self._stream, self._ended, self._inspect = stream, ended, inspect

    @property
    def last_context(self) -> Any:
        """The ``contextvars`` context in which the library passed on the server's last message.

        None if the library's stream has none.
        """
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message from the MCP server, repaired if necessary (``understood``)."""
        message = understood(await self._stream.receive())
        self._inspect(message)
        return message

    async def aclose(self) -> None:
        """Close the stream of messages from the MCP server."""
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            message = understood(await self._stream.__anext__())
        except BaseException:  # At its end, or after any error, no further messages arrive.
            self._ended.set()
            raise
        self._inspect(message)
        return message

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._stream.__aexit__(*error)  # type: ignore[no-any-return]


@asynccontextmanager
async def connected(
    server: ServerConfig,
    secrets: Secrets,
    output: ProgramOutput,
    ended: asyncio.Event,
    inspect: Callable[[Any], None],
    ends: Callable[[], None],
) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to an MCP server, and yield its streams of incoming and outgoing messages.

    Args:
        output: Gets the stderr of the server's program.
        ended: An event that is set when no further messages can arrive.
        inspect: Is called with each message of the server.
        ends: Is called before the server's program is ended.
    """
    async with (
        _program(server, secrets, output, ended)
        if server.command
        else _service(server, secrets) as (incoming, outgoing)
    ):
        try:
            yield _Watched(incoming, ended, inspect), outgoing
        finally:
            if server.command:
                ends()


@asynccontextmanager
async def _program(
    server: ServerConfig, secrets: Secrets, output: ProgramOutput, ended: asyncio.Event
) -> AsyncIterator[tuple[Any, Any]]:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    from perdure.flows.executors.mcp.bounds import ENCODING, TOO_LARGE, too_long

    program, *args = server.command or []
    # A worker in a virtual environment that is not activated still finds the programs installed
    # there.
    beside = Path(sys.executable).parent / program
    executable = program if shutil.which(program) or not beside.is_file() else str(beside)
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    variables = secrets.resolved(server.env)
    parameters = StdioServerParameters(
        command=executable, args=args, env={**environment, **variables}, encoding=ENCODING
    )

    def end() -> None:
        """End the session of a program after an oversized line."""
        output.tail = TOO_LARGE
        ended.set()

    too_long.set(end)
    reading, writing = os.pipe()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: output, os.fdopen(reading, "rb")
    )
    try:
        # A pipe of our own: the worker's sys.stderr may be Celery's, to which no program can write.
        with os.fdopen(writing, "w") as stderr:
            async with stdio_client(parameters, errlog=stderr) as streams:
                yield streams
    finally:
        output.eof_received()
        pipe.close()


async def _outcome(
    request: httpx2.Request, response: httpx2.Response, secrets: Secrets
) -> McpTransport:
    """Return the outcome of a request. This reads the body of a response with an error status."""
    import httpx2

    body = b""
    if response.status_code >= 400:
        with suppress(httpx2.StreamError):
            body = await response.aread()
            await request.aread()  # A redirected request is a stream that can be read again.
    return McpTransport(
        response.status_code,
        _seconds(response.headers.get("retry-after", "")),
        "mcp-session-id" in request.headers,
        safe_text(secrets.cleaned(body.decode("utf-8", "replace")).strip(), BODY),
        bool(body) and _is_answer(request, body),
    )


def _is_answer(request: httpx2.Request, body: bytes) -> bool:
    """Return whether a body is a JSON-RPC error with the id of the request."""
    import httpx2

    try:
        asked, answer = json.loads(request.content), json.loads(body)
    except (httpx2.RequestNotRead, ValueError, RecursionError):
        return False
    if not isinstance(asked, dict) or not isinstance(answer, dict) or "id" not in asked:
        return False
    return isinstance(answer.get("error"), dict) and answer.get("id") == asked["id"]


def _seconds(retry_after: str) -> float | None:
    """Return the seconds of a Retry-After header, which is a number or a date, at most a day.

    A date in the past gives 0. None if the header is neither a number nor a date.
    """
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError, OSError):  # no date, or one beyond any calendar
            return None
    return min(max(seconds, 0.0), LONGEST_WAIT) if math.isfinite(seconds) else None


@asynccontextmanager
async def _service(server: ServerConfig, secrets: Secrets) -> AsyncIterator[tuple[Any, Any]]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from perdure.flows.executors.mcp.bounds import MOST_BYTES, bound

    class Client(httpx2.AsyncClient):
        """A client that records statuses and unsent requests. The client library hides them."""

        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            """Send a request. Record the status of its response, and the body of an error."""
            # The stream for the server's own messages is not part of a call.
            noted = requests.get([]) if request.method == "POST" else []
            try:
                response = await super().send(request, **options)
            except httpx2.TransportError as error:
                if request.method != "POST":
                    raise
                noted.append(McpTransport.broken(error, secrets))
                # An exception would end the session, with the calls of other runs in it.
                return httpx2.Response(502, request=request)

            def note_end(error: httpx2.TransportError) -> None:
                if response.status_code < 400:
                    noted.append(McpTransport.broken(error, secrets))

            bound(response, note_end)
            try:
                outcome = await _outcome(request, response, secrets)
            except Exception:  # It would end the session, with the calls of other runs in it.
                logger.exception("cannot read the outcome of a request to an MCP server")
                outcome = McpTransport(response.status_code)
            noted.append(outcome)
            return response

    # No read timeout: the session limits how long an answer may take.
    limits = httpx2.Timeout(server.start_seconds, read=None)
    async with (
        Client(
            headers={"Accept-Encoding": "identity", **secrets.resolved(server.headers)},
            timeout=limits,
        ) as client,
        streamable_http_client(
            str(server.url), http_client=client, max_sse_event_size=MOST_BYTES
        ) as streams,
    ):
        yield streams
