"""The ten things that an operator does in a day, in a real browser: each takes at most five
actions.

An action is a click, a line that is typed and sent, or a shortcut. Opening the dashboard is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from perdure import Client
from perdure.worker.client.tokens import Tokens
from perdure.worker.settings import Settings
from tests.support.browser import browsing, chromium
from tests.support.redis_servers import server as server_of_its_own
from tests.support.redis_servers import until
from tests.support.threaded_server import serving
from tests.support.webhook_receiver import SECRET, Receiver, listening
from tests.support.workers import WorkerProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow

MOST_ACTIONS = 5
DAY = timedelta(days=1)


class Operator:
    """A person at the dashboard, whose actions are counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions = 0

    def _acts(self) -> None:
        self.actions += 1
        assert self.actions <= MOST_ACTIONS

    def clicks(self, what: Locator) -> None:
        """Click on an element."""
        self._acts()
        what.click()

    def presses(self, key: str) -> None:
        """Send the key of a shortcut."""
        self._acts()
        self.page.keyboard.press(key)

    def types(self, line: str) -> None:
        """Write a line at the cursor, and send it."""
        self._acts()
        self.page.keyboard.insert_text(line)
        self.page.keyboard.press("Enter")

    def searches(self, line: str) -> None:
        """Find runs."""
        self.presses("/")
        self.types(line)

    def opens_link(self, address: str) -> None:
        """Open the link of a notification."""
        self._acts()
        self.page.goto(address)

    def sees(self, text: str) -> None:
        """Wait until a text is visible."""
        self.page.get_by_text(text).first.wait_for(state="visible")


@dataclass
class Office:
    """A dashboard, a worker that notifies, and the receiver of its webhooks."""

    url: str
    client: Client
    receiver: Receiver
    worker: WorkerProcess
    token: str


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def office(browser: Browser) -> Iterator[Office]:
    with ExitStack() as stack:
        redis = stack.enter_context(server_of_its_own(appendfsync="everysec"))
        settings = Settings(redis_url=redis.url)
        client = Client(settings=settings)
        stack.callback(client.close)
        url = stack.enter_context(serving(settings))
        receiver = stack.enter_context(listening(Receiver()))
        token = Tokens(client).create("ann", ["admin"])
        of_links = Tokens(client).create("ann", ["read", "answer", "sign-in"]).token
        rule = {
            "on": ["waiting", "ended"],
            "webhook": receiver.url,
            "secret": "env:OPS_WEBHOOK_SECRET",
            "sign_in": of_links.id,
        }
        worker = WorkerProcess(
            settings,
            "--pool",
            "threads",
            "--concurrency",
            "4",
            PERDURE_FLOW_MODULES="tests.support.example_flows.costs_and_questions",
            PERDURE_NOTIFY=json.dumps({"ops": rule}),
            PERDURE_PRIVATE_WEBHOOKS="true",
            PERDURE_PUBLIC_URL=url,
            OPS_WEBHOOK_SECRET=SECRET,
        )
        stack.callback(worker.close)
        worker.ready()
        yield Office(url, client, receiver, worker, token.text)
        assert receiver.forged == 0


@pytest.fixture(scope="module")
def failed_yesterday(office: Office) -> str:
    """A run of the team search that failed yesterday: an input is missing."""
    client = office.client
    run = client.submit(
        "thinker", "index the books", {"notes": 1}, labels={"team": "search"},
        retry={"max_attempts": 1},
    )  # fmt: skip
    assert client.wait(run.id, 30).status.value == "errored"
    store, milliseconds = client._store, round(DAY.total_seconds() * 1000)
    key = store.keys.run(run.id)
    for name in ("created_at", "ended_at", "updated_at"):
        store.redis.hincrby(key, name, -milliseconds)
    store.redis.zincrby(store.keys.index("errored"), -milliseconds, run.id)
    return run.id


@pytest.fixture(scope="module")
def good_run(office: Office) -> str:
    """A run of the same flow that ended well, and cost money."""
    run = office.client.submit(
        "thinker", "index the films", {"notes": 1, "tokens": 20, "money": 0.25}
    )
    assert office.client.wait(run.id, 30).status.value == "completed"
    return run.id


@pytest.fixture
def operator(browser: Browser, office: Office) -> Iterator[Operator]:
    """A person who is signed in, and has the table of runs open."""
    with browsing(browser, office.url) as page:
        page.goto("/login")
        page.get_by_label("Token").fill(office.token)
        page.keyboard.press("Enter")
        page.wait_for_url(lambda address: "/login" not in address)
        page.goto("/runs")
        yield Operator(page)


