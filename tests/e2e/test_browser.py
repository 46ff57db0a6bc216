"""The dashboard in a real browser: people's actions, live; and every view, by day and by night,
wide and narrow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perdure import Client
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from tests.support.browser import Theme, browsing, chromium, grave_findings, keep_picture
from tests.support.git_repositories import TEST, GeneratedRepository, Shape
from tests.support.redis_servers import CrashableServer, until
from tests.support.redis_servers import server as server_of_its_own
from tests.support.threaded_server import serving
from tests.support.workers import WorkerProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: A worker that is killed is missed within two seconds.
QUICK = {
    "PERDURE_LEASE_SECONDS": "1.5",
    "PERDURE_HEARTBEAT_SECONDS": "0.3",
    "PERDURE_SWEEP_SECONDS": "0.2",
}
FLOWS = {
    "PERDURE_FLOW_MODULES": "tests.support.example_flows.rings,tests.support.example_flows.costs_and_questions",
    "PERDURE_ENABLED_FLOWS": "bisect",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def own_server(browser: Browser) -> Iterator[CrashableServer]:
    with server_of_its_own(appendfsync="everysec") as running:
        yield running


@pytest.fixture(scope="module")
def address(own_server: CrashableServer) -> Iterator[str]:
    """Yield the URL of a web server."""
    with serving(Settings(redis_url=own_server.url)) as url:
        yield url


@pytest.fixture(scope="module")
def client(own_server: CrashableServer) -> Iterator[Client]:
    made = Client(settings=Settings(redis_url=own_server.url))
    yield made
    made.close()


class Fleet:
    """One worker at a time, replaced after a kill."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.worker = self._begin()

    def replace(self) -> None:
        """Kill the worker with SIGKILL, and start another."""
        self.worker.kill()
        self.worker.close()
        self.worker = self._begin()

    def _begin(self) -> WorkerProcess:
        return WorkerProcess(
            self.settings, "--pool", "threads", "--concurrency", "4", **QUICK, **FLOWS
        )


@pytest.fixture(scope="module")
def fleet(own_server: CrashableServer, client: Client) -> Iterator[Fleet]:
    made = Fleet(Settings(redis_url=own_server.url))
    made.worker.ready()
    yield made
    made.worker.close()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> GeneratedRepository:
    shape = Shape([[number - 1] if number else [] for number in range(60)], 0, 41)
    return shape.write(tmp_path_factory.mktemp("git") / "repository")


def _just_begun(client: Client, run_id: str, after: int) -> bool:
    """Return whether an execution of a step behind ``after`` is in flight."""
    run = client.get(run_id)
    return run.phase == "leased" and run.state.current_node == "Executor" and run.state.step > after


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with browsing(browser, address) as opened:
        yield opened


def stays(page: Page) -> None:
    """Mark the document: a reload would lose the mark."""
    page.evaluate("document.staysTheSame = true")


def stayed(page: Page) -> bool:
    return page.evaluate("document.staysTheSame === true") is True


@pytest.mark.slow
def test_a_bisect_from_the_form_is_seen_round_by_round_and_goes_on_when_its_worker_is_killed(
    page: Page, fleet: Fleet, client: Client, repository: GeneratedRepository
) -> None:
    from playwright.sync_api import expect

    page.goto("/start?flow=bisect")
    assert grave_findings(page) == []
    page.get_by_label("Goal").fill("Who broke the till?")
    for name, text in (
        ("repo", repository.path),
        ("good", repository.good),
        ("bad", repository.bad),
        # Another execution has to begin after the page was read, also on a busy machine.
        ("test", f"sleep 1.5; {TEST}"),
    ):
        page.locator(f"[name='input.{name}']").fill(str(text))
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile(r"/runs/\w+$"))
    stays(page)
    expect(page.locator(".row.executor")).not_to_have_count(0)
    expect(page.locator("#in-flight")).to_contain_text("Executor")
    seen = page.locator(".row.controller").count()
    run_id = page.url.rpartition("/")[2]
    at = client.get(run_id).state.step
    until(lambda: _just_begun(client, run_id, at), "an execution that has just begun")
    fleet.replace()
    expect(page.locator(".row.between.bad")).to_contain_text("was lost")
    expect(page.locator(".attempt").first).to_have_text("attempt 2")
    expect(page.locator("#head .status")).to_have_text("completed")
    expect(page.locator("#answer, #head .notice")).to_contain_text(repository.first_bad[:10])
    assert page.locator(".row.controller").count() > seen and stayed(page)
    assert grave_findings(page) == []


