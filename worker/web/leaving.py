"""Leaving: a server that goes ends the responses that would go on for ever, streams of events, as if their clients had gone."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Leaving:
    """An app whose streams end when it is told to leave; other responses are finished.

    A stream ends whole, so its client sees no error: it asks again, where it stopped, and reaches another server or the next one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """From now on nothing goes on for ever."""
        self._leaving.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        read = unfinished = False

        async def hear() -> Message:
            nonlocal read
            if read:  # the request, to its end: whoever goes on listening wants to know when the client is gone
                return await self._gone(receive)
            message = await receive()
            read = not message.get("more_body", False)
            return message

        async def say(message: Message) -> None:
            nonlocal unfinished
            unfinished = message["type"] == "http.response.start" or bool(message.get("more_body", False))
            await send(message)

        await self._app(scope, hear, say)
        # Whatever ended it (the library of the streams hears of the signal by itself), and if nobody listens any more, that does no harm.
        if unfinished:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _gone(self, receive: Receive) -> Message:
        client, server = asyncio.ensure_future(receive()), asyncio.ensure_future(self._leaving.wait())
        try:
            await asyncio.wait((client, server), return_when=asyncio.FIRST_COMPLETED)
            return client.result() if client.done() else {"type": "http.disconnect"}
        finally:
            client.cancel()
            server.cancel()
