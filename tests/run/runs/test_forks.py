"""Forks: a run begins with the rounds of another run before a step, whose effects do not happen
again, and plays the rest itself.
"""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from perdure import (
    Client,
    Conflict,
    File,
    InvalidInput,
    NotForkable,
    RemoteClient,
    RunNotFound,
    Settings,
)
from perdure.flows.core.files import MOST_BYTES, MOST_TOGETHER
from perdure.worker.web import Caller, Scope
from perdure.worker.web.auth import AuthorizedClient
from tests.support.forked_runs import DONE, history, played, registered
from tests.support.html_checks import Markup
from tests.support.page_visitor import Visitor
from tests.support.round_driver import Driver
from tests.support.runs import everything, hash_of
from tests.support.threaded_server import serving

__all__ = ["registered"]


def played_until(driver: Driver, run_id: str, step: int) -> None:
    """Play the only live run until before a step."""
    while int(hash_of(driver.engine.store, run_id)["step"]) < step:
        message = driver.take()
        assert message is not None and message[0] == run_id
        driver.engine.rounds.run(*message)


@pytest.mark.parametrize("flow", ["adder", "journey"])
def test_a_fork_at_each_round_has_the_turns_before_and_plays_the_rest(
    client: Client, driver: Driver, flow: str
) -> None:
    old = played(client, driver, flow)
    before = hash_of(driver.engine.store, old)
    whole = history(client, old)
    rounds = [
        event for event in client.events(old, follow=False)
        if event.type == "committed" and (event.node == "Controller" or flow == "journey")
    ]  # fmt: skip
    assert len(rounds) >= 3
    for event in rounds:
        DONE.clear()
        fork = client.fork(old, event.step)
        taken = history(client, fork.id)
        assert (fork.state.step, fork.state.current_node) == (event.step, event.node)
        assert taken == whole[: len(taken)]
        driver.play()
        ended = client.get(fork.id)
        assert (
            ended.status.value == "completed"
            and ended.state.step
            == len(
                [each for each in client.events(fork.id, follow=False) if each.type == "committed"]
            )
            + event.step
        )
        assert DONE.total() == len(whole) - len(taken), "what was taken over is not done again"
        assert len(history(client, fork.id)) == len(whole)
        if flow == "adder":
            assert ended.answer == client.get(old).answer and history(client, fork.id) == whole
    assert hash_of(driver.engine.store, old) == before, "the other run does not change"


def test_goal_inputs_and_labels_may_be_others_and_what_is_not_given_is_that_of_the_run(
    client: Client, driver: Driver
) -> None:
    old = client.submit("adder", "g", {"by": 1, "kept": 5}, labels={"a": "b"}, max_rounds=50)
    driver.play()
    fork = client.fork(old, 4, goal="another", inputs={"by": 10})
    assert (dict(fork.inputs), dict(fork.labels)) == ({"by": 10, "kept": 5}, {"a": "b"})
    other = client.fork(old, 4, labels={"c": "d"})
    assert other.labels == {"c": "d"}
    found = client.runs(query=f"forked:{old.id}")
    assert {run.id for run in found} == {fork.id, other.id}
    driver.play()
    assert client.get(fork.id).answer == ["another", 1, 2, 12, 13]
    assert client.get(old.id).answer == ["g", 1, 2, 3, 4]


def test_what_the_rounds_before_spent_is_shown_and_not_counted(
    client: Client, driver: Driver
) -> None:
    old = played(client, driver, "adder")
    fork = client.fork(old, 6, budgets={"tokens": 15})
    assert fork.details["forked"] == {"run": old, "step": 6, "turns": 3, "spent": {"tokens": 30}}
    driver.play()
    assert client.get(fork.id).details["spent"] == {"tokens": 10}


def test_an_artifact_that_a_turn_names_is_there_when_the_run_is_deleted(
    client: Client, driver: Driver
) -> None:
    run = client.submit("adder", "g", {"by": "long"}, files=[File("a.txt", b"text")])
    driver.play()
    fork = client.fork(run, 2, inputs={"by": 1})
    client.delete(run.id)
    driver.play()
    assert client.artifact(fork.id, "1-add") == "x" * 300
    assert client.file(fork.id, "a.txt").content == b"text"
    assert client.get(fork.id).answer == ["g", "long", 2, 3, 4]


