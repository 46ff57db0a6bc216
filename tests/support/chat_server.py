"""A server that speaks OpenAI's protocol on a real socket, and says and fails as a test has written
down.

Its reply follows from the conversation alone: a request that is made again gets the same reply. So
tests write a script, a reply for each number of answers that the conversation holds so far, and the
faults that come before it.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: How often a handler that hangs looks whether its client or the server is gone.
LOOK_EVERY = 0.02


@dataclass(frozen=True)
class Says:
    """A reply: the model's text, and its calls, each a name and arguments (text is sent as it is,
    so it need not be JSON).

    ``cached`` is the part of the input tokens that the server found in its cache.
    """

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    tokens: tuple[int, int] | None = (100, 10)
    ended: str | None = None
    thinking: str = ""
    cached: int = 0


@dataclass(frozen=True)
class Fails:
    """An answer with an error status."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cuts:
    """The connection is cut after this number of events of the reply."""

    after: int = 2


@dataclass(frozen=True)
class Hangs:
    """Nothing more comes after this number of events of the reply; None: not even the status."""

    after: int | None = 2


@dataclass(frozen=True)
class Garbles:
    """An event that is no JSON, in the middle of the reply."""


@dataclass(frozen=True)
class Sends:
    """These bytes are the whole answer, and end in order, unless the connection is cut."""

    raw: bytes
    kind: str = "text/event-stream"
    is_cut: bool = False


@dataclass(frozen=True)
class Ends:
    """The stream ends in order after this number of events of the reply; with ``done`` it says
    ``[DONE]`` before.
    """

    after: int
    done: bool = False


Fault = Fails | Cuts | Hangs | Garbles | Sends | Ends


@dataclass(frozen=True)
class Asked:
    """A request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def answers(self) -> int:
        """The answers that the conversation holds: results of calls, and observations in words."""
        said = [(each["role"], str(each.get("content"))) for each in self.body.get("messages", ())]
        in_words = [
            line
            for role, text in said
            if role == "user"
            for line in text.splitlines()
            if line.startswith(("Observation: ", "A person says: Observation: "))
        ]
        return len(in_words) + sum(role == "tool" for role, _ in said)


class Play:
    """A conversation: its replies, and its faults.

    Args:
        script: the reply for each number of answers; beyond it the last one's.
        faults: by number of answers, the faults of the requests, one after the other, before the
            reply; None: no fault.

    Attributes:
        asked: the requests, in order.
        fired: how often each kind of fault happened.
        closed: how many requests the client left before they were answered.
        before: called with each request before it is answered.
    """

    def __init__(
        self, script: Sequence[Says], faults: Mapping[int, Sequence[Fault | None]] | None = None
    ) -> None:
        self.script = script
        self.faults = {at: list(several) for at, several in (faults or {}).items()}
        self.asked: list[Asked] = []
        self.fired: Counter[str] = Counter()
        self.closed = 0
        self.before: Callable[[Asked], None] = lambda asked: None
        self._lock = threading.Lock()

    def next_fault(self, asked: Asked) -> Fault | None:
        """Keep the request, and return its fault."""
        with self._lock:
            self.asked.append(asked)
            waiting = self.faults.get(asked.answers)
            fault = waiting.pop(0) if waiting else None
            if fault is not None:
                self.fired[type(fault).__name__] += 1
            return fault

    def reply_to(self, asked: Asked) -> Says:
        """Return the script's reply."""
        return self.script[min(asked.answers, len(self.script) - 1)]


class ChatServer:
    """The server.

    Args:
        play: the conversation of all goals that ``plays`` does not have.
        models: their names, the first of which is taken where none is named.

    Attributes:
        plays: conversations by the goal that they are about.
        named: how often it was asked for its models.
        acted: called with the path of a request that holds ``/acting/``; so a command tells that it
            is being carried out.
    """

    def __init__(self, play: Play, models: Sequence[str] = ("scripted",)) -> None:
        self.play = play
        self.plays: dict[str, Play] = {}
        self.models = models
        self.named = 0
        self.acted: Callable[[str], None] = lambda path: None
        self.ending = threading.Event()
        self.connections = 0
        self.http = _Server(("127.0.0.1", 0), _Handler)
        self.http.daemon_threads = True
        self.http.chat = self  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        """Its base URL, as clients take it."""
        return f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def play_of(self, asked: Asked) -> Play:
        """Return the conversation that a request belongs to."""
        goals = [
            str(message["content"])
            for message in asked.body.get("messages", ())
            if message["role"] == "user"
        ]
        return next(
            (
                play
                for goal, play in self.plays.items()
                if goals and goals[0].splitlines()[0] == goal
            ),
            self.play,
        )


