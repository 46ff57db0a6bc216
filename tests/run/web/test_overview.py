"""The overview, the comparison of two runs, a run submitted again, and shortcuts."""

from __future__ import annotations

import json
import re

from perdure import Client, RunStatus
from perdure.worker.store import Store
from tests.support.example_flows import costs_and_questions  # noqa: F401 (registers the thinker)
from tests.support.in_process_runtime import runtime_of
from tests.support.page_visitor import Visitor, sound
from tests.support.runs import claim, commit, commit_end, fail_round

KNOWN = ("countdown",)


def test_the_first_page_says_what_needs_attention_and_what_has_ended(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    empty = sound(visitor.see("/"))
    assert empty.url.endswith("/overview") and "Nothing needs attention" in empty.text
    good = client.submit("countdown", "the good one", {"rounds": 1})
    commit_end(live_store, claim(live_store, good.id, known=KNOWN), answer='"done"')
    bad = client.submit("countdown", "the bad one", {"rounds": 1})
    fail_round(live_store, claim(live_store, bad.id, known=KNOWN), max_failures=1, fatal=1)
    asking = client.submit(
        "countdown", "the asking one", {"rounds": 1}, interrupt_before=["Controller"]
    )
    live_store.figures.add(
        {
            ("rounds", "countdown", "Controller", "continued"): 3,
            ("took_ms", "countdown", "Controller"): 600,
            ("spent", "countdown", "tokens"): 1234,
        }
    )
    page = sound(visitor.see("/overview"))
    for words in ("the bad one", "the asking one", "1,234", "0.20 s", "completed 1", "errored 1"):
        assert words in page.text
    assert "perdure retry" not in page.text and "Inbox 1 wait" in page.text
    assert [link for link in page.links if link.endswith(f"/runs/{asking.id}/answer")]
    assert "completed 1 in the last hour" in sound(visitor.see("/overview?span=hour")).text


def test_equal_failures_are_one_row_with_a_button_that_retries_them(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    ids = [client.submit("countdown", f"g{number}", {"rounds": 1}).id for number in range(3)]
    for run_id in ids:
        fail_round(live_store, claim(live_store, run_id, known=KNOWN), max_failures=1, fatal=1)
    page = sound(visitor.see("/overview"))
    assert "Needs attention 1" in page.text and "errored × 3 g2" in page.text
    (retry,) = [link for link in page.links if "action=retry" in link]
    confirm = visitor.see(retry)
    assert sorted(confirm.chosen) == sorted(ids)
    visitor.choose(confirm)
    assert not {client.get(run_id).status for run_id in ids} & {RunStatus.ERRORED}
    assert "errored ×" not in visitor.see("/overview").text


def test_a_long_error_of_a_group_shows_its_beginning_and_its_cause(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    stack = " caused by the step before" * 15
    error = f"step pay failed: ValueError: no such till{stack}: ConnectionError: no route to bank"
    for flow, inputs, text in (
        ("countdown", {"rounds": 1}, error),
        ("thinker", {"notes": 1, "tokens": 1}, error.replace(stack, 99 * stack)),
    ):
        run = client.submit(flow, "g", inputs)
        granted = claim(live_store, run.id, known=(flow,))
        commit(live_store, granted, "failed", error=text, delay=1, max_failures=1)
    page = sound(visitor.see("/overview"))
    shown = re.findall(r"<bdi[^>]*>(step pay.*?)</bdi>", page.html)
    assert len(shown) == 2
    for summary in shown:
        assert summary.startswith("step pay failed: ValueError: no such till caused by")
        assert summary.endswith("step before: ConnectionError: no route to bank") and "…" in summary
        assert len(summary) <= 220
    assert error in page.text and len(page.html) < 40_000


def test_busy_slots_are_shown_without_a_warning(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    busy = {"role": "all", "pool": "solo", "concurrency": 2, "rounds": 2, "flows": {}}
    live_store.fleet.announce("busy:1", busy, live_store.time(), 0)
    for path in ("/overview", "/fleet"):
        page = sound(visitor.see(path))
        (classes,) = re.findall(
            r'class="([^"]*)"[^>]* aria-label="2 of 2 slots are busy"', page.html
        )
        assert classes == "bar", path
    run = client.submit("thinker", "Think", {"notes": 9, "tokens": 600}, budgets={"tokens": 600})
    runtime_of(client).rounds.run(run.id, 0, 0)
    assert 'class="bar low gone"' in visitor.see(f"/runs/{run.id}").html


def test_a_used_up_budget_is_told_in_words(visitor: Visitor, client: Client) -> None:
    inputs = {"notes": 9, "tokens": 700, "money": 0.25}
    run = client.submit("thinker", "Think", inputs, budgets={"tokens": 600})
    for step in range(3):
        runtime_of(client).rounds.run(run.id, 0, step)
    assert client.get(run.id).status is RunStatus.INTERRUPTED
    text = sound(visitor.see("/overview")).text
    assert "its budget is spent: tokens 700 of 600" in text and "budget_" not in text


def test_a_run_is_submitted_again_with_changed_inputs(visitor: Visitor, client: Client) -> None:
    first = client.submit("countdown", "Count", {"rounds": 7}, labels={"team": "till"})
    page = sound(visitor.see(f"/start?again={first.id}"))
    form = page.form("/start")
    assert form.fields["goal"] == "Count" and form.fields["input.rounds"] == "7"
    assert form.fields["labels"].strip() == "team=till"
    after = visitor.send(page, "/start", **{"input.rounds": "8"})
    second = client.get(after.url.rpartition("/")[2])
    assert (second.id != first.id, second.inputs["rounds"]) == (True, 8)
    assert second.labels == first.labels


def test_two_runs_are_compared_and_what_differs_is_named(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    runs = [client.submit("countdown", "Count", {"rounds": rounds}) for rounds in (7, 8)]
    for run, texts in zip(runs, (["same", "one"], ["same", "two"]), strict=True):
        at = int(run.created_at.timestamp() * 1000)
        for step, text in enumerate(texts):
            entry = {"type": "committed", "at": at, "step": step, "attempt": 1, "node": "Executor"}
            data = json.dumps({"command": "tick", "args": "{}", "observation": text})
            live_store.redis.xadd(live_store.keys.events(run.id), {**entry, "data": data})
        live_store.redis.hset(live_store.keys.run(run.id), "step", 2)
    page = sound(visitor.see(f"/runs/{runs[0].id}/compare"))
    (link,) = [link for link in page.links if f"other={runs[1].id}" in link]
    text = sound(visitor.see(link)).text
    assert "input rounds differs 7 8" in text and "goal Count Count" in text
    assert "1 differs 1 Executor: one 1 Executor: two" in text
    assert "0 0 Executor: same 0 Executor: same" in text
