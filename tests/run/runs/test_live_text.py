"""Live text: the text of rounds before they are over, as watchers of the run get it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from perdure import AsyncClient, Client, InvalidInput, RoundContext, Settings
from perdure.worker.domain.stream import StreamItem
from perdure.worker.engine.live_text import MOST_OF_ROUND, LiveTexts, RoundText
from perdure.worker.operations.event_batches import hear
from perdure.worker.store.fence import Fence
from tests.support.example_flows import live_text  # noqa: F401 -- registers flows
from tests.support.live_texts import answer_texts, texts_of
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.runs import claim, hash_of
from tests.support.runs_in_every_status import play
from tests.support.workflow_effects import let_time_pass

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.live_text",))


def test_a_reader_has_the_text_of_each_round_before_its_commit(
    client: Client, settings: Settings
) -> None:
    run = client.submit("telling", "go")
    play(settings, run.id)
    items = list(client.stream(run.id))
    assert texts_of(items) == answer_texts(client.get(run.id).answer)
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
    assert texts_of(seen) == texts_of(whole) == answer_texts(client.get(run.id).answer)
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
    assert texts_of(items) == answer_texts(client.get(run.id).answer)
    retracted = [(item.step, item.attempt) for item in items if item.type == "retracted"]
    assert {(0, 1), (0, 2), (1, 1), (1, 2)} <= set(retracted)


def test_the_stored_run_is_the_same_whether_it_is_watched_or_not(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored() -> tuple[dict[str, str], list[dict[str, Any]], list[str]]:
        """Return the run's hash and events, byte for byte except for unique values, and its other
        keys.
        """
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
    redis.xadd(key, _entry(3, text="late "))
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


def round_text(client: Client, run_id: str) -> RoundText:
    """Claim the first round of a run, and return its live text."""
    granted = claim(client._store, run_id, known=("telling",))
    return RoundText(LiveTexts(client._store), Fence(run_id, granted.token, granted.id), 0, 1)


def test_a_round_shows_no_more_than_its_bound(client: Client, settings: Settings) -> None:
    run = client.submit("telling", "go")
    text = round_text(client, run.id)
    for _ in range(12):
        text.write("x" * 100_000, "text", "")
    text.write("\ud800 is half a character", "text", "")
    text.end()
    shown = texts_of(client.stream(run.id, follow=False))[0]
    assert MOST_OF_ROUND <= len(shown) <= MOST_OF_ROUND + 100_000


def test_text_that_utf_8_cannot_have_is_replaced(client: Client, settings: Settings) -> None:
    run = client.submit("telling", "go")
    text = round_text(client, run.id)
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


def test_a_run_whose_text_is_damaged_delays_no_text_of_other_runs(
    client: Client, settings: Settings
) -> None:
    damaged, sound = (client.submit("telling", "go").id for _ in range(2))
    client._store.redis.set(client._store.keys.live_text(damaged), "no stream")
    play(settings, sound)
    beginning = dict.fromkeys((damaged, sound), "0-0")
    batches = hear(client._session, beginning, 1, beginning)
    assert batches[sound].texts and batches[sound].events
    assert batches[damaged].events and not batches[damaged].damaged


def test_what_a_stopped_round_shows_is_not_in_the_run_that_takes_its_id(
    client: Client, settings: Settings
) -> None:
    client.submit("telling", "go", run_id="order-1", submitted_by="ann")
    text = round_text(client, "order-1")
    text.write("before the stop", "text", "")
    text.end()
    client.request_stop("order-1", "now")
    text.write("after the stop", "text", "")
    text.end()
    assert texts_of(client.stream("order-1", follow=False)) == {}, "retracted by the stop"
    client.delete("order-1")
    client.submit("telling", "go", run_id="order-1", submitted_by="bob")
    text.write("after the end", "text", "")
    text.end()
    assert [item.type for item in client.stream("order-1", follow=False)] == ["submitted"]


def test_the_example_of_the_guide_prints_the_text(
    client: Client, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    run = client.submit("telling", "go")
    play(settings, run.id)
    guide = (Path(__file__).parents[3] / "docs/guides/remote.md").read_text("utf-8")
    [example] = re.findall(r"```python\n(for item in client\.stream.*?)```", guide, re.DOTALL)
    exec(example, {"client": client, "run": run})
    assert capsys.readouterr().out == "".join(client.get(run.id).answer)


def test_an_async_client_has_the_same_stream(client: Client, settings: Settings) -> None:
    run = client.submit("telling", "go")
    play(settings, run.id)

    async def read() -> list[StreamItem]:
        own = AsyncClient(settings=settings)
        items = [item async for item in own.stream(run.id)]
        await own.close()
        return items

    assert asyncio.run(read()) == list(client.stream(run.id))