def test_a_question_is_answered_and_what_is_being_typed_survives_that_the_page_renews_itself(
    page: Page, fleet: Fleet, client: Client
) -> None:
    from playwright.sync_api import expect

    run = client.submit("question", "Which of the two?", interrupt_after=["Executor"])
    client.wait(run.id, 20)
    page.goto(f"/runs/{run.id}")
    stays(page)
    page.get_by_label("Your answer").fill("the second")
    page.locator("#state summary").click()
    with page.expect_response(
        lambda response: response.url.endswith(run.id) and response.request.resource_type == "xhr"
    ) as renewed:
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert renewed.value.status == 200
    expect(page.get_by_label("Your answer")).to_have_value("the second")
    assert page.locator("#state").get_attribute("open") is not None and stayed(page)
    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.locator("#asked")).to_contain_text("interrupt_after")
    stays(page)
    client.resume(run.id)
    expect(page.locator("#head .status")).to_have_text("completed")
    expect(page.locator("#head .notice.good")).to_contain_text("the second")
    assert stayed(page)


def test_a_run_is_stopped_now_once_somebody_has_said_so_twice(
    page: Page, fleet: Fleet, client: Client
) -> None:
    from playwright.sync_api import expect

    run = client.submit("countdown", "Wait for the night", {"rounds": 100, "seconds": 30})
    page.goto(f"/runs/{run.id}")
    expect(page.locator("#in-flight")).to_contain_text("Executor")
    page.get_by_text("Stop now…").click()
    assert grave_findings(page) == []
    keep_picture(page, "run-stop-now-light-1280")
    page.get_by_role("button", name="Yes, stop it now").click()
    expect(page.locator("#head .status")).to_have_text("stopped")
    expect(page.locator("#head")).to_contain_text("In doubt")
    assert client.get(run.id).status.value == "stopped"
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#in-flight")).to_contain_text("Executor")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#main > .notice")).to_contain_text("will stop after the current round")
    client.request_stop(run.id, "now")


def test_an_errored_run_is_retried(page: Page, fleet: Fleet, client: Client) -> None:
    from playwright.sync_api import expect

    run = client.submit("trouble", "Call the service", {"kind": "fatal", "times": 1})
    client.wait(run.id, 20)
    page.goto(f"/runs/{run.id}")
    expect(page.locator("#head .notice.bad")).to_contain_text("this can never work")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".row.between.good", has_text="retried")).to_be_visible()


def test_the_table_shows_what_happens_without_being_loaded_again_and_keeps_the_focus(
    page: Page, fleet: Fleet, client: Client
) -> None:
    from playwright.sync_api import expect

    first = client.submit("question", "Is this one first?", labels={"test": "table"})
    client.wait(first.id, 20)
    page.goto("/runs?label=test%3Dtable")
    stays(page)
    page.locator(f"#to-{first.id}").focus()
    second = client.submit(
        "countdown", "And this one second?", {"rounds": 0}, labels={"test": "table"}
    )
    expect(page.locator(f"#run-{second.id} .status")).to_have_text("completed")
    expect(page.locator(f"#to-{first.id}")).to_be_focused()
    assert stayed(page)


def test_without_javascript_a_question_is_answered_too(
    browser: Browser, address: str, fleet: Fleet, client: Client
) -> None:
    run = client.submit("question", "Even so?")
    client.wait(run.id, 20)
    with browsing(browser, address, java_script_enabled=False) as page:
        page.goto(f"/runs/{run.id}")
        page.get_by_label("Your answer").fill("even so")
        page.get_by_role("button", name="Answer", exact=True).click()
        page.wait_for_url(re.compile(rf"/runs/{run.id}$"))
        assert client.wait(run.id, 20).answer == "even so"


