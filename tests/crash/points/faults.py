"""Faults between redis-py and the socket, and at the boundaries of user code: each at one numbered
point of a story.

A point is one request to the server (a command, or a pipeline, which is sent as one), or one
boundary of user code. The handshake of a new connection is none: a fault there is one before the
request that it was opened for.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import redis

from perdure.flows.core.errors import ProcessEnd
from perdure.worker.store import scripts

#: The fault of a process at a point: it dies there, or stands still until others have gone on
#: without it. Either before the request is sent, or after the server carried it out and before its
#: answer arrives.
DIES_BEFORE, DIES_AFTER = "dies before", "dies behind"
PAUSES_BEFORE, PAUSES_AFTER = "pauses before", "pauses behind"
#: The request is carried out, and the connection cut instead of an answer.
REPLY_LOST = "reply lost"
TIMES_OUT = "times out"
#: The server's answers in place of the request, which it does not carry out.
ANSWERS = {
    "OOM": "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF": "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "READONLY": "READONLY You can't write against a read only replica.",
    "LOADING": "LOADING Redis is loading the dataset in memory",
    "BUSY": "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "NOSCRIPT": "NOSCRIPT No matching script. Please use EVAL.",
}
_MARK = b"carried-out"


class Died(ProcessEnd):
    """A process ends here, in the middle of anything.

    No Exception: nothing in the engine may catch it and go on.
    """

    def __init__(self, actor: Any) -> None:
        super().__init__(f"{actor.name} died")
        self.actor = actor
        actor.dead = True  # from this instant on: its cleanup reaches no server


@dataclass(frozen=True)
class Point:
    """A place where a fault may strike: the process, and its next operation; a ``request`` goes to
    the server.

    ``moment`` counts changes outside of the server: leaps of the clock, and facts that the person
    learned.
    """

    actor: str
    name: str
    request: bool
    moment: int

    def __str__(self) -> str:
        return f"{self.actor} {self.name}"


@dataclass
class Fault:
    """One fault, at the point of that number; ``fired`` counts how often it struck."""

    at: int
    kind: str
    fired: int = 0

    def __str__(self) -> str:
        return f"{self.kind} at {self.at}"


class Wire:
    """Counts the points of one story as they are met, and says which fault strikes there.

    Args:
        faults: at most one a point.
        pause: called where a process is to stand still; it returns when the process wakes.
        cut: called with the request whose connection is cut.
    """

    def __init__(
        self,
        faults: Iterable[Fault] = (),
        pause: Callable[[], None] = lambda: None,
        cut: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.trace: list[Point] = []
        self.faults = {fault.at: fault for fault in faults}
        self.pause, self.cut = pause, cut
        self.actor: Any = None
        #: How many answers were seen long after the request was carried out.
        self.late = 0
        #: See ``Point.moment``.
        self.moment = 0

    def meet(self, name: str, request: bool) -> str:
        """Count the actor's next point; return the kind of fault that strikes there, "" for none.

        Raises:
            Died: the actor dies before it goes on, or is dead already (its cleanup
                does nothing any more).
        """
        if self.actor.dead:
            raise Died(self.actor)
        fault = self.faults.get(len(self.trace))
        self.trace.append(Point(self.actor.name, name, request, self.moment))
        if fault is None:
            return ""
        fault.fired += 1
        if fault.kind == DIES_BEFORE:
            raise Died(self.actor)
        if fault.kind == PAUSES_BEFORE:
            self.pause()
        return fault.kind


class WiredConnection(redis.UnixDomainSocketConnection):
    """redis-py's connection, with the wire of the story that is being played between it and the
    socket.
    """

    wire: Wire

    def __init__(self, *args: Any, **options: Any) -> None:
        self._greeting = False
        self._instead: Callable[[], Exception] | None = None
        super().__init__(*args, **options)

    def on_connect_check_health(self, check_health: bool = True) -> None:
        self._greeting = True
        try:
            super().on_connect_check_health(check_health)
        finally:
            self._greeting = False

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        self._instead = None
        if self._greeting:
            super().send_packed_command(command, check_health)
            return
        if not self._sock:
            self.connect_check_health(check_health=False)
        wire, chunks = self.wire, [command] if isinstance(command, str | bytes) else list(command)
        actor = wire.actor
        kind = wire.meet(name_of(chunks[0]), request=True)
        if kind == TIMES_OUT:
            self._instead = lambda: redis.TimeoutError("Timeout reading from socket")
        elif kind in ANSWERS:
            self._instead = lambda: self._parser.parse_error(ANSWERS[kind])
        else:
            super().send_packed_command(chunks, check_health)
        if kind == DIES_AFTER:
            self._carried_out()
            raise Died(actor)
        if kind == REPLY_LOST:
            self._carried_out()
            self._sock.shutdown(socket.SHUT_RDWR)
            wire.cut(wire.trace[-1].name)
        if kind == PAUSES_AFTER:
            self._parser.can_read(5.0)  # the answer is here: it was carried out
            wire.late += 1
            wire.pause()

    def read_response(self, *args: Any, **options: Any) -> Any:
        if self._instead is None:
            return super().read_response(*args, **options)
        error = self._instead()  # one an answer: redis-py writes into the errors of a pipeline
        if isinstance(
            error, redis.ConnectionError | redis.TimeoutError
        ):  # as redis-py does with these
            self.disconnect()
        raise error

    def _carried_out(self) -> None:
        """Wait until the server has carried out all that was sent; its answers go nowhere."""
        super().send_packed_command(self.pack_command("ECHO", _MARK), check_health=False)
        while self._parser.read_response() not in (_MARK, _MARK.decode()):
            pass


def name_of(packed: str | bytes) -> str:
    """Return the name of a request: its command, the transition of a script, the first command of a
    pipeline.
    """
    words = packed.encode() if isinstance(packed, str) else packed
    found = words[:400].split(b"\r\n")
    if found[2] == b"MULTI":
        return f"MULTI {found[5].decode()}"
    if found[2] == b"EVALSHA":
        return transitions().get(found[4].decode(), "EVALSHA")
    return found[2].decode() if found[2] != b"SCRIPT" else "SCRIPT LOAD"


@cache
def transitions() -> dict[str, str]:
    """Return the names of the transitions by the digest that the server knows them by."""
    return {script.sha: name for name, script in scripts.load().items()}
