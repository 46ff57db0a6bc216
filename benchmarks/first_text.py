"""When the first text of a model reaches those who watch: ``python -m benchmarks.first_text``.

A server with OpenAI's protocol begins its reply after a delay, and a worker asks it. Clients follow
the run over HTTP. Both servers and the worker are processes of their own. Each figure is from the
submission of a run to the first text at a client. It is compared with a client that asks the
model's server itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import time
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2

from benchmarks.processes import process, python, until
from benchmarks.redis_server import redis_server
from benchmarks.sides.perdure import alive, worker_command
from perdure import Client, ControllerExecutorFlow, Settings, register
from perdure.flows.controllers.model import ModelController
from tests.support.ports import free_port

MODULE = "benchmarks.first_text"
FLOW = "first_text"
#: Pieces of the reply, and seconds between two pieces.
PIECES, PAUSE = 50, 0.01


@register(FLOW)
class Talker(ControllerExecutorFlow):
    """Lets a model talk."""

    controller = ModelController()


def main() -> None:
    """Measure, and print the medians."""
    parser = argparse.ArgumentParser("python -m benchmarks.first_text", description=__doc__)
    parser.add_argument("--delay", type=float, default=0.5, help="seconds until the model begins")
    parser.add_argument("--clients", type=int, default=50, help="of each run (default 50)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--serve-model", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_model:
        serve_model(options.serve_model, options.delay)
        return
    with ExitStack() as stack:
        port, delay = free_port(), str(options.delay)
        model = python("-m", MODULE, "--serve-model", str(port), "--delay", delay)
        stack.enter_context(process(model))
        until(lambda: is_open(port), "the model's server")
        model_url = f"http://127.0.0.1:{port}/v1"
        server = stack.enter_context(redis_server("everysec"))
        settings = Settings(redis_url=server.url, flow_modules=(MODULE,))
        client = stack.enter_context(closing(Client(settings=settings)))
        environment = {
            "PERDURE_REDIS_URL": server.url,
            "PERDURE_FLOW_MODULES": MODULE,
            "PERDURE_MODEL": "talker",
            "PERDURE_MODEL_URL": model_url,
        }
        stack.enter_context(process(worker_command("--pool", "threads"), **environment))
        until(lambda: alive(client) >= 1, "the worker")
        port = free_port()
        stack.enter_context(
            process(python("-m", "perdure", "server", "--port", str(port)), **environment)
        )
        until(lambda: is_open(port), "the server of the API")
        url = f"http://127.0.0.1:{port}"
        asyncio.run(watch(client, url, 1))  # The first round opens the client of the provider.
        own = statistics.median(asyncio.run(ask(model_url)) for _ in range(options.runs))
        print(f"the model's own first text: {own * 1000:.0f} ms")
        for clients in (1, options.clients):
            firsts, texts = [], set()
            for _ in range(options.runs):
                for text, first in asyncio.run(watch(client, url, clients)):
                    firsts.append(first)
                    texts.add(text)
            median, last = statistics.median(firsts), max(firsts)
            print(
                f"at {clients} clients: median {median * 1000:.0f} ms ({median / own:.2f} x), "
                f"the last {last * 1000:.0f} ms ({last / own:.2f} x); {len(texts)} different texts"
            )


async def ask(model_url: str) -> float:
    """Return the seconds until the model server's first text.

    The benchmark asks that server itself.
    """
    first = 0.0
    async with httpx2.AsyncClient(timeout=60) as http:
        began = time.monotonic()
        body = {"model": "talker", "messages": []}
        async with http.stream("POST", f"{model_url}/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    first = first or time.monotonic() - began
    return first


async def watch(client: Client, url: str, clients: int) -> list[tuple[str, float]]:
    """Submit a run.

    For each client, return the whole text and the seconds until its first piece.
    """
    limits = httpx2.Limits(max_connections=clients)
    async with httpx2.AsyncClient(timeout=60, limits=limits) as http:
        began = time.monotonic()
        run = await asyncio.to_thread(client.submit, FLOW, "talk")
        path = f"{url}/api/v1/runs/{run.id}/stream"
        return await asyncio.gather(*(_follow(http, path, began) for _ in range(clients)))


async def _follow(http: httpx2.AsyncClient, path: str, began: float) -> tuple[str, float]:
    text, first = "", 0.0
    headers = {"accept": "text/event-stream"}
    async with http.stream("GET", path, headers=headers) as response:
        async for line in response.aiter_lines():
            if line == "event: end":
                break
            if not line.startswith('data: {"'):
                continue
            item = json.loads(line[6:])
            if item.get("type") == "text" and item["kind"] == "text":
                first = first or time.monotonic() - began
                text += item["text"]
    return text, first


def is_open(port: int) -> bool:
    """Return whether a server listens on this loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def serve_model(port: int, delay: float) -> None:
    """Serve OpenAI's protocol. Each reply begins after a delay (seconds)."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            time.sleep(delay)
            for number in range(PIECES):
                self._send({"role": "assistant", "content": f"word {number} "})
                time.sleep(PAUSE)
            self._send({}, "stop")
            self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

        def _send(self, delta: dict[str, Any], finish: str | None = None) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "talker"}
            self.wfile.write(f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n".encode())
            self.wfile.flush()

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
