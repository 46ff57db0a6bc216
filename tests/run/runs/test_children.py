"""Child runs: started once, answers delivered once, stopped and continued with their parent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from perdure import Client, InvalidTransition, Run, RunStatus, Settings
from perdure.worker.cli.commands.stop import describe_receipt
from perdure.worker.domain.fleet import describe
from perdure.worker.domain.submission import PLAIN_TOPICS
from tests.support.example_flows import child_runs
from tests.support.page_visitor import Visitor
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, driving
from tests.support.runs import hash_of
from tests.support.threaded_server import serving

MODULES = ("tests.support.example_flows.child_runs",)


pytestmark = pytest.mark.settings(flow_modules=MODULES)


def fan(client: Client, *children: dict[str, Any], **options: Any) -> Run:
    """Submit a parent of a group, not yet played."""
    return client.submit("fan", "g", {"children": list(children), "options": options})


def played(client: Client, driver: Driver, run: Run) -> Run:
    driver.play()
    return client.get(run.id)


def sweep_until_ended(driver: Driver, run: Run) -> None:
    def ended() -> bool:
        driver.sweep_and_play()
        return driver.client.get(run.id).status.ended

    until(ended, "the end of the run")


def children_of(client: Client, run: Run) -> list[Run]:
    """Return the children of a run, in their order."""
    found = client.children(run.id, limit=200).runs
    assert [each.details["parent"] for each in found] == [run.id] * len(found)
    return found


def test_a_child_s_answer_is_its_parent_s(client: Client, driver: Driver) -> None:
    run = client.submit("errand", "milk", {"child": {"rounds": 2}})
    order = driver.play()
    done = client.get(run.id)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, [1, "milk"])
    assert [each == run.id for each in order] == [True, False, False, True]


def test_the_ends_are_told_in_the_order_of_the_children(client: Client, driver: Driver) -> None:
    run = fan(client, {"rounds": 3}, {"fail": True}, {"answer": {"a": 1}}, wait="settled")
    told, missing = played(client, driver, run).answer
    assert told == [[0, "completed", "item 0"], [1, "errored", None], [2, "completed", {"a": 1}]]
    assert missing == []


def test_a_failure_ends_the_wait_for_all_and_the_others_are_stopped(
    client: Client, driver: Driver
) -> None:
    run = fan(client, {"wait": True}, {"fail": True}, {"rounds": 5})
    done = played(client, driver, run)
    failed = children_of(client, run)[1]
    assert done.status is RunStatus.ERRORED
    assert f"child run {failed.id} (flow chore) errored at step 0" in str(done.error)
    assert [each.status.value for each in children_of(client, run)] == [
        "stopped",
        "errored",
        "stopped",
    ]


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        ("first", [[1, "completed", "item 1"]]),
        ("any", [[0, "errored", None]]),
        (2, [[1, "completed", "item 1"], [2, "completed", "item 2"]]),
    ],
)
def test_the_parent_goes_on_when_enough_have_ended(
    client: Client, driver: Driver, wait: str | int, expected: list[Any]
) -> None:
    run = fan(client, {"fail": True}, {"rounds": 2}, {"rounds": 3}, {"wait": True}, wait=wait)
    told, missing = played(client, driver, run).answer
    assert [each for each in told if each[1] == "completed" or wait == "any"] == expected
    assert 3 in missing
    assert children_of(client, run)[3].status is RunStatus.STOPPED


def test_a_quorum_that_can_no_longer_be_reached_ends_the_wait(
    client: Client, driver: Driver
) -> None:
    run = fan(client, {"fail": True}, {"fail": True}, {"wait": True}, wait=2)
    told, missing = played(client, driver, run).answer
    assert (told, missing) == ([[0, "errored", None], [1, "errored", None]], [2])


def test_no_more_run_than_max_concurrency(client: Client, driver: Driver) -> None:
    run = fan(client, *[{"rounds": 2}] * 7, wait="settled", max_concurrency=2)
    most = 0
    while (message := driver.take()) is not None:
        driver.engine.rounds.run(*message)
        live = [each for each in children_of(client, run) if not each.finished]
        most = max(most, len(live))
    assert most == 2
    assert len(client.get(run.id).answer[0]) == 7


@pytest.mark.parametrize("listed", [2, 3])
@pytest.mark.parametrize("gone", [0, 1, 2, 4])
def test_the_next_page_of_children_skips_none_though_the_oldest_are_gone(
    client: Client, driver: Driver, listed: int, gone: int
) -> None:
    run = fan(client, *[{"rounds": 2}] * 7, wait="settled", max_concurrency=1)
    played(client, driver, run)
    ids = [child.id for child in client.children(run.id)]
    page = client.children(run.id, listed)
    store = client._store
    starts = [event for event, data in store.events.read(run.id) if data["type"] == "started"]
    store.redis.xtrim(store.keys.events(run.id), minid=starts[gone], approximate=False)
    later = client.children(run.id, 50, page.cursor)
    assert len(ids) == len(starts) == 7
    assert [child.id for child in later] == ids[max(listed, gone) :]


def test_a_cursor_of_children_from_an_earlier_version_goes_on(
    client: Client, driver: Driver
) -> None:
    run = fan(client, *[{"rounds": 2}] * 3, wait="settled")
    played(client, driver, run)
    ids = [child.id for child in client.children(run.id)]
    assert [child.id for child in client.children(run.id, 50, "2")] == ids[2:]


def test_a_tree_of_runs(client: Client, driver: Driver) -> None:
    run = client.submit("nest", "g", {"depth": 3})
    assert played(client, driver, run).answer == 15
    deepest = max(
        client.runs(limit=200, children=True).runs,
        key=lambda each: int(each.details.get("depth", 0)),
    )
    assert (deepest.details["depth"], deepest.details["root"]) == (3, run.id)


def test_one_slot_completes_a_tree_of_511_runs(client: Client, driver: Driver) -> None:
    run = client.submit("nest", "g", {"depth": 8})
    assert played(client, driver, run).answer == 511


def test_no_children_are_an_empty_group_and_no_wait(client: Client, driver: Driver) -> None:
    run = fan(client)
    assert played(client, driver, run).answer == [[], []]
    assert not [each for each in client.events(run.id, follow=False) if each.type == "parked"]


def test_a_map_makes_a_child_of_each_item(client: Client, driver: Driver) -> None:
    run = client.submit("atlas", "g", {"items": ["a", 2]})
    assert played(client, driver, run).answer == ["Read a", "Read 2"]
    assert [each.labels for each in children_of(client, run)] == [{"of": "map"}] * 2
    assert [each.inputs for each in children_of(client, run)] == [{"rounds": 1}, {"rounds": 1}]


def test_a_child_that_takes_too_long_is_stopped(client: Client, driver: Driver) -> None:
    run = client.submit("errand", "g", {"child": {"wait": True}, "options": {"timeout": 0.01}})
    driver.play()
    sweep_until_ended(driver, run)
    done = client.get(run.id)
    assert done.status is RunStatus.ERRORED
    assert "the time (0.01) was over before its child (flow chore) had ended" in str(done.error)
    (child,) = children_of(client, run)
    assert (child.status, child.details["stop_by"]) == (RunStatus.STOPPED, f"parent {run.id}")


def test_a_group_whose_time_is_over_has_those_that_ended(client: Client, driver: Driver) -> None:
    run = fan(client, {}, {"wait": True}, wait="settled", timeout=0.01)
    driver.play()
    sweep_until_ended(driver, run)
    assert client.get(run.id).answer == [[[0, "completed", "item 0"]], [1]]


def test_a_child_waits_for_a_person_and_its_parent_for_it(client: Client, driver: Driver) -> None:
    run = client.submit("errand", "g", {"child": {"ask": True}})
    driver.play()
    (waiting,) = client.inbox().waiting
    assert (waiting.run_id, client.get(run.id).phase) == (children_of(client, run)[0].id, "parked")
    assert f"Run {waiting.run_id} of these waits for a person" in client.why(run.id).sentence
    client.resume(waiting.run_id, "yes")
    assert played(client, driver, run).answer == [1, "g"]


def test_a_child_has_what_it_was_given(client: Client, driver: Driver) -> None:
    options = {"budgets": {"tokens": 5}, "max_rounds": 3, "labels": {"a": "b"}, "deadline": 60}
    run = client.submit("errand", "g", {"options": options}, submitted_by="ann")
    driver.play()
    (child,) = children_of(client, run)
    assert (child.goal, child.labels, child.details["budgets"]) == ("g", {"a": "b"}, {"tokens": 5})
    assert child.details["submitted_by"] == "ann"
    assert PLAIN_TOPICS in hash_of(client._store, child.id)
    deadline = datetime.fromisoformat(child.details["deadline"])
    assert (deadline - child.created_at).total_seconds() == pytest.approx(60, abs=5)


def test_a_long_answer_is_read_from_the_child(client: Client, driver: Driver) -> None:
    run = client.submit("errand", "g", {"child": {"answer": "x" * 70_000}})
    assert played(client, driver, run).answer == [1, "x" * 70_000]


def test_a_stopped_tree_goes_on_where_it_was(client: Client, driver: Driver) -> None:
    run = fan(client, {}, {"wait": True}, {"rounds": 3}, wait="settled")
    for _ in range(3):
        driver.engine.rounds.run(*(driver.take() or ("", 0, 0)))
    client.request_stop(run.id)
    assert [each.status.value for each in children_of(client, run)] == [
        "completed",
        "stopped",
        "stopped",
    ]
    stopped = children_of(client, run)[1]
    assert f"perdure resume {run.id}, which continues the runs below" in (
        client.why(stopped.id).sentence
    )
    driver.play()  # messages of rounds that are not wanted any more
    client.resume(run.id)
    driver.sweep_and_play()
    waiting = children_of(client, run)[1]
    assert waiting.phase == "parked"
    client.signal(waiting.id, "go")
    told, _ = played(client, driver, run).answer
    assert [each[1] for each in told] == ["completed"] * 3


def test_a_failed_child_that_is_retried_first_is_not_played_again_by_its_parent(
    client: Client, driver: Driver
) -> None:
    run = fan(client, {}, {"fail": True}, wait="settled")
    told, _ = played(client, driver, run).answer
    assert [each[1] for each in told] == ["completed", "errored"]
    # Its group is gone with its step: the retry changes nothing for the parent.
    failed = children_of(client, run)[1]
    client.retry(failed.id)
    driver.play()
    assert client.get(run.id).status is RunStatus.COMPLETED


def test_a_parent_that_failed_with_its_child_goes_on_with_it(
    client: Client, driver: Driver
) -> None:
    run = fan(client, {"rounds": 2}, {"ask": True})
    driver.play()
    asks = children_of(client, run)[1]
    client.request_stop(asks.id)
    driver.play()
    assert client.get(run.id).status is RunStatus.ERRORED
    client.resume(asks.id, "yes")
    client.retry(run.id)
    driver.sweep_and_play()
    told, _ = client.get(run.id).answer
    assert [each[1] for each in told] == ["completed", "completed"]


def test_a_deleted_child_is_gone(client: Client, driver: Driver) -> None:
    run = fan(client, {"wait": True}, wait="settled")
    driver.play()
    client.request_stop(run.id)
    (child,) = children_of(client, run)
    client.delete(child.id)
    client.resume(run.id)
    assert played(client, driver, run).answer == [[[0, "gone", None]], []]


def test_children_that_nobody_started_are_started_by_a_sweep(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = client.submit("errand", "g")
    message = driver.take()
    assert message is not None
    driver.dies_before_follow_ups()
    driver.engine.rounds.run(*message)
    assert driver.take() is None
    with driving(settings) as another:
        sweep_until_ended(another, run)
    assert client.get(run.id).answer == [1, "g"]


@pytest.fixture
def mended() -> Iterator[list[str]]:
    yield child_runs.MENDED
    child_runs.MENDED.clear()


def played_at(client: Client, run: Run) -> list[str]:
    """Return the ids of a run's children, one for each committed round."""
    return [
        child.id
        for child in children_of(client, run)
        for event in client.events(child.id, follow=False)
        if event.type == "committed"
    ]


