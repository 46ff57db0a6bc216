"""The dashboard with workers, and in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Client, RunStatus
from perdure.worker.store import Store
from tests.support.browser import browsing, chromium, grave_findings
from tests.support.example_flows import costs_and_questions  # noqa: F401 -- registers flows
from tests.support.long_run import add_turn, long_run
from tests.support.page_visitor import Page, Visitor, sound
from tests.support.redis_servers import until
from tests.support.workers import WorkerProcess


@pytest.mark.slow
def test_an_observation_that_an_event_has_only_the_beginning_of_is_to_be_had_whole(
    visitor: Visitor, client: Client, worker_process: Callable[..., object]
) -> None:
    worker_process(
        app="perdure.app", PERDURE_FLOW_MODULES="tests.support.example_flows.costs_and_questions"
    )
    goal = "/srv/" + "very-long-name/" * 30
    run = client.submit("careful", goal, interrupt_before=[])
    client.wait(run.id, 30)
    client.resume(run.id, "approve")
    client.wait(run.id, 30)
    page = sound(visitor.see(f"/runs/{run.id}"))
    (link,) = [link for link in page.links if "/turns/" in link]
    assert f"removed {goal} and all in it" in sound(visitor.see(link)).text


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_with_a_worker_the_fleet_shows_it_and_the_runs_end(
    visitor: Visitor, client: Client, worker_process: Any
) -> None:
    worker: WorkerProcess = worker_process()
    page = visitor.see("/fleet")
    assert "alive" in page.text and "No workers" not in page.text
    visitor.send(visitor.see("/start?flow=countdown"), "/start", goal="x", **{"input.rounds": "2"})
    (run,) = client.runs().runs
    assert client.wait(run.id, 30).status is RunStatus.COMPLETED

    def silent() -> bool:
        page: Page = visitor.see("/fleet")
        return "not responding" in page.text

    worker.kill()
    until(silent, "the worker to be seen silent", 30)


@pytest.mark.slow
def test_shortcuts_lead_to_pages_and_a_sheet_lists_them(url: str, client: Client) -> None:
    from playwright.sync_api import expect

    client.submit("countdown", "x", {"rounds": 1}, interrupt_before=["Controller"])
    with chromium() as browser, browsing(browser, url) as page:
        page.goto("/overview")
        assert grave_findings(page) == []
        page.keyboard.press("?")
        expect(page.locator("#shortcuts")).to_be_visible()
        assert grave_findings(page) == []
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("i")
        page.wait_for_url("**/inbox")
        page.keyboard.press("n")
        page.wait_for_url("**/start")


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