@pytest.fixture(scope="module")
def views(
    fleet: Fleet, client: Client, own_server: CrashableServer, repository: GeneratedRepository
) -> dict[str, str]:
    """Every view by its name: runs of every status among them, and of every kind of question."""
    inputs = {
        "repo": str(repository.path),
        "good": repository.good,
        "bad": repository.bad,
        "test": TEST,
    }
    ended = {
        "run-completed": client.submit(
            "bisect",
            "Which commit broke the till?",
            inputs,
            labels={"team": "till", "env": "staging"},
        ).id,
        "run-errored": client.submit(
            "trouble", "Call the billing service until it answers", {"kind": "fatal"}
        ).id,
        "run-thinker": client.submit(
            "thinker", "Think aloud", {"notes": 6, "tokens": 1_300, "money": 0.011}
        ).id,
        "run-question": client.submit(
            "question",
            "Shall the old index be dropped?\nIt takes 40 GB.",
            labels={"team": "search"},
        ).id,
        "run-approval": client.submit("careful", "/srv/old/build").id,
        "run-doubt": client.submit("doubter", "Pay ann").id,
        "run-budget": client.submit(
            "countdown", "Count too far", {"rounds": 9}, budgets={"cycles": 2}
        ).id,
        "run-hostile": client.submit(
            "countdown", "<b>\u202e\x00" + "long" * 80, {"rounds": 1}, labels={"<i>" * 9: '"&' * 40}
        ).id,
    }
    for run_id in ended.values():
        client.wait(run_id, 30)
    running = client.submit(
        "countdown",
        "Count down, slowly",
        {"rounds": 500, "seconds": 0.5},
        budgets={"cycles": 800, "seconds": 3600},
    )
    stopped = client.submit(
        "countdown", "Wait for the nightly window", {"rounds": 50, "seconds": 0.2}
    )
    client.request_stop(stopped.id, "now", "somebody does it by hand", "grace")
    damaged = client.submit("countdown", "damaged", not_before=86_400)
    queued = client.submit("countdown", "Not before tomorrow", not_before=86_400)
    store = Store(own_server.url)
    store.redis.hset(store.keys.run(damaged.id), "labels", "nonsense")
    store.redis.lpush(
        store.keys.dead_letters,
        json.dumps(
            {
                "at": store.time() / 1000,
                "list": "perdure.controller",
                "why": "no round",
                "message": "?",
            }
        ),
    )
    store.close()
    of_runs = {
        **ended,
        "run-running": running.id,
        "run-stopped": stopped.id,
        "run-damaged": damaged.id,
        "run-queued": queued.id,
    }
    return {
        "overview": "/overview",
        "overview-week": "/overview?span=week",
        "runs": "/runs",
        "runs-filtered": "/runs?status=running&flow=countdown",
        "runs-none": "/runs?flow=nosuch",
        "chosen": "/chosen?action=stop&all=1&q=flow:countdown",
        "runs-searched": "/runs?q=status:errored,completed+sort:duration",
        "runs-fault": "/runs?q=team:till",
        "inbox": "/inbox",
        "stuck": "/stuck",
        "fleet": "/fleet",
        "start": "/start",
        "start-bisect": "/start?flow=bisect",
        "start-again": f"/start?again={ended['run-errored']}",
        "answer": f"/runs/{ended['run-approval']}/answer",
        "compare": f"/runs/{ended['run-completed']}/compare?other={ended['run-thinker']}",
        "round": f"/runs/{ended['run-completed']}/steps/1",
        "notifications": "/notifications",
        "login": "/login",
        "not-found": "/runs/nosuch",
        **{name: f"/runs/{run_id}" for name, run_id in of_runs.items()},
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_can_be_used_by_everybody_and_fits(
    browser: Browser, address: str, views: dict[str, str], theme: Theme, width: int
) -> None:
    faults: dict[str, list[str]] = {}
    with browsing(browser, address, theme, width) as page:
        for name, path in views.items():
            page.goto(path)
            keep_picture(page, f"{name}-{theme}-{width}")
            found = grave_findings(page)
            wide = page.evaluate("document.documentElement.scrollWidth")
            found += [f"it is {wide} px wide"] if wide > width else []
            faults |= {name: found} if found else {}
    assert faults == {}


@pytest.mark.slow
def test_at_360_px_nothing_is_cut_off(
    browser: Browser, address: str, views: dict[str, str]
) -> None:
    with browsing(browser, address, width=360) as page:
        wide = {}
        for name, path in views.items():
            page.goto(path)
            wide[name] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in wide.items() if width > 360} == {}


def test_pictures_are_no_part_of_the_repository() -> None:
    assert (
        ".pytest-artifacts/" in (Path(__file__).parents[2] / ".gitignore").read_text().splitlines()
    )