def test_a_retry_of_a_parent_retries_its_failed_children_and_no_others(
    client: Client, driver: Driver, mended: list[str]
) -> None:
    run = fan(client, {}, {"fail": True}, {}, {"fail": True}, max_concurrency=4)
    assert played(client, driver, run).status is RunStatus.ERRORED
    before = played_at(client, run)
    assert children_of(client, run)[1].status is RunStatus.ERRORED
    mended.append("now")
    client.retry(run.id)
    driver.sweep_and_play()
    done = client.get(run.id)
    assert [each[1] for each in done.answer[0]] == ["completed"] * 4
    again = played_at(client, run)
    assert all(again.count(each) == 1 for each in before)


def test_a_retry_without_children_finds_the_same(
    client: Client, driver: Driver, mended: list[str]
) -> None:
    run = fan(client, {"fail": True})
    played(client, driver, run)
    mended.append("now")
    client.retry(run.id, children=False)
    assert played(client, driver, run).status is RunStatus.ERRORED


def test_a_retry_reaches_every_generation(
    client: Client, driver: Driver, mended: list[str]
) -> None:
    run = client.submit("scouts", "g", {"children": [{"child": {"fail": True}}]})
    assert played(client, driver, run).status is RunStatus.ERRORED
    mended.append("now")
    client.retry(run.id)
    driver.sweep_and_play()
    assert client.get(run.id).answer == [[0, "errand", "completed"]]


