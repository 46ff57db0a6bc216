"""The table of runs and the page of one, as they are sent: whole, harmless, and of use without
JavaScript.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
import pytest

from perdure import Client, Run
from perdure.worker.client.tokens import SavedFilters
from perdure.worker.settings import Settings
from perdure.worker.store import Store
from perdure.worker.web import Caller, Scope
from tests.support.html_checks import Markup
from tests.support.page_visitor import Page, Visitor, sound
from tests.support.redis_servers import server as server_of_its_own
from tests.support.runs import claim, commit_end, fail_round, park
from tests.support.threaded_server import serving

HOSTILE = (
    '<script>alert("x")</script>\u202e\x00\x07 مرحبا \U0001f469\u200d\U0001f680 \'"& {{ 7 * 7 }}'
)
KNOWN = ("countdown",)


@contextmanager
def somebody(settings: Settings, name: str, *scopes: Scope) -> Iterator[Visitor]:
    """Yield a visitor of this name with these scopes."""
    with (
        serving(settings, lambda request: Caller(name, frozenset(scopes))) as url,
        Visitor(url) as visitor,
    ):
        yield visitor


def queued(client: Client, store: Store) -> Run:
    return client.submit(
        "countdown",
        HOSTILE,
        {"rounds": 3},
        labels={HOSTILE: HOSTILE},
        budgets={"tokens": 1000, "money": 2},
    )


def running(client: Client, store: Store) -> Run:
    run = queued(client, store)
    claim(store, run.id, known=KNOWN, owner=HOSTILE)
    return run


def interrupted(client: Client, store: Store) -> Run:
    run = client.submit("countdown", HOSTILE, {"rounds": 3}, interrupt_before=["Controller"])
    told = {
        "i_kind": "node",
        "i_reason": HOSTILE,
        "i_data": json.dumps({"approval": {"command": HOSTILE, "args": {HOSTILE: HOSTILE}}}),
    }
    store.redis.hset(store.keys.run(run.id), mapping=told)
    return run


def stopped(client: Client, store: Store) -> Run:
    run = running(client, store)
    client.request_stop(run.id, "now", HOSTILE.replace("\x00", ""), HOSTILE.replace("\x00", ""))
    return run


def completed(client: Client, store: Store) -> Run:
    run = queued(client, store)
    answer = json.dumps({"text": HOSTILE * 50, "more": [HOSTILE]})
    assert (
        commit_end(
            store,
            claim(store, run.id, known=KNOWN),
            answer=answer,
            spent=json.dumps({"tokens": 900, "money": 0.5}),
        )[0]
        == "ok"
    )
    return run


def errored(client: Client, store: Store) -> Run:
    run = queued(client, store)
    fail_round(store, claim(store, run.id, known=KNOWN), max_failures=1, fatal=1)
    store.redis.hset(store.keys.run(run.id), "error", HOSTILE * 100)
    return run


STATUSES: dict[str, Callable[[Client, Store], Run]] = {
    made.__name__: made for made in (queued, running, interrupted, stopped, completed, errored)
}


@pytest.mark.parametrize("status", STATUSES)
def test_a_run_of_every_status_is_shown_with_all_that_is_hostile_in_it_made_harmless(
    visitor: Visitor, client: Client, live_store: Store, status: str
) -> None:
    run = STATUSES[status](client, live_store)
    assert client.get(run.id).status.value == status
    page = sound(visitor.see(f"/runs/{run.id}"))
    for words in (status, '<script>alert("x")</script>', "{{ 7 * 7 }}"):
        assert words in page.text
    table = sound(visitor.see("/runs"))
    assert status in table.text and f"/runs/{run.id}" in table.links


@pytest.mark.slow
def test_a_damaged_run_is_named_in_the_table_and_its_page_says_what_is_wrong(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = queued(client, live_store)
    live_store.redis.hset(live_store.keys.run(run.id), "labels", HOSTILE)
    assert f"/runs/{run.id}" in sound(visitor.see("/runs")).links
    page = sound(visitor.see(f"/runs/{run.id}"), 409)
    assert "cannot be read" in page.text and "'labels'" in page.text
    assert page.form("/delete") and page.form("/stop")


def test_a_huge_goal_is_cut_in_the_table_and_whole_on_its_page(
    visitor: Visitor, client: Client
) -> None:
    goal = "a word and " * 5000
    before = len(visitor.see("/runs").html)  # with the names of all flows of this process
    run = client.submit("countdown", goal)
    assert len(visitor.see("/runs").html) < before + len(goal) // 10
    assert goal.strip() in sound(visitor.see(f"/runs/{run.id}")).text


@pytest.mark.slow
def test_of_2000_rounds_the_newest_hundred_are_shown_and_the_older_ones_page_by_page(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = client.submit("countdown", "g", {"rounds": 1000})
    at = int(run.created_at.timestamp() * 1000)
    with live_store.redis.pipeline() as pipe:
        for step in range(2000):
            node = ("Controller", "Executor")[step % 2]
            event = {
                "type": "committed",
                "at": at + 20 * step + 20,
                "step": step,
                "attempt": 1,
                "node": node,
                "took": 4,
            }
            pipe.xadd(
                live_store.keys.events(run.id),
                {**event, "data": json.dumps({"command": "tick", "args": f"step{step}"})},
            )
        pipe.execute()
    page, seen = sound(visitor.see(f"/runs/{run.id}")), []
    assert "tick step1999" in page.text and len(page.html) < 250_000 and "waited 16 ms" in page.text
    for _ in range(30):
        seen += [
            word for word in page.text.split() if word.startswith("step") and word[4:].isdecimal()
        ]
        older = [link for link in page.links if "?before=" in link and "#" not in link]
        if not older:
            break
        page = visitor.see(older[0])
    assert [*dict.fromkeys(seen)] == [f"step{step}" for step in reversed(range(2000))]
    assert "submitted" in page.text


def test_what_a_round_waited_is_what_lies_between_it_and_the_round_before(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = client.submit("countdown", "g")
    at = int(run.created_at.timestamp() * 1000)
    for step, after, took in ((0, 5_000, 2_000), (1, 9_000, 1_000)):
        event = {
            "type": "committed",
            "at": at + after,
            "step": step,
            "attempt": 1,
            "node": "Controller",
            "took": took,
        }
        live_store.redis.xadd(live_store.keys.events(run.id), {**event, "data": "{}"})
    text = visitor.see(f"/runs/{run.id}").text
    assert "1.0 s · waited 3.0 s" in text and "2.0 s · waited 3.0 s" in text


@pytest.mark.slow
def test_artifacts_are_linked_and_shown(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = queued(client, live_store)
    live_store.redis.hset(live_store.keys.artifacts(run.id), f"a/b {HOSTILE}", HOSTILE)
    page = sound(visitor.see(f"/runs/{run.id}"))
    (link,) = [link for link in page.links if "/artifacts/" in link]
    assert '<script>alert("x")</script>' in sound(visitor.see(link)).text


def test_the_form_narrows_the_table_by_status_flow_and_labels(
    visitor: Visitor, client: Client
) -> None:
    one = client.submit("countdown", "one", labels={"team": "a", "env": "x"})
    other = client.submit("question", "other", labels={"team": "b"})
    for query, fitting in (
        ("status=queued", {one.id, other.id}), ("status=errored", set()), ("flow=question", {other.id}), ("label=team%3Da", {one.id}),
        ("label=team%3Da%2C+env%3Dx", {one.id}), ("flow=question&label=team%3Da", set()),
    ):  # fmt: skip
        page = sound(visitor.see(f"/runs?{query}"))
        assert {run.id for run in (one, other) if f"/runs/{run.id}" in page.links} == fitting, query
    for wrong in ("status=bogus", "label=team", "cursor=bogus"):
        page = sound(visitor.see(f"/runs?{wrong}"), 422)
        assert "should be" in page.text or "name=value" in page.text, wrong


@pytest.mark.slow
def test_older_runs_are_found_page_by_page(visitor: Visitor, client: Client) -> None:
    runs = [client.submit("countdown", str(number)) for number in range(60)]
    # Of those made in the same millisecond either may stand first.
    made = {f"/runs/{run.id}": run.created_at for run in runs}
    page = visitor.see("/runs")
    seen = [link for link in page.links if link.startswith("/runs/")]
    (older,) = [link for link in page.links if "cursor=" in link]
    seen += [link for link in sound(visitor.see(older)).links if link.startswith("/runs/")]
    seen = list(dict.fromkeys(seen))  # the goal and the id lead to the run
    assert sorted(seen) == sorted(made)
    assert [made[link] for link in seen] == sorted(made.values(), reverse=True)


@pytest.mark.slow
def test_a_filter_is_kept_under_a_name_used_and_forgotten_and_is_nobody_elses(
    visitor: Visitor, settings: Settings, client: Client
) -> None:
    client.submit("countdown", "g")
    kept = visitor.send(
        visitor.see("/runs?status=queued&flow=countdown"), "/filters", name='Mine <"&> '
    )
    address = "/runs?q=status%3Aqueued+flow%3Acountdown"
    assert 'Mine <"&>' in sound(kept).text and address in kept.links
    with somebody(settings, "eve", Scope.READ) as eve:
        assert "Mine" not in eve.see("/runs").text
    gone = visitor.send(kept, "/filters/forget")
    assert "was deleted" in gone.text
    assert not [form for form in gone.forms if form.action == "/filters/forget"]


@pytest.mark.slow
def test_a_filter_that_cannot_be_kept_is_refused(visitor: Visitor, client: Client) -> None:
    page = visitor.see("/runs?flow=countdown")
    assert "line of 1 to 60" in sound(visitor.send(page, "/filters", name="x" * 61), 422).text
    for number in range(50):
        SavedFilters(client, "local").save(str(number), "flow=countdown")
    assert "50 saved filters already" in visitor.send(page, "/filters", name="one more").text
    assert "49 was saved" in visitor.send(page, "/filters", name="49").text


def test_all_runs_of_a_query_are_stopped_once_their_number_was_seen(
    visitor: Visitor, client: Client
) -> None:
    mine = [client.submit("countdown", "g", labels={"n": "1"}) for _ in range(3)]
    other = client.submit("question", "g")
    page = sound(visitor.see("/chosen?action=stop&all=1&q=sort:oldest"))
    assert page.headings[0] == "Stop 4 runs?" and "All runs" in page.text
    page = sound(visitor.see("/chosen?action=stop&all=1&q=flow:countdown"))
    assert page.headings[0] == "Stop 3 runs?"
    after = visitor.choose(page, mode="now", reason="enough")
    assert "3 runs stopped" in after.text and after.url.endswith("/runs?q=flow%3Acountdown")
    assert [client.get(run.id).status.value for run in (*mine, other)] == ["stopped"] * 3 + [
        "queued"
    ]
    assert client.get(mine[0].id).details["stop_reason"] == "enough"


def test_chosen_runs_are_retried_and_deleted_and_those_that_cannot_be_are_left(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    bad, live, done = (make(client, live_store) for make in (errored, queued, completed))
    ids = "&".join(f"run={run.id}" for run in (bad, live, done))
    page = sound(visitor.see(f"/chosen?action=retry&{ids}"))
    assert page.headings[0] == "Retry 1 run?" and "1 queued, 1 completed" in page.text
    assert "1 run will be retried from the failed step" in visitor.choose(page).text
    page = sound(visitor.see(f"/chosen?action=delete&{ids}&run=nosuch"))
    assert page.headings[0] == "Delete 1 run?" and "cannot be undone" in page.text
    assert "1 run deleted" in visitor.choose(page).text
    assert {run.id for run in client.runs()} == {bad.id, live.id}
    assert "left unchanged" in visitor.choose(page).text  # the form is sent once more
    assert visitor.see("/chosen?action=fold").status == 422
    assert "No chosen run can be stopped" in visitor.see("/chosen?action=stop").text


@pytest.mark.slow
def test_who_may_only_read_is_shown_no_button_that_does_something(
    settings: Settings, client: Client, live_store: Store
) -> None:
    runs = [
        client.submit("countdown", "g", submitted_by="eve", interrupt_before=before)
        for before in (None, ["Controller"])
    ]
    with somebody(settings, "eve", Scope.READ) as eve:
        for run in runs:
            assert {
                form.action for form in eve.see(f"/runs/{run.id}").forms if form.method == "post"
            } == {"/theme"}
        assert "/start" not in eve.see("/runs").links


@pytest.mark.slow
def test_another_owners_run_is_not_found(settings: Settings, client: Client) -> None:
    run = client.submit("countdown", "secret", submitted_by="ada")
    with somebody(settings, "eve", Scope.READ, Scope.STOP) as eve:
        page = sound(eve.see(f"/runs/{run.id}"), 404)
        assert page.headings == ["No such run"] and "secret" not in page.html
        assert run.id not in eve.see("/runs").html


@pytest.mark.slow
def test_a_parked_run_takes_a_signal_from_its_page_once(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = queued(client, live_store)
    park(
        live_store, claim(live_store, run.id, known=KNOWN), "1", {"paid": 1, "cancelled": 1}, 60_000
    )
    page = sound(visitor.see(f"/runs/{run.id}"))
    assert "Waiting for a signal" in page.headings[1]
    payload = {"name": "paid", "payload": '{"amount": 12}'}
    for _ in range(2):
        sent = sound(visitor.send(page, f"/runs/{run.id}/signals", **payload))
    assert "Signal paid 1 of run" in sent.html and client.get(run.id).phase == "queued"
    assert live_store.signals.counts_of(run.id, ["paid"]) == {"paid": (0, 1)}
    broken = visitor.send(page, f"/runs/{run.id}/signals", name="paid", payload='{"amount": 12')
    assert broken.status == 422 and "begins like JSON" in broken.html
    assert json.loads(live_store.signals.stored(run.id, [("paid", 1)])[0][3]) == {"amount": 12}  # type: ignore[index]


def test_a_live_run_is_told_something_from_its_page_once(
    visitor: Visitor, client: Client, live_store: Store
) -> None:
    run = queued(client, live_store)
    page = sound(visitor.see(f"/runs/{run.id}"))
    assert "Say something to the run" in page.html and "Unread signals" not in page.html
    for _ in range(2):
        sent = sound(visitor.send(page, f"/runs/{run.id}/say", words="look at the invoices"))
    assert f"Said to run {run.id}" in sent.html and "Unread signals" in sent.html
    assert client.unread(run.id) == {"say": 1}
    assert visitor.send(page, f"/runs/{run.id}/say", words=" ").status == 422
    client.request_stop(run.id, mode="now")
    ended = sound(visitor.see(f"/runs/{run.id}"))
    assert "Say something" not in ended.html and "Unread signals" in ended.html


@pytest.mark.slow
def test_colours_are_chosen_and_nobody_is_led_elsewhere_by_it(visitor: Visitor) -> None:
    page = visitor.see("/runs?status=queued")
    dark = visitor.send(page, "/theme", theme="dark")
    assert 'data-theme="dark"' in sound(dark).html and dark.url.endswith("/runs?status=queued")
    assert "data-theme" not in visitor.send(dark, "/theme", theme="system").html
    for elsewhere in (
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "/\t/evil.example",
    ):
        assert "evil" not in visitor.send(page, "/theme", here=elsewhere).url
    there = visitor.send(page, "/theme", here="/runs?q=\u65e5\u672c&status=queued")
    assert there.url.endswith("/runs?q=%E6%97%A5%E6%9C%AC&status=queued")


@pytest.mark.slow
def test_static_files_are_kept_for_ever_by_the_digest_of_their_content_alone(
    visitor: Visitor, settings: Settings
) -> None:
    with serving(settings) as url, httpx2.Client(base_url=url, timeout=60.0) as http:
        addresses = Markup(http.get("/runs").text).scripts
        assert len(addresses) == 5
        for address in addresses:
            assert "immutable" in http.get(address).headers["Cache-Control"]
        assert http.get("/static/live.js?v=other").headers["Cache-Control"] == "no-cache"
        for outside in ("/static/../page.py", "/static/%2e%2e/app.py", "/static/vendor/"):
            assert http.get(outside).status_code == 404


@pytest.mark.slow
def test_where_the_state_server_is_away_the_page_says_so_and_looks_again() -> None:
    with (
        server_of_its_own() as running,
        serving(
            Settings(redis_url=running.url), lambda request: Caller("a", frozenset(Scope))
        ) as url,
        httpx2.Client(base_url=url, timeout=30) as http,
    ):
        assert http.get("/runs").status_code == 200
        running.kill()
        answer = http.get("/runs")
        assert answer.headers["Refresh"] == "2"
        assert sound(Page(answer), 503).headings == ["The state server does not answer"]
        running.restart()
        assert http.get("/runs").status_code == 200
