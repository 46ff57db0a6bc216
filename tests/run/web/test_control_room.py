"""The dashboard over HTTP: paths that do not exist, the fleet, and links to logs and traces."""

from __future__ import annotations

import httpx2
import pytest

from perdure import Client
from perdure.flows.rounds import registry
from perdure.worker.domain.fleet import describe
from perdure.worker.errors import InvalidSettings
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support.threaded_server import serving


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
    live_store.fleet.announce("old:1", old, now, 0)
    live_store.fleet.announce("new:1", {**old, **facts}, now, 0)
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
