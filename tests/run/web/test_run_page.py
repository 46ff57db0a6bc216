"""The page of a run: the whole of a long one, each round by itself, and long values."""

from __future__ import annotations

import json
import re
from typing import Any

from perdure import Client
from perdure.worker.store import Store
from tests.support.long_run import TRACEBACK, add_turn, long_run
from tests.support.page_visitor import Visitor, sound
from tests.support.runs import claim, commit, commit_next, fail_round, made, sweep

KNOWN = ("countdown",)


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


def test_a_step_that_failed_twice_is_one_link_with_the_number_of_its_failures(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = client.submit("countdown", "g", {"rounds": 3})
    commit_next(live_store, claim(live_store, run.id, known=KNOWN), "Executor")
    for _ in range(2):
        fail_round(live_store, claim(live_store, run.id, known=KNOWN), delay=0)
        sweep(live_store, made={run.id: made(live_store, run.id)})
    text = sound(visitor.see(f"/runs/{run.id}")).text
    failures = text.partition("Newest failures: ")[2]
    assert failures.startswith("step 1 (2 failures) ")


def test_an_attempt_whose_equal_traceback_is_stored_once_links_to_it(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = client.submit("countdown", "g", {"rounds": 3})
    commit_next(live_store, claim(live_store, run.id, known=KNOWN), "Executor")
    other = TRACEBACK.replace("12", "13")
    for traceback in (TRACEBACK, TRACEBACK, other, other, ""):
        raised = {"traceback": traceback} if traceback else {}
        error = "no such till" if traceback else "no till at all"
        granted = claim(live_store, run.id, known=KNOWN)
        commit(live_store, granted, "failed", error=error, delay=0, max_failures=9, **raised)
        sweep(live_store, made={run.id: made(live_store, run.id)})
    first, _, third, *_ = [
        event.id for event in client.events(run.id, follow=False) if event.type == "failed"
    ]
    page = sound(visitor.see(f"/runs/{run.id}/steps/1"))
    attempts = re.findall(
        r'<section class="panel" aria-label="Attempt (\d)">(.*?)</section>', page.html, re.DOTALL
    )
    links = {int(number): re.findall(r'href="#(tb-[^"]+)"', html) for number, html in attempts}
    assert links == {1: [], 2: [f"tb-{first}"], 3: [], 4: [f"tb-{third}"], 5: []}
    assert page.html.count(f'id="tb-{first}"') == page.html.count(f'id="tb-{third}"') == 1
    assert "The traceback is the same as in attempt 1 ." in page.text


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
