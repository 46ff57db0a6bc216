"""Restate: its server (a Rust program from npm) with its defaults, its Python SDK under hypercorn.

- steps: a run is one invocation, and each round a durable step (ctx.run) of it.
- queued: each round is an invocation that sends the next one.

There are as many SDK processes as cores. Each is a separate deployment with a separate service, and
runs go to them in turns. Otherwise all invocations would share one HTTP/2 connection, and so one
process. Runs are sent through the server's ingress over one connection that stays open. The server
syncs its log at every commit, for many runs at once. Telemetry is off. The end of a run is reported
from within its last round, so the record of that one is not waited for. This favours Restate.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar

from benchmarks.processes import process, python, until
from benchmarks.sides.self_report import NUMBER, Told, lacking
from benchmarks.sides.side import Session, Side
from benchmarks.tally import Tally
from benchmarks.work import Work, state_after

#: The server's program, if it is neither on PATH nor installed by `make bench`.
PROGRAM = "RESTATE_SERVER"


@dataclass(frozen=True)
class Restate(Side):
    """Restate; ``handler`` names what is invoked, of restate_worker.py: one_round or all_rounds."""

    handler: str = "all_rounds"
    share: ClassVar[float] = 0.5

    def missing(self) -> str | None:
        if program() is None:
            return (
                "restate-server is missing: neither on PATH nor in .venv/npm "
                "(npm install --prefix .venv/npm @restatedev/restate-server)"
            )
        return lacking("restate", "hypercorn")

    @contextmanager
    def up(self, work: Work, tally: Tally) -> Iterator[Session]:
        with ExitStack() as stack:
            directory = tempfile.mkdtemp(prefix="restate-")
            stack.callback(shutil.rmtree, directory)
            node, ingress, admin, *ports = free_ports(3 + work.processes)
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
            workers = []
            for number, port in enumerate(ports):
                command = python("-m", "benchmarks.sides.restate_worker", str(port))
                workers.append(
                    stack.enter_context(
                        process(command, **tally.environment, **{NUMBER: str(number)})
                    ).pid
                )
            until(
                lambda: answers(admin, "/health") and answers(ingress, "/restate/health"),
                "Restate's server",
                every=0.05,
            )
            until(lambda: tally.ready == len(workers), "Restate's services")
            for port in ports:
                until(lambda port=port: registered(admin, port), "Restate's services", every=0.05)  # type: ignore[misc]
            entrance = http.client.HTTPConnection("127.0.0.1", ingress, timeout=30)
            stack.callback(entrance.close)
            turns = count()

            def begin(runs: int) -> None:
                for _ in range(runs):
                    body = json.dumps(
                        {"state": state_after(0, work.size), "done": 0, "rounds": work.rounds}
                    )
                    path = f"/runs{next(turns) % work.processes}/{self.handler}/send"
                    said = ask(entrance, "POST", path, body)
                    assert said in (200, 202), f"Restate answered {said} to {path}"

            yield Told(workers, [running.pid], tally=tally, begin=begin)


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


def free_ports(number: int) -> list[int]:
    """Return ``number`` free ports of this machine."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


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
    """Return whether the server knows the service at ``port`` now."""
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