def test_find_the_failed_run_of_yesterday_see_why_read_its_traceback_and_retry_it(
    operator: Operator, office: Office, failed_yesterday: str
) -> None:
    yesterday = (datetime.now(UTC) - DAY).date().isoformat()
    operator.searches(f"status:errored label:team=search ended:{yesterday}")
    operator.clicks(operator.page.get_by_role("link", name="index the books"))
    operator.sees("KeyError")  # why
    operator.page.locator("#traceback").get_by_text("costs_and_questions.py").first.wait_for()
    operator.clicks(operator.page.get_by_role("button", name="Retry", exact=True))
    operator.sees("will be retried from the failed step")
    until(lambda: "retried" in _events(office.client, failed_yesterday), "the retry")


def _events(client: Client, run_id: str) -> list[str]:
    return [event.type for event in client.events(run_id, follow=False)]


def test_compare_it_with_a_good_one(
    operator: Operator, failed_yesterday: str, good_run: str
) -> None:
    operator.searches("index the books")
    operator.clicks(operator.page.get_by_role("link", name="index the books"))
    operator.clicks(operator.page.get_by_role("link", name="Compare…"))
    operator.clicks(operator.page.get_by_role("link", name="index the films"))
    operator.sees("index the films")
    operator.sees("index the books")


def test_stop_a_bad_batch(operator: Operator, office: Office) -> None:
    batch = [
        office.client.submit(
            "thinker", "a bad idea", {"notes": 1, "tokens": 20},
            labels={"batch": "bad"}, not_before=timedelta(hours=1),
        ).id
        for _ in range(60)
    ]  # fmt: skip
    operator.searches("label:batch=bad")
    operator.clicks(operator.page.get_by_label("all that match"))
    operator.clicks(operator.page.get_by_role("button", name="Stop…"))
    operator.sees("Stop 60 runs?")
    operator.clicks(operator.page.get_by_role("button", name="Stop now"))
    operator.sees("60 runs stopped")
    assert {office.client.get(run_id).status.value for run_id in batch} == {"stopped"}


@pytest.mark.usefixtures("good_run")
def test_see_which_flow_eats_the_money(operator: Operator) -> None:
    operator.clicks(operator.page.get_by_role("link", name="Overview", exact=True))
    row = operator.page.get_by_role("region", name="Totals by flow").get_by_role("row")
    row.filter(has_text="thinker").filter(has_text="$0.5").wait_for()


def test_find_which_worker_holds_a_round(operator: Operator, office: Office) -> None:
    run = office.client.submit(
        "thinker", "think for long", {"notes": 1, "tokens": 20, "seconds": 60}
    )
    until(lambda: office.client.get(run.id).phase == "leased", "its round")
    operator.searches("status:running")
    operator.clicks(operator.page.get_by_role("link", name="think for long"))
    operator.sees("running on")
    owner = office.client.get(run.id).details["owner"]
    operator.clicks(operator.page.locator("#in-flight").get_by_role("link", name=owner))
    row = operator.page.get_by_role("region", name="Workers").get_by_role("row")
    row.filter(has_text=owner).get_by_role("link", name="think for long").wait_for()
    office.client.request_stop(run.id, "now")


def test_answer_an_approval_from_the_link_of_a_notification(
    browser: Browser, office: Office
) -> None:
    run = office.client.submit("careful", "old.log", submitted_by="ann")
    until(lambda: _links(office, "run.waiting", run.id), "the webhook", 30)
    with browsing(browser, office.url) as page:
        person = Operator(page)
        person.opens_link(_links(office, "run.waiting", run.id)[0])
        person.clicks(page.get_by_role("button", name="Sign in"))
        person.clicks(page.get_by_role("button", name="Approve", exact=True))
        assert office.client.wait(run.id, 30).status.value == "completed"


def test_be_told_when_it_is_over(browser: Browser, office: Office) -> None:
    run = office.client.submit(
        "thinker", "be quick", {"notes": 0, "tokens": 20}, submitted_by="ann"
    )
    until(lambda: _links(office, "run.completed", run.id), "the webhook", 30)
    with browsing(browser, office.url) as page:
        person = Operator(page)
        person.opens_link(_links(office, "run.completed", run.id)[0])
        person.clicks(page.get_by_role("button", name="Sign in"))
        person.sees("0 notes")


def _links(office: Office, kind: str, run_id: str) -> list[str]:
    return [each["link"] for each in office.receiver.of_type(kind) if each["run_id"] == run_id]
