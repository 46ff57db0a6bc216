"""docs/guides/http.md: its table has every problem, and its app works."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import httpx2
import pytest

from perdure.worker.errors import HTTP_ERRORS
from perdure.worker.settings import Settings, current
from perdure.worker.web.auth.permissions import RUNS_READ_PER_PAGE
from perdure.worker.web.problems import REQUEST_PROBLEMS
from tests.support.threaded_server import serving_app

TEXT = (Path(__file__).parents[3] / "docs" / "guides" / "http.md").read_text("utf-8")


def test_the_table_has_every_problem() -> None:
    rows = {
        word
        for row in re.findall(r"^\| \d+ \| (.*?) \|", TEXT, re.MULTILINE)
        for word in re.findall(r"`([a-z-]+)`", row)
    }
    assert rows == HTTP_ERRORS.keys() | {word for word, _ in REQUEST_PROBLEMS.values()}


def test_a_page_reads_no_more_runs_than_the_guide_says() -> None:
    assert f"no more than {RUNS_READ_PER_PAGE:,} runs for one page" in " ".join(TEXT.split())


def test_the_app_of_ones_own_works(
    settings: Settings, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.redis_url is not None
    monkeypatch.setenv("PERDURE_REDIS_URL", settings.redis_url)
    monkeypatch.setenv("PERDURE_PREFIX", settings.prefix)
    current.cache_clear()
    example = ModuleType("example")
    [code] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    try:
        exec(code.replace("from __future__ import annotations", ""), vars(example))
    finally:
        monkeypatch.undo()
        current.cache_clear()
    with (
        serving_app(example.app) as address,
        httpx2.Client(base_url=f"{address}/goals", headers={"X-User": "ann"}, timeout=60.0) as http,
    ):
        run = http.post("/runs", json={"flow": "countdown", "goal": "count down"}).json()
        assert run["details"]["submitted_by"] == "ann"
        assert http.get(f"/runs/{run['id']}", headers={"X-User": "bob"}).status_code == 404