@contextmanager
def chat_server(
    script: Sequence[Says] = (Says("?"),),
    faults: Mapping[int, Sequence[Fault | None]] | None = None,
    **options: Any,
) -> Iterator[ChatServer]:
    """Start a server, closed afterwards; see ``Play`` and ``ChatServer``."""
    server = ChatServer(Play(script, faults), **options)
    thread = threading.Thread(target=server.http.serve_forever, args=(LOOK_EVERY,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.http.shutdown()
        server.http.server_close()
        thread.join(10)


class _Server(ThreadingHTTPServer):
    """Says nothing of clients that die, which tests kill on purpose."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """Count the connection."""
        super().setup()
        self.chat.connections += 1

    @property
    def chat(self) -> ChatServer:
        return self.server.chat  # type: ignore[attr-defined, no-any-return]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Do nothing: no log."""

    def do_GET(self) -> None:
        """Serve the models; or note that a command acts."""
        if "/acting/" in self.path:
            self.chat.acted(self.path)
            with suppress(OSError):  # the worker that carries it out may be dead by now
                self._whole(200, {})
            return
        self.chat.named += 1
        models = [
            {"id": name, "object": "model", "created": 1, "owned_by": "t"}
            for name in self.chat.models
        ]
        self._whole(200, {"object": "list", "data": models})

    def do_POST(self) -> None:
        """Serve a chat request."""
        length = int(self.headers["content-length"])
        text = self.rfile.read(length)
        if len(text) < length:
            return  # its client died in the middle of the request
        asked = Asked(
            self.path,
            {name.lower(): value for name, value in self.headers.items()},
            json.loads(text),
        )
        play = self.chat.play_of(asked)
        fault = play.next_fault(asked)
        play.before(asked)
        try:
            if isinstance(fault, Fails):
                self._whole(
                    fault.status,
                    fault.body or {"error": {"message": f"scripted {fault.status}"}},
                    fault.headers,
                )
            else:
                self._tell(asked, play.reply_to(asked), fault)
        except OSError:  # the client is gone
            play.closed += 1
            self.close_connection = True

    def _tell(self, asked: Asked, says: Says, fault: Fault | None) -> None:
        if not asked.body.get("stream"):
            assert fault is None, "a fault needs a streamed request"
            self._whole(200, _completion(asked, says))
            return
        events = _events(asked, says)
        if isinstance(fault, Hangs) and fault.after is None:
            self._hang()
            return
        self.send_response(200)
        self.send_header(
            "content-type", fault.kind if isinstance(fault, Sends) else "text/event-stream"
        )
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if isinstance(fault, Sends):
            self._chunk(fault.raw.decode())
            if fault.is_cut:
                self.close_connection = True
            elif fault.raw:
                self._chunk("")
            return
        for number, event in enumerate(events):
            if isinstance(fault, Ends) and number == fault.after:
                break
            if isinstance(fault, Cuts) and number == fault.after:
                # A reset, and not the end of a stream.
                self.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                self.connection.close()
                self.close_connection = True
                return
            if isinstance(fault, Hangs) and number == fault.after:
                self._hang()
                return
            self._chunk(
                f"data: {'{broken' if isinstance(fault, Garbles) and number == 1 else json.dumps(event)}\n\n"
            )
        if not isinstance(fault, Ends) or fault.done:
            self._chunk("data: [DONE]\n\n")
        self._chunk("")

    def _chunk(self, text: str) -> None:
        raw = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()

    def _hang(self) -> None:
        while not self.chat.ending.is_set():
            readable, _, _ = select.select([self.connection], [], [], LOOK_EVERY)
            if readable and not self.connection.recv(1):
                raise ConnectionResetError
        self.close_connection = True

    def _whole(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "content-type": "application/json",
            "content-length": str(len(raw)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)


def _calls(asked: Asked, says: Says) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{asked.answers}_{number}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": args if isinstance(args, str) else json.dumps(args),
            },
        }
        for number, (name, args) in enumerate(says.calls)
    ]


def _ended(says: Says) -> str:
    return says.ended or ("tool_calls" if says.calls else "stop")


def _usage(says: Says) -> dict[str, Any] | None:
    if says.tokens is None:
        return None
    read, wrote = says.tokens
    cached = {"prompt_tokens_details": {"cached_tokens": says.cached}} if says.cached else {}
    return {
        "prompt_tokens": read,
        "completion_tokens": wrote,
        "total_tokens": read + wrote,
        **cached,
    }


def _events(asked: Asked, says: Says) -> list[dict[str, Any]]:
    base = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": asked.body["model"],
    }
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if says.thinking:
        deltas.append({"reasoning_content": says.thinking})
    half = (len(says.text) + 1) // 2
    deltas += [{"content": part} for part in (says.text[:half], says.text[half:]) if part]
    for number, call in enumerate(_calls(asked, says)):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        first = {
            **call,
            "index": number,
            "function": {"name": call["function"]["name"], "arguments": arguments[:half]},
        }
        deltas += [
            {"tool_calls": [first]},
            {"tool_calls": [{"index": number, "function": {"arguments": arguments[half:]}}]},
        ]
    events = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    events.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": _ended(says)}]})
    if asked.body.get("stream_options", {}).get("include_usage") and _usage(says):
        events.append({**base, "choices": [], "usage": _usage(says)})
    return events


def _completion(asked: Asked, says: Says) -> dict[str, Any]:
    message = {
        "role": "assistant",
        "content": says.text or None,
        "tool_calls": _calls(asked, says) or None,
    }
    if says.thinking:
        message["reasoning_content"] = says.thinking
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": asked.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": _ended(says)}],
        "usage": _usage(says),
    }