def test_a_parent_that_holds_waits_until_its_failed_child_is_mended(
    client: Client, driver: Driver, mended: list[str]
) -> None:
    run = fan(client, {}, {"fail": True}, {}, on_failure="hold", max_concurrency=1)
    assert played(client, driver, run).phase == "parked"
    failed = children_of(client, run)[1]
    verdict = client.why(run.id)
    assert verdict.details["held_back"] == [failed.id]
    assert f"perdure retry {failed.id}" in verdict.sentence
    mended.append("now")
    client.retry(failed.id)
    told, _ = played(client, driver, run).answer
    assert [each[1] for each in told] == ["completed"] * 3


def test_a_retry_of_a_parent_that_waits_retries_what_is_held_back(
    client: Client, driver: Driver, mended: list[str]
) -> None:
    run = fan(client, {"fail": True}, {"wait": True}, {"fail": True}, on_failure="hold")
    driver.play()
    mended.append("now")
    assert client.retry(run.id).phase == "parked"
    client.signal(children_of(client, run)[1].id, "go")
    told, _ = played(client, driver, run).answer
    assert [each[1] for each in told] == ["completed"] * 3
    with pytest.raises(InvalidTransition):
        client.retry(run.id)


def test_children_go_on_if_only_their_parent_is_stopped(client: Client, driver: Driver) -> None:
    run = fan(client, {"rounds": 2}, {"rounds": 2})
    driver.engine.rounds.run(*(driver.take() or ("", 0, 0)))
    client.request_stop(run.id, children=False)
    driver.play()
    assert [each.status.value for each in children_of(client, run)] == ["completed"] * 2
    assert client.get(run.id).status is RunStatus.STOPPED
    client.resume(run.id)
    told, _ = played(client, driver, run).answer
    assert [each[1] for each in told] == ["completed"] * 2


