"""Live text of the rounds of worker processes, over HTTP and on a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from perdure import Client, RemoteClient, Settings
from perdure.worker.domain.stream import StreamItem
from tests.support.example_flows import live_text  # noqa: F401 -- registers flows
from tests.support.live_texts import answer_texts, texts_of
from tests.support.redis_servers import until
from tests.support.terminal import terminal
from tests.support.threaded_server import serving
from tests.support.workers import workers

MODULE = "tests.support.example_flows.live_text"

pytestmark = pytest.mark.settings(flow_modules=(MODULE,))


@pytest.fixture
def remote(client: Client, settings: Settings) -> Iterator[RemoteClient]:
    with serving(settings) as url, closing(RemoteClient(url)) as made:
        yield made


def test_over_http_the_text_comes_as_it_is_shown(
    client: Client, remote: RemoteClient, settings: Settings, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    run = client.submit("telling", "go", {"gate": str(gate), "fails": 1, "words": 10})
    with workers(1, settings, PERDURE_FLOW_MODULES=MODULE) as [worker]:
        items = remote.stream(run.id)
        seen: list[StreamItem] = []
        while texts_of(seen).get(0, "").count(" ") < 6:
            seen.append(next(items))
        assert client.get(run.id).state.step == 0, "the round is not over"
        worker.kill()
    gate.unlink()
    with workers(1, settings, PERDURE_FLOW_MODULES=MODULE):
        seen += list(items)
    assert texts_of(seen) == answer_texts(client.get(run.id).answer)
    assert any(item.type == "retracted" for item in seen)


async def watched(url: str, run_id: str, cut_after: int = 0) -> tuple[list[StreamItem], int]:
    """Return a client's items over HTTP, and the number of cuts of its connection: one after each
    ``cut_after`` items.
    """
    items: list[StreamItem] = []
    cuts = 0
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        while True:
            headers = {"accept": "text/event-stream"} | (
                {"last-event-id": items[-1].id} if items else {}
            )
            path, came = f"/api/v1/runs/{run_id}/stream", 0
            async with http.stream("GET", path, headers=headers) as response:
                if response.status_code == 204:
                    return items, cuts
                async for line in response.aiter_lines():
                    if line == "event: end":
                        return items, cuts
                    if line.startswith("data: {"):
                        items.append(StreamItem.from_dict(json.loads(line[6:])))
                        came += 1
                        if came == cut_after:
                            cuts += 1
                            break


@pytest.mark.slow
def test_fifty_watchers_have_the_same_text_and_so_has_one_that_is_cut_fifty_times(
    client: Client, settings: Settings
) -> None:
    run = client.submit("telling", "go", {"words": 30, "pause": 0.03})

    async def watch(url: str) -> list[tuple[list[StreamItem], int]]:
        return await asyncio.gather(
            watched(url, run.id, 1), *(watched(url, run.id) for _ in range(50))
        )

    with serving(settings) as url, workers(1, settings, PERDURE_FLOW_MODULES=MODULE):
        (cut, cuts), *others = asyncio.run(watch(url))
    answer = answer_texts(client.get(run.id).answer)
    assert cuts >= 50 and texts_of(cut) == answer
    assert [texts_of(items) for items, _ in others] == [answer] * 50
    ids = [item.id for item in cut if item.type != "retracted"]
    assert ids == sorted(set(ids), key=ids.index), "nothing comes twice"


@pytest.mark.slow
@pytest.mark.parametrize("over_http", [False, True])
def test_watch_shows_the_text_of_the_round_in_flight_on_a_terminal(
    over_http: bool, client: Client, settings: Settings, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    run = client.submit("telling", "go", {"gate": str(gate), "fails": 99, "words": 10})
    with serving(settings) as url, workers(1, settings, PERDURE_FLOW_MODULES=MODULE):
        environment = {
            name: text for name, text in os.environ.items() if not name.startswith("PERDURE_")
        }
        environment |= {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        environment |= {
            "PERDURE_REDIS_URL": settings.redis_url or "",
            "PERDURE_PREFIX": settings.prefix,
        }
        command = [
            sys.executable,
            "-m",
            "perdure",
            "watch",
            run.id,
            *(["--url", url] if over_http else []),
        ]
        with terminal(command, tmp_path, environment) as screen:
            until(lambda: "0.4 0.5" in screen.text, "the text of the round in flight", 60)
            assert client.get(run.id).state.step == 0, "the round is not over"
            gate.unlink()
            client.request_stop(run.id, "now")
            until(lambda: screen.process.poll() is not None, "the end of the view")
