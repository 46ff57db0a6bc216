"""First contentful paint of the dashboard's pages. A Chromium on this machine loads them."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from benchmarks.measure import Measure
from benchmarks.report import Report, number

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: Greatest time from the request of a page to its first contentful paint, in milliseconds.
AIM_MS = 300.0
#: The page of a run of very many rounds, and its aim.
LONG, LONG_AIM_MS = "a long run", 1000.0
#: No sandbox, since a machine of CI may run this as root; nothing that uses the network itself.
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
#: Returns the milliseconds once the browser has painted.
PAINTED = """() => new Promise((done) => new PerformanceObserver((list) => {
  for (const each of list.getEntriesByName("first-contentful-paint")) done(each.startTime);
}).observe({ type: "paint", buffered: true }))"""
#: Beginning of the names of these measures.
NAME = "first contentful paint: "


def pages(run_id: str, line: str) -> Mapping[str, str]:
    """Return each measured page's path, by its name.

    Among them are the page of a run, and a search by a line.
    """
    names = ("overview", "runs", "inbox", "stuck", "fleet", "start", "notifications")
    return {
        **{name: f"/{name}" for name in names},
        "a run": f"/runs/{run_id}",
        "a search": f"/runs?{urlencode({'q': line})}",
    }


def measure_paints(
    report: Report, url: str, paths: Mapping[str, str], calls: int, passes: int
) -> None:
    """Add each page's first contentful paint to a report. The notes have its aim.

    Args:
        url: of the HTTP server, without a path.
        calls: loads of each page in a pass, of which the median counts.
    """
    try:
        with chromium() as browser:
            for _ in range(2):  # the browser keeps styles and scripts from the first load on
                for path in paths.values():
                    paint(browser, url + path)
            for name, path in paths.items():
                values = tuple(
                    statistics.median(paint(browser, url + path) for _ in range(calls))
                    for _ in range(passes)
                )
                report.measures.append(Measure(NAME + name, "ms", values, None))
    except LookupError as error:
        report.missing["first contentful paint"] = str(error)
        return
    for name in paths:
        median = report.find(NAME + name).median
        aim = LONG_AIM_MS if name == LONG else AIM_MS
        word = "reached" if median <= aim else "NOT reached"
        report.notes.append(f"{NAME}{name}, {number(median)} ms; aim {aim:g}: {word}.")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium of this machine.

    Raises:
        LookupError: There is none, or Playwright is not installed.
    """
    program = shutil.which("chromium")
    if program is None:
        raise LookupError("this machine has no chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise LookupError("Playwright is not installed: pip install playwright") from None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def paint(browser: Browser, url: str) -> float:
    """Load a page in a new tab. Return the milliseconds to its first contentful paint.

    Raises:
        RuntimeError: The page is an error.
    """
    if not browser.contexts:
        browser.new_context(viewport={"width": 1280, "height": 900})
    page = browser.contexts[0].new_page()
    try:
        response = page.goto(url, wait_until="load")
        if response is None or not response.ok:
            status = response and response.status
            raise RuntimeError(f"expected a page at {url}, got status {status}")
        return float(page.evaluate(PAINTED))
    finally:
        page.close()
