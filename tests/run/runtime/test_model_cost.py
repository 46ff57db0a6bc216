"""The cost of requests to models: prompts that begin alike, other models, the submitter's choice,
and the prompt of a round.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from perdure import Client, InvalidInput, RemoteClient, RunStatus
from tests.support.chat_server import Asked, ChatServer, Fails, Play, Says
from tests.support.example_flows import model_controllers  # noqa: F401 -- registers flows
from tests.support.flow_registry import own_registry
from tests.support.priced_models import ADDS, FINISH, FLOW, REPLIES, InOrder, chat, driver
from tests.support.round_driver import Driver
from tests.support.threaded_server import serving

__all__ = ["chat", "driver"]


def ended(driver: Driver, **options: Any) -> str:
    run = driver.client.submit(FLOW, "add", **options)
    driver.play()
    assert driver.client.get(run.id).status is RunStatus.COMPLETED, driver.client.get(run.id)
    return run.id


def beginnings(play: Play) -> list[str]:
    """Return each request's messages as they went over the wire, without the list's end."""
    return [json.dumps(asked.body["messages"])[:-1] for asked in play.asked]


def test_each_request_begins_with_the_bytes_of_the_one_before_it_until_the_window_drops(
    driver: Driver, chat: ChatServer
) -> None:
    play = chat.play = InOrder([*ADDS, FINISH])
    run_id = ended(driver)
    sent = beginnings(play)
    drops = [
        place for place, (before, now) in enumerate(pairwise(sent), 1) if not now.startswith(before)
    ]
    assert drops == [10, *range(15, REPLIES + 1, 5)], "it drops to half, and not with each reply"
    gaps = [text[text.index("(Here") :][:40] if "(Here" in text else "" for text in sent]
    assert [gap for before, gap in pairwise(gaps) if gap != before] == [
        gaps[place] for place in drops
    ], "the sentence of the gap stays the same between two drops"
    tools = {json.dumps(asked.body["tools"]) for asked in play.asked}
    assert len(tools) == 1

    # The same prompts, made again from the stored data.
    for number, asked in enumerate(play.asked):
        document = driver.client.prompt(run_id, 2 * number)
        assert document["exact"] is True and document["sent"] and document["node"] == "Controller"
        assert [each["role"] for each in document["messages"]] == [
            each["role"] for each in asked.body["messages"]
        ]
        assert [each["text"] for each in document["messages"]] == [
            each["content"] or "" for each in asked.body["messages"]
        ]
        assert [each["name"] for each in document["tools"]] == ["add", "finish"]


class Summing(InOrder):
    """The same, which answers a request for a summary with one, and keeps these requests apart."""

    def __init__(self, script: list[Says], *summaries: Says) -> None:
        super().__init__(script)
        self.summaries = list(summaries)
        self.summed: list[Asked] = []

    def reply_to(self, asked: Asked) -> Says:
        if "Write a summary" in str(asked.body["messages"][-1]["content"]):
            self.summed.append(asked)
            return self.summaries[min(len(self.summed), len(self.summaries)) - 1]
        return self.script[min(len(self.asked) - len(self.summed), len(self.script)) - 1]


def test_a_model_writes_a_summary_in_a_round_of_its_own_before_its_window_drops(
    driver: Driver, chat: ChatServer, client: Client
) -> None:
    summaries = [Says(f"Summary {number}.", tokens=(90, 9)) for number in range(9)]
    play = chat.play = Summing([*ADDS, FINISH], *summaries)
    run = client.submit("compacting", "add")
    driver.play()
    ended_run = client.get(run.id)
    assert ended_run.status is RunStatus.COMPLETED, ended_run.error
    assert len(play.asked) == REPLIES + 1 + len(play.summed) and len(play.summed) >= 6
    summed, written = 0, 0
    texts = [str(asked.body["messages"]) for asked in play.asked]
    for before, now, asked in zip(texts, texts[1:], play.asked, strict=False):
        if asked in play.summed:
            written += 1
            assert f"Summary {written - 1}." in now and "Write a summary" not in now
            assert f"Summary {written - 2}." not in now, "the newest has what the others had"
        elif "Write a summary" in now:
            summed += 1
            assert now.startswith(before[:-1]), "the request for it finds the others in the cache"
        else:
            assert now.startswith(before[:-1])
    assert summed == written == len(play.summed)
    history = client.transcript(run.id)["history"]
    turns = [turn for turn in history if (turn["command"] or {}).get("name") == "summarize"]
    assert [turn["observation"] for turn in turns] == [
        f"Summary {number}." for number in range(len(turns))
    ]
    assert ended_run.details["spent"]["requests"] == len(play.asked)
    steps = [event.step for event in client.events(run.id, follow=False) if "prompt" in event.data]
    assert len(steps) == len(play.asked)
    assert all(client.prompt(run.id, step)["exact"] for step in steps)


@pytest.mark.parametrize("instead", [Says("", [("add", {"a": 1, "b": 1})]), Says(" ")])
def test_a_run_whose_model_writes_no_summary_goes_on_without_one(
    driver: Driver, chat: ChatServer, client: Client, instead: Says
) -> None:
    play = chat.play = Summing([*ADDS[:12], FINISH], instead)
    run = client.submit("compacting", "add")
    driver.play()
    assert client.get(run.id).status is RunStatus.COMPLETED, client.get(run.id).error
    assert len(play.summed) == 1 and len(play.asked) == 12 + 1 + 1
    assert "earlier steps are left out; each of them has been answered.)" in str(
        play.asked[-1].body["messages"]
    )


def test_cached_tokens_are_told_with_the_round_and_with_the_run(
    driver: Driver, chat: ChatServer, client: Client
) -> None:
    chat.play = InOrder([ADDS[0], ADDS[1], FINISH])
    run_id = ended(driver)
    rounds = [event.data for event in client.events(run_id, follow=False) if "model" in event.data]
    assert [data.get("cached_tokens") for data in rounds] == [90, 90, None]
    run = client.get(run_id)
    assert run.to_dict()["details"]["spent"]["cached_tokens"] == 180
    with serving(client.settings) as url:
        page = httpx2.get(f"{url}/runs/{run_id}").text
    assert "180 of them cached" in page and "90 of them cached" in page


def test_a_run_goes_on_with_the_model_that_answered_and_says_so(
    driver: Driver, chat: ChatServer, client: Client
) -> None:
    gone = Fails(404, {"error": {"message": "no such model"}})
    chat.play = Play([ADDS[0], ADDS[1], FINISH], {0: [gone]})
    run_id = ended(driver)
    assert [asked.body["model"] for asked in chat.play.asked] == ["a", "b", "b", "b"]
    rounds = [event.data for event in client.events(run_id, follow=False) if "model" in event.data]
    assert [data.get("fallback") for data in rounds] == [
        "model 'a' answers 404: no such model",
        None,
        None,
    ]


def test_a_submission_chooses_one_of_the_models_that_its_flow_allows(
    driver: Driver, chat: ChatServer, client: Client
) -> None:
    run_id = ended(driver, model="c")
    assert [asked.body["model"] for asked in chat.play.asked] == ["c"]
    assert client.get(run_id).details["model"] == "c"
    with pytest.raises(InvalidInput, match="does not allow the model 'd'; Known: b, c"):
        client.submit(FLOW, "add", model="d")
    with pytest.raises(InvalidInput, match="'countdown' allows no choice of models"):
        client.submit("countdown", "down", model="b")
    same = client.submit(FLOW, "add", model="b", idempotency_key="k")
    assert client.submit(FLOW, "add", model="b", idempotency_key="k").id == same.id
    with serving(client.settings) as url:
        remote = RemoteClient(url)
        try:
            assert remote.submit(FLOW, "add", model="b").details["model"] == "b"
            with pytest.raises(InvalidInput, match="does not allow the model 'd'"):
                remote.submit(FLOW, "add", model="d")
        finally:
            remote.close()
        form = httpx2.get(f"{url}/start", params={"flow": FLOW}).text
        assert '<option value="c">c</option>' in form


def test_the_prompt_of_the_next_round_can_be_seen_and_a_step_without_one_is_told(
    driver: Driver, chat: ChatServer, client: Client
) -> None:
    chat.play = InOrder([ADDS[0], FINISH])
    run = client.submit(FLOW, "add", interrupt_after=["Executor"])
    driver.play()
    document = client.prompt(run.id, 2)
    assert (document["sent"], document["exact"], document["turns"]) == (False, None, 1)
    assert document["messages"][-1] == {
        "role": "tool",
        "call": "call_0_0",
        "name": "add",
        "text": "1",
    }
    with pytest.raises(InvalidInput, match=r"step 1 \(node Executor\) sends nothing.*are 0$"):
        client.prompt(run.id, 1)
    with pytest.raises(InvalidInput, match=r"has 2 committed rounds, so there is no step 9"):
        client.prompt(run.id, 9)
    client.resume(run.id)
    driver.play()
    assert client.prompt(run.id, 2) == {**document, "sent": True, "exact": True}
    with pytest.raises(InvalidInput, match="has 3 committed rounds and has ended"):
        client.prompt(run.id, 3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_long_agent_pays_less_than_a_quarter_for_its_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("anthropic")
    from benchmarks.prompt_cache import FLOW as LONG_AGENT
    from benchmarks.prompt_cache import price_of, run
    from benchmarks.prompt_cache_server import Counted

    own_registry(monkeypatch, LONG_AGENT)
    monkeypatch.setenv("BENCHMARK_KEY", "none")
    counted = run(50, 60_000)
    uncached = [Counted(each.full + each.read + each.written, 0, 0) for each in counted]
    assert len(counted) == 50
    assert price_of(counted) <= 0.25 * price_of(uncached)
    missed = [each for each in counted[2:] if each.written > each.read]
    assert len(missed) <= 1, "the window drops once"
