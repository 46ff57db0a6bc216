"""Live text: what rounds show before they are over, as those get it who watch the run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from perdure import AsyncClient, Client, InvalidInput, RemoteClient, RoundContext, Settings
from perdure.worker.domain.stream import StreamItem
from perdure.worker.engine.live_text import MOST_OF_ROUND, LiveTexts, RoundText
from perdure.worker.store.live_text import LiveTextRecords
from tests.support.example_flows import live_text  # noqa: F401 -- registers flows
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.runs import hash_of
from tests.support.runs_in_every_status import play
from tests.support.terminal import terminal
from tests.support.threaded_server import serving
from tests.support.workers import workers
from tests.support.workflow_effects import let_time_pass

MODULE = "tests.support.example_flows.live_text"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"flow_modules": (MODULE,)})


def texts_of(items: Iterable[StreamItem]) -> dict[int, str]:
    """The text of each step, as a reader has it who does what the items say."""
    texts: dict[int, str] = {}
    for item in items:
        assert item.type != "trimmed"
        if item.type == "retracted":
            texts.pop(item.step, None)
        elif item.type == "text":
            texts[item.step] = texts.get(item.step, "") + item.text
    return texts


def told(answer: list[str]) -> dict[int, str]:
    return dict(enumerate(answer))


def test_a_reader_has_the_text_of_each_round_before_its_commit(
    client: Client, settings: Settings
) -> None:
    run = client.submit("telling", "go")
    play(settings, run.id)
    items = list(client.stream(run.id))
    assert texts_of(items) == told(client.get(run.id).answer)
    kinds = [item.type for item in items]
    assert kinds[-1] == "completed" and kinds.count("committed") == 2
    first, second = (place for place, kind in enumerate(kinds) if kind == "committed")
    assert {item.step for item in items[:first] if item.type == "text"} == {0}
    assert {item.step for item in items[first:second] if item.type == "text"} == {1}
    assert [each.id for each in client.events(run.id)] == [
        item.id.partition("/")[0] for item in items if item.type != "text"
    ]


def test_a_stream_that_is_cut_behind_each_item_comes_to_the_same_text(
    client: Client, settings: Settings
) -> None:
    run = client.submit("telling", "go", {"words": 50, "rounds": 3})
    play(settings, run.id)
    whole = list(client.stream(run.id))
    after, seen = None, []
    while (item := next(client.stream(run.id, after, follow=False), None)) is not None:
        seen.append(item)
        after = item.id
    assert texts_of(seen) == texts_of(whole) == told(client.get(run.id).answer)
    assert [item.type for item in seen if item.type != "retracted"] == [item.type for item in whole]


def test_what_an_attempt_has_shown_that_failed_is_retracted(
    client: Client, driver: Driver, tmp_path: Path
) -> None:
    run = client.submit("telling", "go", {"gate": str(tmp_path / "none"), "fails": 2})

    def has_ended() -> bool:
        driver.sweep_and_play()
        let_time_pass(driver)
        return client.get(run.id).status.ended

    until(has_ended, "the end of the run", 60)
    items = list(client.stream(run.id))
    assert texts_of(items) == told(client.get(run.id).answer)
    retracted = [(item.step, item.attempt) for item in items if item.type == "retracted"]
    assert {(0, 1), (0, 2), (1, 1), (1, 2)} <= set(retracted)


def test_the_stored_run_is_the_same_whether_it_is_watched_or_not(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored() -> tuple[dict[str, str], list[dict[str, Any]], list[str]]:
        """The run's hash and events, byte for byte but for what no two runs share, and its other keys."""
        run = client.submit("telling", "go", {"words": 5})
        play(settings, run.id)
        store = client._store
        own = ("id", "nonce", "token", "last_token")
        fields = {
            name: text.replace(run.id, "RUN")
            for name, text in hash_of(store, run.id).items()
            if name not in own and not name.endswith("_at")
        }
        events = [
            {name: told[name] for name in told if name not in ("id", "at", "worker")}
            for told in (event.to_dict() for event in client.events(run.id))
        ]
        for told in events:
            told["data"] = {key: each for key, each in told["data"].items() if key != "took"}
        text = store.keys.live_text(run.id)
        keys = [key.replace(run.id, "RUN") for key in store.redis.keys("*") if run.id in key]
        return fields, events, sorted(set(keys) - {text.replace(run.id, "RUN")})

    streamed = stored()
    assert len(streamed[0]) > 20
    monkeypatch.setattr(RoundContext, "stream", lambda *_: None)
    assert stored() == streamed


