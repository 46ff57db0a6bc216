"""The dashboard in a browser: live text in its round, a page on which nothing jumps, the fleet."""

from __future__ import annotations

import json
from typing import Any

import httpx2

from perdure import Client, Run
from perdure.worker.engine.round_stats import RoundStats
from perdure.worker.store import Claim, Store
from perdure.worker.store.fence import Fence
from perdure.worker.store.live_text import LiveTextRecords
from tests.support.browser import browsing, chromium, grave_findings
from tests.support.runs import claim, commit_next, fail_round

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

    def __init__(self, store: Store, run: Run, granted: Claim, step: int) -> None:
        self._records, self._fence = (
            LiveTextRecords(store),
            Fence(run.id, granted.token, granted.id),
        )
        self._step, self._attempt = step, granted.attempt
        self._number = 0

    def write(self, text: str, kind: str = "text") -> None:
        entry = {"number": self._number, "kind": kind, "part": "", "text": text}
        assert self._records.append(self._fence, self._step, self._attempt, [entry])
        self._number += 1


def shifted(page: Any) -> list[Any]:
    """Return the elements of the page that moved by themselves so far; empty if that is next to
    nothing.
    """
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
        first = Writer(live_store, run, granted, 0)
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
        # A tab that comes back subscribes again, and has the same text once.
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
        Writer(live_store, run, granted, 1).write("Another story")
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
