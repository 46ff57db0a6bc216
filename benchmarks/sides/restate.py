"""Restate: its server (a Rust program from npm) with its defaults, its Python SDK under hypercorn.

- steps: a run is one invocation, and each round a durable step (ctx.run) in it.
- queued: each round is an invocation that sends the next one.

There are as many SDK processes as cores. Each is a separate deployment with a separate service, and
runs go to them in turns. Otherwise all invocations would share one HTTP/2 connection, and so one
process. Runs are sent through the server's ingress over one connection that stays open. The server
syncs its log at every commit, for many runs at once. Telemetry is off. The end of a run is reported
from within its last round, so the record of that one is not waited for. This favours Restate.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.processes import process, python, until
from benchmarks.sides.self_report import NUMBER, Told, lacking
from benchmarks.sides.side import Session, Side
from benchmarks.tally import Tally, tell_ready
from benchmarks.work import Work, state_after
from tests.support.ports import free_ports

#: The server's program, if it is neither on PATH nor installed by `make bench`.
PROGRAM = "RESTATE_SERVER"


@dataclass(frozen=True)
class Restate(Side):
    """Restate; ``handler`` is a handler of restate_worker.py: one_round or all_rounds."""

    handler: str = "all_rounds"
    share: ClassVar[float] = 0.5

    def missing(self) -> str | None:
        return missing_parts()

    @contextmanager
    def up(self, work: Work, tally: Tally) -> Iterator[Session]:
        with ExitStack() as stack:
            server = stack.enter_context(restate_server())
            ports = free_ports(work.processes)
            workers = []
            for number, port in enumerate(ports):
                command = python("-m", "benchmarks.sides.restate_worker", str(port))
                workers.append(
                    stack.enter_context(
                        process(command, **tally.environment, **{NUMBER: str(number)})
                    ).pid
                )
            until(lambda: tally.ready == len(workers), "Restate's services")
            server.register(ports)
            entrance = stack.enter_context(server.entrance())
            turns = count()

            def begin(runs: int) -> None:
                for _ in range(runs):
                    send(
                        entrance,
                        f"/runs{next(turns) % work.processes}/{self.handler}/send",
                        {"state": state_after(0, work.size), "done": 0, "rounds": work.rounds},
                    )

            yield Told(workers, [server.pid], tally=tally, begin=begin)


def missing_parts() -> str | None:
    """Return the missing part of Restate, as a sentence.

    The result is None if nothing is missing.
    """
    if program() is None:
        return (
            "restate-server is missing: neither on PATH nor in .venv/npm "
            "(npm install --prefix .venv/npm @restatedev/restate-server)"
        )
    return lacking("restate", "hypercorn")


@dataclass(frozen=True)
class RestateServer:
    """A server of Restate that answers.

    Attributes:
        pid: Its process.
        ingress: The port that takes invocations.
        admin: The port at which services are registered.
    """

    pid: int
    ingress: int
    admin: int

    def register(self, ports: Sequence[int]) -> None:
        """Tell the server of the services at these ports."""
        for port in ports:
            until(
                lambda port=port: registered(self.admin, port),  # type: ignore[misc]
                "Restate's services",
                every=0.05,
            )

    @contextmanager
    def entrance(self) -> Iterator[http.client.HTTPConnection]:
        """Open a connection for ``send``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ingress, timeout=30)
        with closing(connection):
            yield connection


@contextmanager
def restate_server() -> Iterator[RestateServer]:
    """Start a server with defaults, and stop it afterwards. It has its own directory."""
    with ExitStack() as stack:
        directory = tempfile.mkdtemp(prefix="restate-")
        stack.callback(shutil.rmtree, directory)
        node, ingress, admin = free_ports(3)
        settings = {
            "RESTATE_BASE_DIR": directory,
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_LOG_FILTER": "error",
        }
        server = program()
        assert server is not None
        running = stack.enter_context(process([server, "--no-logo"], **settings))
        until(
            lambda: answers(admin, "/health") and answers(ingress, "/restate/health"),
            "Restate's server",
            every=0.05,
        )
        yield RestateServer(running.pid, ingress, admin)


async def serve_restate(app: Any, port: int) -> None:
    """Serve an app of Restate's SDK until killed.

    It listens at ``port``, and reports that it is ready.
    """
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.accesslog = config.errorlog = None
    asyncio.get_running_loop().call_soon(tell_ready)
    await serve(app, config)


def send(connection: http.client.HTTPConnection, path: str, body: Any) -> None:
    """Send an invocation, without waiting for its end."""
    status = ask(connection, "POST", path, json.dumps(body))
    assert status in (200, 202), f"Restate answered {status} to {path}"


def program() -> Path | None:
    """Return the server's program.

    The command of the npm package is a script around it, so the program itself is used.
    """
    named, on_path = os.environ.get(PROGRAM), shutil.which("restate-server")
    installed = sorted(
        Path(sys.prefix, "npm", "node_modules", "@restatedev").glob(
            "restate-server-*/bin/restate-server"
        )
    )
    return (
        Path(named) if named else installed[0] if installed else Path(on_path) if on_path else None
    )


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None
) -> int:
    """Return the status of the response."""
    connection.request(method, path, body, {"content-type": "application/json"} if body else {})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def answers(port: int, path: str) -> bool:
    """Return whether a server there responds with 200."""
    return _asked(port, "GET", path) == 200


def registered(admin: int, port: int) -> bool:
    """Return whether the server knows the service at ``port``."""
    return _asked(
        admin, "POST", "/deployments", json.dumps({"uri": f"http://127.0.0.1:{port}"})
    ) in (200, 201)


def _asked(port: int, method: str, path: str, body: str | None = None) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        return ask(connection, method, path, body)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