def test_the_text_is_gone_with_the_run_and_by_itself(client: Client, settings: Settings) -> None:
    run = client.submit("telling", "go")
    play(settings, run.id)
    key = client._store.keys.live_text(run.id)
    assert 0 < client._store.redis.pttl(key) <= 3_600_000
    client.delete(run.id)
    assert not client._store.redis.exists(key)


def test_text_that_is_trimmed_is_named(client: Client, settings: Settings) -> None:
    run = client.submit("telling", "go", {"rounds": 1})
    play(settings, run.id)
    redis, key = client._store.redis, client._store.keys.live_text(run.id)
    LiveTextRecords(client._store).append(run.id, [_entry(3, text="late ")], 10**13)
    kinds = [item.type for item in client.stream(run.id)]
    assert "trimmed" in kinds, "entries 1 and 2 are missing"
    assert redis.xlen(key) >= 2


def _entry(number: int, **fields: str) -> dict[str, Any]:
    return {"step": 0, "attempt": 1, "number": number, "kind": "text", "part": "", **fields}


def test_a_position_that_is_none_is_refused(client: Client, settings: Settings) -> None:
    run = client.submit("telling", "go")
    for wrong in ("", "1", "1-1", "1-1/x", "1-1/2-2/3-3"):
        with pytest.raises(InvalidInput, match="expected the id of an item"):
            client.stream(run.id, wrong)


def test_a_round_shows_no_more_than_its_bound(client: Client, settings: Settings) -> None:
    run = client.submit("telling", "go")
    text = RoundText(LiveTexts(client._store), run.id, 0, 1, client._store.time())
    for _ in range(12):
        text.write("x" * 100_000, "text", "")
    text.write("\ud800 is half a character", "text", "")
    text.end()
    shown = texts_of(client.stream(run.id, follow=False))[0]
    assert MOST_OF_ROUND <= len(shown) <= MOST_OF_ROUND + 100_000


def test_text_that_utf_8_cannot_have_is_replaced(client: Client, settings: Settings) -> None:
    run = client.submit("telling", "go")
    text = RoundText(LiveTexts(client._store), run.id, 0, 1, client._store.time())
    text.write("\ud800 half", "text", "")
    text.end()
    assert texts_of(client.stream(run.id, follow=False)) == {0: "? half"}


def test_a_round_goes_on_if_its_text_cannot_be_written(
    client: Client, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    run = client.submit("telling", "go")
    client._store.redis.set(client._store.keys.live_text(run.id), "no stream")
    play(settings, run.id)
    assert client.get(run.id).status.ended
    assert "its text is not shown any more" in caplog.text


def test_the_example_of_the_guide_prints_the_text(
    client: Client, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    run = client.submit("telling", "go")
    play(settings, run.id)
    guide = (Path(__file__).parents[2] / "docs/guides/remote.md").read_text("utf-8")
    [example] = re.findall(r"```python\n(for item in client\.stream.*?)```", guide, re.DOTALL)
    exec(example, {"client": client, "run": run})
    assert capsys.readouterr().out == "".join(client.get(run.id).answer)


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
    assert texts_of(seen) == told(client.get(run.id).answer)
    assert any(item.type == "retracted" for item in seen)


def test_an_async_client_has_the_same_stream(client: Client, settings: Settings) -> None:
    run = client.submit("telling", "go")
    play(settings, run.id)

    async def read() -> list[StreamItem]:
        own = AsyncClient(settings=settings)
        items = [item async for item in own.stream(run.id)]
        await own.close()
        return items

    assert asyncio.run(read()) == list(client.stream(run.id))


async def watched(url: str, run_id: str, cut_after: int = 0) -> tuple[list[StreamItem], int]:
    """What a client received over HTTP, and how often its connection was cut: after each ``cut_after`` items."""
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
    answer = told(client.get(run.id).answer)
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
