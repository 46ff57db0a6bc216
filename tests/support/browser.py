"""A real Chromium on the dashboard: its complaints fail the test, and its pages can be kept as
pictures.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.support.workers import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

#: No sandbox, as tests may be run by root; nothing that phones home.
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip
#: Milliseconds for something to be seen; far more than it takes, for the machine may be busy with
#: other tests.
PATIENCE = 40_000
#: A browser's message for each page that is an answer to an error; the page itself is checked.
EXPECTED = "Failed to load resource: the server responded with a status of 4"
#: Findings of axe that keep a person from using a page.
GRAVE = ("serious", "critical")

Theme = Literal["light", "dark"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium of this machine; without it, or without Playwright, the test is skipped,
    and fails in CI.
    """
    program = shutil.which("chromium")
    if program is None and "CI" not in os.environ:
        pytest.skip("this machine has no chromium")
    if "CI" not in os.environ:
        pytest.importorskip("playwright")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def browsing(
    browser: Browser, url: str, theme: Theme = "light", width: int = 1280, **options: Any
) -> Iterator[Page]:
    """Open a page of a fresh profile; at the end there may be no complaint: no error, no warning,
    no breach of the policy.
    """
    context = browser.new_context(
        base_url=url, color_scheme=theme, viewport={"width": width, "height": 900}, **options
    )
    context.set_default_timeout(PATIENCE)
    complaints: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            complaints.append(f"{page.url}: {message.text}")

    page = context.new_page()
    page.on("console", heard)
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    yield page
    context.close()
    assert complaints == []


def grave_findings(page: Page) -> list[str]:
    """Return axe's findings on the page that keep a person from using it."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{finding['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for finding in found
        if finding["impact"] in GRAVE
        for node in finding["nodes"]
    ]


def keep_picture(page: Page, name: str) -> None:
    """Keep a picture of the page, for people."""
    directory = Path(
        os.environ.get("PERDURE_SCREENSHOTS") or ROOT / ".pytest-artifacts" / "screenshots"
    )
    page.screenshot(path=directory / f"{name}.png", full_page=True, animations="disabled")
