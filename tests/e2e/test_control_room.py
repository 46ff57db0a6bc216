"""The control room in a browser: live text in its round, a page on which nothing jumps, the fleet."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx2
import pytest

from perdure import Client, Run
from perdure.flows import registry
from perdure.worker.domain.fleet import describe
from perdure.worker.engine.round_stats import RoundStats
from perdure.worker.errors import InvalidSettings
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.store.live_text import LiveTextRecords
from tests.support.browser import browsing, chromium, grave_findings
from tests.support.runs import claim, commit_next, fail_round
from tests.support.threaded_server import serving

#: Adds up how far things moved by themselves, as browsers report it (Cumulative Layout Shift).
SHIFTS = """
window.shifted = 0; window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    window.shifted += entry.value;
    window.shifts.push([entry.value, entry.sources.map((each) => each.node?.outerHTML?.slice(0, 90))]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""
#: Moves that a page may make by itself. Browsers call up to 0.1 good, and this one makes none.
MOST_SHIFTED = 0.01
KNOWN = ("countdown",)


class Writer:
    """The live text of one attempt at a round."""

    def __init__(self, store: Store, run: Run, step: int, attempt: int) -> None:
        self._records, self._run = LiveTextRecords(store), run
        self._frame = {"step": step, "attempt": attempt, "part": ""}
        self._number = 0

    def write(self, text: str, kind: str = "text") -> None:
        entry = {**self._frame, "number": self._number, "kind": kind, "text": text}
        self._records.append(self._run.id, [entry], int(time.time() * 1000))
        self._number += 1


def shifted(page: Any) -> list[Any]:
    """What moved by itself on the page so far; empty if that is next to nothing."""
    found = page.evaluate("[window.shifted, window.shifts]")
    return [] if found[0] < MOST_SHIFTED else [json.dumps(found)]


def test_the_round_in_flight_fills_with_text_and_nothing_jumps(
    url: str, client: Client, live_store: Store
) -> None:
    from playwright.sync_api import expect

    run = client.submit("countdown", "Tell a story", {"rounds": 9})
    granted = claim(live_store, run.id, known=KNOWN, owner="here:1")
    with chromium() as browser, browsing(browser, url) as page:
        page.add_init_script(SHIFTS)
        page.goto(f"/runs/{run.id}")
        box = page.locator("#in-flight #live-text")
        expect(page.locator("#in-flight a[href$='/fleet#worker-here:1']")).to_be_visible()
        assert page.locator("#live-text[aria-live]").count() == 0
        first = Writer(live_store, run, 0, 1)
        first.write("Let me see.", "thinking")
        first.write("Once upon a time\n")
        first.write("there was a till.")
        expect(box.locator("pre").nth(1)).to_have_text("Once upon a time\nthere was a till.")
        expect(page.locator("#live-said")).to_have_text("Step 0: the model is writing.")
        assert box.evaluate("node => getComputedStyle(node.querySelector('pre')).whiteSpace") == (
            "pre-wrap"
        )
        high = box.bounding_box()
        for number in range(40):
            first.write(f"line {number}\n")
        expect(box).to_contain_text("line 39")
        assert box.bounding_box()["height"] == high["height"]  # type: ignore[index]
        assert grave_findings(page) == []
        # A tab that comes back listens anew, and has the same text once.
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        first.write("the end")
        expect(box).to_contain_text("the end")
        expect(box.locator("pre").nth(1)).to_contain_text("there was a till.")
        assert box.inner_text().count("Once upon a time") == 1
        commit_next(live_store, granted)
        expect(page.locator(".rows .row.controller")).to_have_count(1)
        expect(page.locator("#live-text")).to_have_count(0)
        assert shifted(page) == []
        # The next attempt is given up, and so is its text.
        granted = claim(live_store, run.id, known=KNOWN, owner="here:1")
        Writer(live_store, run, 1, 1).write("Another story")
        expect(box).to_have_text("Another story")
        fail_round(live_store, granted)
        expect(page.get_by_text("Another story")).to_have_count(0)
        expect(page.locator(".rows .row.bad, .rows .row.wait").first).to_contain_text("boom")
        page.wait_for_timeout(300)
        assert shifted(page) == []


def test_rows_that_arrive_move_nothing_by_themselves(
    url: str, client: Client, live_store: Store
) -> None:
    from playwright.sync_api import expect

    run = client.submit("countdown", "Watched", {"rounds": 9})
    with chromium() as browser, browsing(browser, url, width=390) as page:
        page.add_init_script(SHIFTS)
        page.goto(f"/runs/{run.id}")
        for number, node in enumerate(("Executor", "Controller", "Executor", "Controller")):
            commit_next(live_store, claim(live_store, run.id, known=KNOWN), node)
            expect(page.locator(".rows .row .timing svg")).to_have_count(number + 1)
        page.wait_for_timeout(300)
        assert shifted(page) == []
        for address in ("/runs", "/overview"):
            page.goto(address)
            page.wait_for_load_state()
            figures = RoundStats()
            figures.round("countdown", "Controller", "continued", 1_000)
            figures.spent("countdown", {"tokens": 9, "money": 0.5})
            figures.flush(live_store)
            new = client.submit("countdown", f"New on {address}", interrupt_before=["Controller"])
            expect(page.locator("main")).to_contain_text(f"New on {address}")
            page.wait_for_timeout(300)
            assert shifted(page) == [], (address, new.id)
    with httpx2.Client(base_url=url) as http:
        answer = http.get(f"/runs/{run.id}", headers={"Accept": "text/html"})
        assert 'id="live-said"' in answer.text


def test_an_unknown_path_is_a_page_for_a_browser_and_json_for_a_program(url: str) -> None:
    with httpx2.Client(base_url=url) as http:
        page = http.get("/nowhere/at/all", headers={"Accept": "text/html,*/*;q=0.8"})
        assert page.status_code == 404 and "text/html" in page.headers["content-type"]
        assert "/nowhere/at/all" in page.text and 'name="csrf" value=""' not in page.text
        assert http.get("/nowhere").json() == {"detail": "Not Found"}
        for path in ("/api/v1/nowhere", "/api/v2", "/static/none.css"):
            missing = http.get(path, headers={"Accept": "text/html"})
            assert missing.status_code == 404 and "<html" not in missing.text


def test_a_worker_tells_what_it_holds_and_an_old_one_is_shown_too(
    url: str, client: Client, live_store: Store
) -> None:
    run = client.submit("countdown", "Held", {"rounds": 9})
    now = live_store.time()
    flows = {f"flow-{number}": describe(registry.make("countdown")) for number in range(20)}
    old = {"role": "all", "pool": "solo", "concurrency": 1, "rounds": 0, "flows": flows}
    facts = {
        "host": "till", "pid": 7, "version": "9.9", "started": now / 1000 - 75,
        "memory": 300 * 2**20, "holds": [run.id, "gone"], "rounds": 2,
    }  # fmt: skip
    live_store.announce("old:1", old, now, 0)
    live_store.announce("new:1", {**old, **facts}, now, 0)
    with httpx2.Client(base_url=url) as http:
        text = http.get("/fleet").text
        assert f"/runs/{run.id}" in text and "and 1 more" in text and "unknown" in text
        for words in ("300 MiB", "1 min 1", "9.9", "flow-19", "20 flows", 'id="worker-new:1"'):
            assert words in text
        listed = {each["name"]: each for each in http.get("/api/v1/workers").json()}
        assert listed["new:1"]["holds"] == [run.id, "gone"] and "holds" not in listed["old:1"]


def test_a_run_links_to_its_logs_and_its_trace(settings: Settings, client: Client) -> None:
    links = {
        "log_url": "https://logs.example.org/?q={run_id}",
        "trace_url": "https://traces.example.org/{trace_id}",
    }
    run = client.submit("countdown", "Linked")
    with (
        serving(Settings(**{**settings.model_dump(), **links})) as url,
        httpx2.Client(base_url=url) as http,
    ):
        text = http.get(f"/runs/{run.id}").text
    assert f"https://logs.example.org/?q={run.id}" in text
    assert ("traces.example.org" in text) == ("trace_id" in run.details)


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "ftp://x/", "https://{run_id}.example.org/", "https://x/{goal}", "x"],
)
def test_an_address_of_logs_that_is_no_safe_link_is_refused(address: str) -> None:
    from pydantic import ValidationError

    with pytest.raises((ValidationError, InvalidSettings)):
        Settings(log_url=address)