def test_a_second_stop_says_that_the_children_that_went_on_are_stopped_now(
    client: Client, driver: Driver
) -> None:
    run = fan(client, {"rounds": 2}, {"rounds": 2})
    driver.engine.rounds.run(*(driver.take() or ("", 0, 0)))
    assert not client.request_stop(run.id, children=False).stops_children
    now = client.request_stop(run.id)
    assert now.stops_children
    assert "its children, which went on, are stopped now" in describe_receipt(now)[1]
    driver.play()
    assert not client.request_stop(run.id).stops_children
    assert [each.status.value for each in children_of(client, run)] == ["stopped"] * 2


def test_children_that_were_started_are_joined_in_a_later_step(
    client: Client, driver: Driver
) -> None:
    run = client.submit("scouts", "g", {"children": [{}, {"rounds": 3}]})
    done = played(client, driver, run)
    assert done.answer == [[0, "errand", "completed"], [1, "chore", "completed"]]
    events = [each.type for each in client.events(run.id, follow=False)]
    assert events.count("started") == 1 and events.index("started") < events.index("parked")


def test_a_group_that_was_not_joined_in_time_can_be_joined_later(
    client: Client, driver: Driver
) -> None:
    inputs = {"children": [{}, {"wait": True}], "again": True}
    run = client.submit("scouts", "g", {**inputs, "join": {"wait": "settled", "timeout": 0.01}})
    driver.play()

    def waits_again() -> bool:
        driver.sweep_and_play()
        return [each.type for each in client.events(run.id, follow=False)].count("parked") == 2

    until(waits_again, "the second wait")
    client.signal(children_of(client, run)[1].id, "go")
    driver.sweep_and_play()
    assert [each[2] for each in client.get(run.id).answer] == ["completed"] * 2


