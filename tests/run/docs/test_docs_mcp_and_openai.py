"""docs/guides/mcp-and-openai.md: its flow is driven by its clients."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from mcp import Client as McpClient

from perdure import Client, Settings
from perdure.flows.rounds import registry
from perdure.worker.client.tokens import Tokens
from tests.support.flow_registry import own_registry
from tests.support.round_driver import driving
from tests.support.threaded_server import serving

TEXT = (Path(__file__).parents[3] / "docs/guides/mcp-and-openai.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TEXT, re.DOTALL))


@pytest.fixture
def url(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server whose runs are played all the time."""
    own_registry(monkeypatch, "tidy")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tidying", raising=False)
    (tmp_path / "tidying.py").write_text(EXAMPLES["tidying.py"], "utf-8")
    settings = settings.model_copy(update={"flow_modules": ("tidying",)})
    registry.load_modules(("tidying",))
    over = threading.Event()
    with serving(settings) as address, driving(settings) as driver:

        def play() -> None:
            while not over.wait(0.02):
                driver.play()

        playing = threading.Thread(target=play)
        playing.start()
        try:
            yield address
        finally:
            over.set()
            playing.join(20)


def example(name: str) -> ModuleType:
    module = ModuleType(name)
    exec(EXAMPLES[name], vars(module))
    return module


@pytest.fixture
def token(client: Client) -> str:
    [line] = re.findall(r"perdure token create assistant (.*)", TEXT)
    return Tokens(client).create("assistant", re.findall(r"--scope (\w+)", line)).text


def test_the_mcp_client_of_the_guide_asks_its_user(
    url: str, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asyncio.run(example("ask_mcp.py").tidy(url, token)) == "removed build"
    assert 'remove {"path": "build"}' in capsys.readouterr().out


def test_the_openai_client_of_the_guide_passes_the_answer_on(
    url: str, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert example("ask_openai.py").tidy(url, token) == "removed build"
    assert capsys.readouterr().out.startswith("approval {")


def test_a_server_without_tokens_serves_mcp_clients_of_its_machine(url: str) -> None:
    async def list_tools() -> set[str]:
        async with McpClient(f"{url}/mcp") as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert asyncio.run(list_tools()) >= {"tidy", "status", "answer", "cancel"}