def test_a_long_text_and_files_of_child_runs_are_there_when_all_of_them_are_deleted(
    client: Client, driver: Driver, settings: Settings
) -> None:
    old = client.submit("at_once", "g")
    driver.play()
    whole = client.get(old.id)
    assert whole.answer == ["a" * 300, "b" * 200, "text/markdown", 500, "d" * 50]
    text, file, report = (turn["observation"] for turn in history(client, old.id)[:3])
    assert text["artifact"].endswith("/0-write") and file["file"].endswith("/0-drawn.md")
    step = next(
        event.step for event in client.events(old.id, follow=False)
        if event.type == "committed" and event.data.get("command") == "read"
    )  # fmt: skip
    fork = client.fork(old, step)
    client.delete(old.id, tree=True)
    assert [run.id for run in client.runs()] == [fork.id]
    DONE.clear()
    driver.play()
    assert client.get(fork.id).answer == whole.answer and not DONE
    second = client.fork(fork, step)
    client.delete(fork.id)
    driver.play()
    assert client.get(second.id).answer == whole.answer and not DONE
    assert client.artifact(second.id, text["artifact"]) == "a" * 300
    drawn = client.file(second.id, file["file"])
    assert drawn == File("0-drawn.md", b"b" * 200, "text/markdown")
    named = report["artifact"].replace("/0-report", "/files/0-named.txt")
    contents = [text["artifact"], file["file"].replace("/", "/files/"), report["artifact"], named]
    assert sorted(client.artifacts(second.id)) == sorted(contents)
    with serving(settings) as url, closing(RemoteClient(url)) as remote:
        assert remote.file(second.id, file["file"]) == drawn


def test_the_copy_of_a_childs_file_is_read_by_who_may_read_the_fork_and_no_other_runs_file_is(
    client: Client, driver: Driver
) -> None:
    old = client.submit("at_once", "g", submitted_by="ann")
    driver.play()
    name = history(client, old.id)[1]["observation"]["file"]
    step = next(
        event.step for event in client.events(old.id, follow=False)
        if event.type == "committed" and event.data.get("command") == "read"
    )  # fmt: skip
    fork = client.fork(old, step, submitted_by="bob")
    ann, bob = (
        AuthorizedClient(client, Caller(who, frozenset({Scope.READ}))) for who in ("ann", "bob")
    )
    assert ann.file(old.id, name).content == bob.file(fork.id, name).content == b"b" * 200
    client.delete(old.id, tree=True)
    assert bob.file(fork.id, name).content == b"b" * 200
    others = client.submit("adder", "g", {"by": 1}, files=[File("a.txt", b"x")], submitted_by="ann")
    assert ann.file(others.id, "a.txt").content == b"x"
    for reader, run_id, asked in ((ann, fork.id, name), (bob, fork.id, f"{others.id}/a.txt")):
        with pytest.raises(RunNotFound):
            reader.file(run_id, asked)


def test_a_fork_knows_what_people_said_to_the_run_before_its_step(
    client: Client, driver: Driver
) -> None:
    run = client.submit("listens", "g")
    played_until(driver, run.id, 2)
    client.say(run.id, "one", by="ada")
    played_until(driver, run.id, 4)
    client.say(run.id, "two")
    driver.play()
    assert client.get(run.id).answer == [["g", 1, 2, 3, 4], ["one", "two"]]
    for step, heard in ((2, []), (4, ["one"]), (6, ["one", "two"])):
        fork = client.fork(run, step)
        driver.play()
        assert client.get(fork.id).answer == [["g", 1, 2, 3, 4], heard]


def test_what_was_said_is_known_by_its_place_also_if_older_turns_are_gone(
    client: Client, driver: Driver
) -> None:
    run = client.submit("deaf", "g")
    played_until(driver, run.id, 4)
    client.say(run.id, "one")
    played_until(driver, run.id, 6)
    fork = client.fork(run, 6)
    fields = hash_of(driver.engine.store, fork.id)
    assert (fields["turns"], fields["forgotten"]) == ("4", "1")
    driver.play()
    assert client.get(fork.id).answer == client.get(run.id).answer
    assert client.get(fork.id).answer[1] == ["one"]


