"""The page of a run: the whole of a long one, each round by itself, and long values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import Client, Run
from perdure.worker.domain.record import pack_turn
from perdure.worker.store import Store
from tests.support.browser import browsing, chromium, grave_findings
from tests.support.page_visitor import Visitor, sound

TRACEBACK = """ValueError: no such till
  File "flows/till.py", line 12, in pay
    charge(amount)
  (3 of Perdure, Python and libraries, last httpx/_client.py:88 in send)
"""


def long_run(client: Client, store: Store, rounds: int) -> Run:
    """A run with so many rounds in its event stream; every thousandth failed once before."""
    run = client.submit("countdown", "A long one", {"rounds": rounds})
    at = int(run.created_at.timestamp() * 1000)
    with store.redis.pipeline(transaction=False) as pipe:
        for step in range(rounds):
            node = ("Controller", "Executor")[step % 2]
            frame = {"step": step, "node": node, "attempt": 1, "at": at + 50 * step + 50}
            if step % 1000 == 999:
                more = {"type": "failed", "error": "no such till", "retry_in": 10}
                pipe.xadd(store.keys.events(run.id), {**frame, **more, "traceback": TRACEBACK})
            data: dict[str, Any] = {
                "command": "pay",
                "args": json.dumps({"amount": step, "to": "Ann, of the till"}),
                "tokens": 1200,
                "money": 0.01,
            }
            if node == "Executor":
                data["observation"] = f"paid {step}\nreceipt {step}"
            entry = {**frame, "type": "committed", "took": 30, "data": json.dumps(data)}
            pipe.xadd(store.keys.events(run.id), entry)
        pipe.hset(store.keys.run(run.id), "step", rounds)
        pipe.execute()
    return run


def add_turn(store: Store, run: Run, args: Any, observation: Any) -> str:
    """A run's next turn, with its round's event; the digest of the observation."""
    from perdure.flows.outcomes import Command, Turn
    from perdure.flows.summaries import digest, shown

    at = int(run.created_at.timestamp() * 1000) + 100
    store.redis.rpush(
        store.keys.memory(run.id), pack_turn(Turn(Command("pay", args), observation), run.id)
    )
    data = {
        "command": "pay",
        "args": shown(args),
        "observation": shown(observation),
        "digest": digest(observation),
    }
    entry = {"type": "committed", "at": at, "step": 1, "attempt": 2, "node": "Executor", "took": 9}
    store.redis.xadd(store.keys.events(run.id), {**entry, "data": json.dumps(data)})
    store.redis.hset(store.keys.run(run.id), mapping={"turns": 1, "step": 2})
    return digest(observation)


def test_a_long_run_is_shown_as_a_whole_and_any_step_is_one_link_away(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = long_run(client, live_store, 2000)
    first = sound(visitor.see(f"/runs/{run.id}"))
    (later,) = [link for link in first.links if "part=strip" in link]
    page = sound(visitor.see(later))
    assert "2,000 rounds in" in page.html and "2 failures" in page.text
    parts = [link for link in page.links if link.endswith("#rounds") and "before=" in link]
    assert len(parts) >= 30 and "{&#34;amount&#34;: 1998" in page.html
    middle = sound(visitor.see(parts[20]))
    assert "Earlier rounds" in middle.text and "Newest" in middle.text
    there = visitor.see(f"/runs/{run.id}?step=1200")
    steps = [link for link in there.links if "/steps/" in link and link.endswith("/1200")]
    assert steps and not [link for link in there.links if link.endswith("/steps/1201")]
    rows = visitor.see(f"/runs/{run.id}?part=rows&step=50")
    assert "<html" not in rows.html and "Older" not in rows.html


def test_rows_are_dense_or_comfortable_and_the_browser_remembers(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = long_run(client, live_store, 30)
    assert 'class="rows dense"' not in visitor.see(f"/runs/{run.id}").html
    assert 'class="rows dense"' in visitor.see(f"/runs/{run.id}?rows=dense").html
    assert 'class="rows dense"' in visitor.see(f"/runs/{run.id}").html


def test_a_round_shows_its_attempts_its_command_and_its_traceback_with_folded_frames(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = client.submit("countdown", "g")
    at = int(run.created_at.timestamp() * 1000)
    decided = {"command": "pay", "args": json.dumps({"to": "Ann", "text": "first\nsecond"})}
    frame: dict[str, Any] = {"step": 0, "attempt": 1, "node": "Controller", "at": at + 5}
    key = live_store.keys.events(run.id)
    live_store.redis.xadd(
        key, {**frame, "type": "committed", "took": 5, "data": json.dumps(decided)}
    )
    frame = {"step": 1, "attempt": 1, "node": "Executor", "at": at + 50}
    failed = {"type": "failed", "error": "no such till", "retry_in": 10, "traceback": TRACEBACK}
    live_store.redis.xadd(key, {**frame, **failed})
    live_store.redis.hset(live_store.keys.run(run.id), "step", 1)
    page = sound(visitor.see(f"/runs/{run.id}/steps/1"))
    assert "no such till" in page.text and "flows/till.py" in page.text
    assert "3 frames of Perdure, Python and libraries" in page.text and "(3 of" not in page.text
    assert "first\nsecond" in page.html and "Step 0 chose it" in page.text
    add_turn(live_store, run, {"to": "Ann"}, "paid")
    page = sound(visitor.see(f"/runs/{run.id}/steps/1"))
    assert page.headings.count("Attempt 1") == page.headings.count("Attempt 2") == 1
    assert visitor.see(f"/runs/{run.id}/steps/99").status == 422


def test_an_observation_is_a_tree_or_text_and_a_file(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = client.submit("countdown", "g")
    found = {"lines": ["one\ntwo", True, None], "deep": {"n": 3}}
    digest = add_turn(live_store, run, {"to": "Ann", "how": {"fast": True}}, found)
    page = sound(visitor.see(f"/runs/{run.id}/turns/{digest}"))
    assert "one\ntwo" in page.html and "3 entries" in page.text and "As text" in page.text
    (link,) = [link for link in page.links if link.endswith("/observation")]
    file = visitor.see(link)
    assert json.loads(file.html) == found
    assert visitor.see(f"/runs/{run.id}/turns/0123456789abcdef").status == 404


def test_a_huge_observation_comes_in_parts(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = client.submit("countdown", "g")
    digest = add_turn(live_store, run, {}, "0123456789abcde\n" * 131_072)
    page = sound(visitor.see(f"/runs/{run.id}/turns/{digest}"))
    assert len(page.html) < 400_000 and "of 2,097,152" in page.text
    (later,) = [link for link in page.links if "begins=200000" in link]
    assert "Characters 200,001 to 400,000" in sound(visitor.see(later)).text


@pytest.mark.slow
def test_a_run_of_10000_rounds_loads_a_hundred_and_scrolls_to_the_others(
    url: str, client: Client, live_store: Store
) -> None:
    run = long_run(client, live_store, 10_000)
    other = client.submit("countdown", "g")
    digest = add_turn(live_store, other, {}, {"log": ["0123456789abcdef " * 60] * 2000})
    short = long_run(client, live_store, 30)
    with chromium() as browser, browsing(browser, url) as page:
        for address in (f"/runs/{short.id}?rows=comfortable", f"/runs/{short.id}/steps/3"):
            page.goto(address)
            assert grave_findings(page) == []
        page.goto(f"/runs/{run.id}", wait_until="domcontentloaded")
        assert page.locator("li.row").count() == 100
        page.locator("figure.strip .window").wait_for()
        for rows in (200, 300):
            page.locator("a.older:visible").last.scroll_into_view_if_needed()
            page.locator("li.row").nth(rows - 1).wait_for()
        steps = page.locator("li.row .step a").all_text_contents()
        numbers = [int(text.split()[-1]) for text in steps]
        assert numbers == sorted(numbers, reverse=True) and len(set(numbers)) >= 299
        page.goto(f"/runs/{other.id}/turns/{digest}", wait_until="domcontentloaded")
        page.locator("#as-text summary").click()
        page.locator("#observation-text pre").first.scroll_into_view_if_needed()
