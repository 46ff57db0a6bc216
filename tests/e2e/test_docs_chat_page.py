"""docs/guides/chat-page.md: a person chats on its page in a real browser."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI

from perdure import Client
from perdure.worker.settings import Settings
from tests.support.browser import browsing, chromium, grave_findings, keep_picture
from tests.support.command_line import CommandLine, wait_for_line
from tests.support.example_flows import chat_flow  # noqa: F401 -- registers flows
from tests.support.ports import free_port
from tests.support.redis_servers import until
from tests.support.threaded_server import serving_app
from tests.support.workers import workers

if TYPE_CHECKING:
    from playwright.sync_api import Page

MODULE = "tests.support.example_flows.chat_flow"
TEXT = (Path(__file__).parents[2] / "docs/guides/chat-page.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))
APP = BLOCKS["chat_app.py"]
[PAGE] = re.findall(r"```html\n(.*?)```", TEXT, re.DOTALL)

pytestmark = pytest.mark.settings(flow_modules=(MODULE,))


@pytest.fixture
def app(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """The guide's app, for the flow of the tests."""
    (tmp_path / "chat.html").write_text(PAGE.replace('"assistant"', '"chatting"'), "utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"SETTINGS": settings, "__name__": "chat_app"}
    exec(APP.replace("Client()", "Client(settings=SETTINGS)"), names)
    made = names["app"]
    assert isinstance(made, FastAPI)
    return made


@pytest.fixture
def page(app: FastAPI) -> Iterator[Page]:
    with chromium() as browser, serving_app(app) as url, browsing(browser, url) as opened:
        yield opened


@pytest.mark.slow
def test_a_person_chats_approves_and_sees_a_lost_attempt_taken_back(
    page: Page, client: Client, settings: Settings
) -> None:
    from playwright.sync_api import expect

    page.set_viewport_size({"width": 420, "height": 420})
    page.goto("/")
    assert grave_findings(page) == []
    page.get_by_label("Message").fill("tea, after a failure")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".person")).to_have_text("tea, after a failure")
    with workers(1, settings, PERDURE_FLOW_MODULES=MODULE):
        expect(page.locator(".note")).to_contain_text("given up")
        expect(page.locator(".answer")).to_have_text("I look it up.")
        expect(page.locator(".thinking")).to_have_text("What does it cost?")
        expect(page.locator(".call").first).to_contain_text(
            'look_up {"item": "tea, after a failure"}'
        )
        expect(page.get_by_role("button", name="Refuse")).to_be_visible()
        keep_picture(page, "chat-page-asks")
        assert grave_findings(page) == []
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".answer").last).to_have_text('Done: "paid 3"')
        expect(page.locator(".question button")).to_have_count(0)
        page.get_by_label("Message").fill("let another do it")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("button", name="Refuse")).to_be_visible()
        assert is_uncovered(page, "Refuse")
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".answer").last).to_have_text('It: Done: "paid 3"')
        page.emulate_media(color_scheme="dark")
        keep_picture(page, "chat-page-done")
        assert grave_findings(page) == []
    run = client.runs(flow="chatting").runs[-1]
    assert run.finished and run.details["submitted_by"] == "guest"
    page.reload()
    expect(page.locator(".person").first).to_have_text("tea, after a failure")
    expect(page.locator(".answer").first).to_have_text('Done: "paid 3"')
    page.get_by_label("Message").fill("milk")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".person").last).to_have_text("milk")
    until(lambda: len(client.runs(flow="chatting").runs) == 3, "the next run")
    page.get_by_label("Message").fill("cold, please")
    page.get_by_role("button", name="Send").click()
    newest = client.runs(flow="chatting").runs[0]
    until(lambda: client.unread(newest.id) == {"say": 1}, "the message to the live run")
    page.reload()
    expect(page.locator(".person").last).to_have_text("cold, please")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_talks_to_the_agent_of_the_guide_of_types(tmp_path: Path) -> None:
    """As a new user would: the files of both guides, ``perdure up`` and the app, and only the name
    of the flow is another.
    """
    from playwright.sync_api import expect

    typed = (Path(__file__).parents[2] / "docs/guides/typed.md").read_text("utf-8")
    files = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", typed, re.DOTALL))
    for name in ("refunds.py", "refund_model.py"):
        (tmp_path / name).write_text(files[name], "utf-8")
    (tmp_path / "chat_app.py").write_text(APP, "utf-8")
    (tmp_path / "chat.html").write_text(PAGE.replace('"assistant"', '"refunds"'), "utf-8")
    perdure = CommandLine(tmp_path, PERDURE_FLOW_MODULES="refunds,refund_model")
    port = free_port()
    with perdure.running("up", "--no-server", "--model", "fake:refund") as up:
        wait_for_line(up, "worker ready")
        app = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "chat_app:app", "--port", str(port)],
            cwd=tmp_path,
            env=perdure.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(lambda: is_open(port), "the app", 60)
            with chromium() as browser, browsing(browser, f"http://127.0.0.1:{port}") as page:
                page.goto("/")
                page.get_by_label("Message").fill("The camel of order 4711 does not walk.")
                page.get_by_role("button", name="Send").click()
                expect(page.locator(".call").first).to_have_text('price {"order": "4711"}')
                expect(page.locator(".call").nth(1)).to_contain_text("ask_lawyer")
                expect(page.locator(".question")).to_contain_text("12.5")
                page.get_by_role("button", name="Approve").click()
                expect(page.locator(".answer").last).to_have_text('{"euros":12.5,"order":"4711"}')
        finally:
            app.terminate()
            app.wait(30)
            up.send_signal(signal.SIGINT)  # killed, it would leave its server behind
            up.communicate(timeout=60)


def is_open(port: int) -> bool:
    """Return whether a server listens on this loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_uncovered(page: Page, name: str) -> bool:
    """Return whether a button is on the screen, with nothing in front of it."""
    script = """button => {
        const {x, y, width, height} = button.getBoundingClientRect()
        return document.elementFromPoint(x + width / 2, y + height - 3) === button
    }"""
    return bool(page.get_by_role("button", name=name).evaluate(script))