def test_a_fork_with_more_than_16_mib_is_refused_and_nothing_is_stored(
    client: Client, driver: Driver
) -> None:
    files = [
        File("a.txt", b"a" * MOST_BYTES),
        File("b.txt", b"b" * (MOST_TOGETHER - MOST_BYTES - 400)),
    ]
    run = client.submit("adder", "g", {"by": "long"}, files=files)
    driver.play()
    assert client.get(run.id).status.value == "completed"
    driver.engine.write_stats()  # A later heartbeat has nothing to write.
    before = everything(driver.engine.store)
    with pytest.raises(NotForkable, match="limit is 16,777,216"):
        client.fork(run, 2, run_id="fork", idempotency_key="k")
    assert everything(driver.engine.store) == before
    fork = client.fork(run, 0, run_id="fork", idempotency_key="k")
    assert client.file(fork.id, "b.txt") == files[1]


def test_a_fork_of_a_fork_has_the_rounds_of_both(client: Client, driver: Driver) -> None:
    old = played(client, driver, "adder")
    first = client.fork(old, 2, inputs={"by": 10})
    driver.play()
    second = client.fork(first, 4, inputs={"by": 100})
    driver.play()
    assert client.get(second.id).answer == ["g", 1, 11, 102, 103]
    with pytest.raises(NotForkable, match="fork that one") as caught:
        client.fork(second, 2)
    assert first.id in str(caught.value)


def test_chance_before_the_step_is_that_of_the_run_and_new_behind_it(
    client: Client, driver: Driver
) -> None:
    old = played(client, driver, "journey", goal="")
    last = client.get(old).state.step
    step = next(
        event.step for event in client.events(old, follow=False)
        if event.type == "committed" and event.data.get("did") == ["go"]
    )  # fmt: skip
    assert step < last
    fork = client.fork(old, step, inputs={"city": "Bergen"})
    driver.play()
    was, now = client.get(old).answer, client.get(fork.id).answer
    assert now[:2] == was[:2] and now[2] == "go to Bergen" and now[3] != was[3]
    assert dict(DONE) == {"go to Bergen": 1}


def test_a_fork_of_a_ring_at_each_node_comes_to_the_same(client: Client, driver: Driver) -> None:
    old = played(client, driver, "growing_ring")
    steps = client.get(old).state.step
    assert steps == 24
    for step in range(steps):
        fork = client.fork(old, step)
        driver.play()
        assert client.get(fork.id).answer == client.get(old).answer, step
        again = client.fork(fork, step + (step + 1 < steps))
        driver.play()
        assert client.get(again.id).answer == client.get(old).answer, step


def test_values_are_those_of_the_step_and_may_be_given_anew(client: Client, driver: Driver) -> None:
    old = played(client, driver, "remembers")
    fork = client.fork(old, 4)
    assert client.values(fork.id) == {"seen": 1}
    assert client.values(client.fork(old, 4, values={"seen": 7}).id) == {"seen": 7}
    assert client.values(client.fork(old, 4, values={}).id) == {"seen": 1}


def test_values_that_are_not_recorded_must_be_given_unless_the_step_is_the_newest(
    client: Client, driver: Driver
) -> None:
    old = played(client, driver, "unrecorded")
    with pytest.raises(InvalidInput, match=r"remembers values \(seen\)"):
        client.fork(old, 4)
    fork = client.fork(old, 4, values={"seen": 7})
    assert client.values(fork.id) == {"seen": 7}
    assert client.values(client.fork(old, 4, values={}).id) == {}
    with pytest.raises(InvalidInput, match="'command' cannot be given"):
        client.fork(old, 4, values={"command": "add"})
    assert client.values(client.fork(old, 0).id) == {}
    driver.play()
    live = client.submit("remembers", "g")
    for _ in range(2):
        message = driver.take()
        assert message is not None
        driver.engine.rounds.run(*message)
    assert client.values(client.fork(live, 2).id) == {"seen": 0}


