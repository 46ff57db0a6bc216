"""Tiers by folder: the processes and sockets that the tests of each may start.

A pytest plugin, which tests/conftest.py names.

An audit hook of Python sees each process that starts and each socket that is bound, whichever
library does it. A test that starts more than its tier allows fails at once, with the place to which
it belongs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

#: Tiers whose tests may start anything: processes are their subject. A test of tests/e2e plays the
#: suite of an existing app, in tests/support.
FREE = frozenset({"crash", "e2e", "fundamentals", "soak", "support", "trials"})
#: Events of Python's audit hooks by which a process starts.
STARTS = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.startfile", "os.system"}
    | {"subprocess.Popen"}
)
#: State servers. All tiers but the pure one may start one of their own.
STATE_SERVERS = frozenset({"valkey-server", "redis-server"})
#: Python's `platform` starts it once a process, for libraries that name the machine in a header.
PLATFORM = "uname"
#: urllib3 binds this address when it is imported, to learn whether the machine has IPv6.
IPV6_PROBE = ("::1", 0)


class Misplaced(AssertionError):
    """A test started a process or socket that its tier may not start."""


class Place(NamedTuple):
    """The tier of the running test, and the test."""

    tier: str
    test: str

    def refusal(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        """Return why an audit event is not allowed here, or None if it is."""
        if self.tier in FREE:
            return None
        if event in STARTS:
            program = program_of(event, arguments)
            if program == PLATFORM or (program in STATE_SERVERS and self.tier != "unit"):
                return None
            return (
                f"{self.test} started a process ({program}). Tests of tests/{self.tier} run in the "
                "test's own process: move it to tests/e2e"
            )
        if event == "socket.bind" and self.tier == "unit" and arguments[1] != IPV6_PROBE:
            return (
                f"{self.test} opened a socket at {arguments[1]!r}. Tests of tests/unit are pure: "
                "move it to tests/run"
            )
        return None


def program_of(event: str, arguments: tuple[Any, ...]) -> str:
    """Return the program name of an audit event."""
    if event == "subprocess.Popen":
        executable, words = arguments[0], arguments[1]
        first = executable or (words if isinstance(words, (str, bytes)) else words[0])
    elif event in ("os.exec", "os.posix_spawn", "os.startfile", "os.system"):
        first = arguments[0]
    else:
        return event
    return Path(os.fsdecode(first)).name


class Guard:
    """The audit hook, and the place of the test that runs in this process."""

    def __init__(self) -> None:
        self.place: Place | None = None
        self.refusals: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.place is not None and (event in STARTS or event == "socket.bind"):
            refusal = self.place.refusal(event, arguments)
            if refusal is not None:
                self.refusals.append(refusal)
                raise Misplaced(refusal)


GUARD = Guard()
sys.addaudithook(GUARD)


def place_of(test: str) -> Place | None:
    """Return the place of a test, ``tests/TIER/...``, or None if it is not below ``tests``."""
    parts = test.partition("::")[0].split("/")
    return Place(parts[1], test) if parts[0] == "tests" else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    GUARD.place = place_of(item.nodeid)
    try:
        return (yield)
    finally:
        GUARD.place = None
        GUARD.refusals.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test whose code has swallowed the refusal."""
    result = yield
    if GUARD.refusals:
        raise Misplaced(GUARD.refusals[0])
    return result