def test_children_that_were_never_joined_are_stopped_when_their_parent_ends(
    client: Client, driver: Driver
) -> None:
    run = client.submit("scouts", "g", {"children": [{}, {"wait": True}], "early": True})
    assert played(client, driver, run).answer == "early"
    assert children_of(client, run)[1].status is RunStatus.STOPPED


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"flow": "chorr"}, "child 0 (flow chorr): no flow is named 'chorr'; did you mean 'chore'?"),
        ({"flow": 7}, "child 0 (flow 7): expected the name of a flow, got 7"),
        ({"flow": "strict", "given": {"b": 1}}, "child 0 (flow strict)"),
        ({"goal": 5}, "child 0 (flow chore): goal: expected a text"),
        ({"budgets": {"tokens": -1}}, "child 0 (flow chore)"),
        ({"deadline": 1e12}, "child 0 (flow chore): deadline"),
        ({"given": {"a": b"1"}}, "child 0 (flow chore)"),
        ({"count": 10_001}, "10001 children; the limit is 10000 (max_children)"),
        ({"count": 6, "distinct": True}, "max_state_bytes"),
    ],
)  # fmt: skip
def test_a_child_that_cannot_be_started_fails_the_round_and_starts_nothing(
    client: Client, driver: Driver, inputs: dict[str, Any], told: str
) -> None:
    child_runs.WANTED = inputs
    run = client.submit("careless", "g")
    done = played(client, driver, run)
    assert (done.status, done.details["attempt"]) == (RunStatus.ERRORED, 1)
    assert told in str(done.error)
    assert children_of(client, run) == []


def test_a_flow_that_only_another_worker_has_can_be_started(client: Client, driver: Driver) -> None:
    store = driver.engine.store
    announced = {"flows": {"elsewhere": describe(child_runs.Strict())}}
    store.fleet.announce("another", announced, store.time(), 0)
    child_runs.WANTED = {"flow": "elsewhere", "given": {"a": 1}}
    run = client.submit("careless", "g")
    driver.play()
    (child,) = children_of(client, run)
    assert (child.flow, child.inputs, child.status) == ("elsewhere", {"a": 1}, RunStatus.QUEUED)
    child_runs.WANTED = {"flow": "elsewhere", "given": {"b": 1}}
    refused = played(client, driver, client.submit("careless", "g"))
    assert "flow 'elsewhere' does not accept these inputs" in str(refused.error)


def test_generations_have_a_limit(client: Client, driver: Driver) -> None:
    run = client.submit("nest", "g", {"depth": 9, "width": 1})
    done = played(client, driver, run)
    assert done.status is RunStatus.ERRORED
    assert "9th generation; the limit is 8 (max_depth)" in str(done.error)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"wait": 3}, "wait=3 for 2 children"),
        ({"wait": 0}, "wait=0 for 2 children"),
        ({"wait": True}, "wait=True"),
        ({"wait": "some"}, "wait='some' for 2 children: expected all, settled, any, first"),
        ({"max_concurrency": 0}, "max_concurrency=0"),
        ({"max_concurrency": True}, "max_concurrency=True"),
        ({"timeout": -1}, "-1"),
        ({"policy": "forget"}, "policy='forget'"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    client: Client, driver: Driver, options: dict[str, Any], told: str
) -> None:
    run = fan(client, {}, {}, **options)
    driver.play()
    done = client.get(run.id)
    assert told in str(done.error or done.details["last_error"])
    assert done.status is RunStatus.ERRORED or "timeout" in options
    assert children_of(client, run) == []


def test_the_dashboard_shows_the_children_that_a_run_waits_for(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = fan(client, {}, {"wait": True}, wait="settled")
    driver.play()
    child = children_of(client, run)[1]
    with serving(settings) as url, Visitor(url) as visitor:
        page = visitor.see(f"/runs/{run.id}")
        assert "waits for 2 child runs: 1 succeeded, 1 under way" in page.text
        assert f"/runs/{child.id}" in page.html
        assert f"/runs/{run.id}" in visitor.see(f"/runs/{child.id}").html