def test_gone_turns_and_renewals_are_refused_with_the_steps_that_are_left(
    client: Client, driver: Driver
) -> None:
    with pytest.raises(NotForkable, match="the turns before it are gone"):
        client.fork(played(client, driver, "forgets"), 4)
    old = played(client, driver, "renews")
    with pytest.raises(NotForkable, match="it can be forked at 3") as caught:
        client.fork(old, 0)
    assert caught.value.code == "not-forkable"
    assert client.fork(old, 3, values={"again": True}).state.step == 3


def test_a_round_of_another_node_and_a_step_to_come_are_refused(
    client: Client, driver: Driver
) -> None:
    old = played(client, driver, "adder")
    with pytest.raises(NotForkable, match="node Executor: a fork begins at Controller"):
        client.fork(old, 3)
    with pytest.raises(InvalidInput, match="no step 9 to begin at"):
        client.fork(old, 9)
    with pytest.raises(RunNotFound):
        client.fork("nothing", 0)


def test_a_flow_without_a_history_is_refused(client: Client, driver: Driver) -> None:
    with pytest.raises(NotForkable, match="'unrecorded_ring' do not follow from a history"):
        client.fork(played(client, driver, "unrecorded_ring"), 0)


def test_rounds_whose_events_do_not_tell_their_turns_are_refused(
    client: Client, driver: Driver
) -> None:
    """Like events of an earlier release."""
    old = played(client, driver, "adder")
    store = driver.engine.store
    key = store.keys.events(old)
    entries = [(entry_id, dict(entry)) for entry_id, entry in store.redis.xrange(key)]
    store.redis.delete(key)
    for entry_id, entry in entries:
        if "history" in (data := json.loads(entry.get("data") or "{}")) and int(entry["step"]) < 4:
            del data["history"]
            entry["data"] = json.dumps(data)
        store.redis.xadd(key, entry, id=entry_id)
    with pytest.raises(NotForkable, match="not known"):
        client.fork(old, 2)
    assert client.fork(old, 6).state.step == 6


def test_an_idempotency_key_makes_one_fork(client: Client, driver: Driver) -> None:
    old = played(client, driver, "adder")
    made = client.fork(old, 4, goal="x", idempotency_key="k")
    assert client.fork(old, 4, goal="x", idempotency_key="k").id == made.id
    with pytest.raises(Conflict):
        client.fork(old, 2, goal="x", idempotency_key="k")


def test_a_fork_whose_worker_dies_goes_on_with_all_its_turns(
    client: Client, driver: Driver
) -> None:
    old = played(client, driver, "adder")
    fork = client.fork(old, 4)
    message = driver.take()
    assert message is not None and message == (fork.id, 0, 4)
    driver.dies_before_its_commit(*message)
    assert len(history(client, fork.id)) == 2


def test_a_fork_over_http_is_the_same_and_is_told(
    client: Client, driver: Driver, settings: Settings
) -> None:
    old = played(client, driver, "adder")
    with serving(settings) as url:
        with closing(RemoteClient(url)) as remote:
            fork = remote.fork(old, 4, inputs={"by": 10})
            driver.play()
            assert remote.get(fork.id).answer == ["g", 1, 2, 12, 13]
            assert remote.get(fork.id).details["forked"]["run"] == old
            with pytest.raises(NotForkable):
                remote.fork(old, 3)
        with Visitor(url) as visitor:
            page = visitor.see(f"/runs/{fork.id}")
            assert Markup(page.html).faults == [] and "before step 4" in page.text
            page = visitor.see(f"/runs/{old}/steps/4")
            assert Markup(page.html).faults == []
            page = visitor.send(page, f"/runs/{old}/fork", inputs='{"by": 100}')
            assert page.status == 200 and "forked from" in page.text
            driver.play()
            newest = client.runs(limit=1).runs[0]
            assert newest.answer == ["g", 1, 2, 102, 103] and newest.details["forked"]["step"] == 4


@pytest.mark.parametrize(("flow", "asks"), [("remembers", False), ("unrecorded", True)])
def test_the_form_asks_for_the_values_of_a_step_only_if_they_are_not_recorded(
    client: Client, driver: Driver, flow: str, asks: bool
) -> None:
    old = played(client, driver, flow)
    with serving(client.settings) as url, Visitor(url) as visitor:
        page = visitor.see(f"/runs/{old}/steps/4")
        assert ("fork-values" in page.html) is asks
