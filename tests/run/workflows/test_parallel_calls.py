"""Several calls of one reply, carried out at once in child runs of one command each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from perdure import Client, Run, RunStatus, Settings
from perdure.worker.presentation.timeline import row_of
from tests.support.chat_server import Says, chat_server
from tests.support.example_flows.agents import DONE
from tests.support.page_visitor import Visitor
from tests.support.round_driver import Driver, driving
from tests.support.swarms import swarm
from tests.support.threaded_server import serving

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.agents",))


@pytest.fixture
def driver(settings: Settings) -> Iterator[Driver]:
    DONE.clear()
    with driving(settings) as made:
        yield made


def look(*what: str) -> list[Any]:
    return [["look", {"what": each}] for each in what]


def played(client: Client, driver: Driver, run: Run) -> Run:
    driver.play()
    return client.get(run.id)


def children_of(client: Client, run: Run) -> list[Run]:
    return client.children(run.id, limit=200).runs


def turns_of(client: Client, run: Run) -> list[Any]:
    return client.transcript(run.id)["history"]


def test_the_calls_of_a_reply_are_runs_that_begin_at_once(client: Client, driver: Driver) -> None:
    run = swarm(client, look("a", "b", "c"))
    for _ in range(2):  # decides; starts the runs
        driver.engine.rounds.run(*(driver.take() or ("", 0, 0)))
    assert [each.status for each in children_of(client, run)] == [RunStatus.QUEUED] * 3
    done = played(client, driver, run)
    assert (done.answer, sorted(DONE)) == (["g: a", "g: b", "g: c"], ["a", "b", "c"])
    what = [turn["command"]["args"]["what"] for turn in turns_of(client, run)]
    assert what == ["a", "b", "c"]
    assert [each.answer for each in children_of(client, run)] == ["g: a", "g: b", "g: c"]


def test_turns_are_in_the_order_of_the_reply_whichever_call_ends_first(
    client: Client, driver: Driver
) -> None:
    reply = [["buy", {"what": "dear"}], *look("b"), ["buy", {"what": "cheap"}]]
    run = swarm(client, reply)
    driver.play()
    assert sorted(DONE) == ["b", "cheap"], "the others do not wait for the person"
    (question,) = client.inbox().waiting
    client.resume(question.run_id, "approve")
    done = played(client, driver, run)
    assert done.answer == ["bought dear", "g: b", "bought cheap"]
    assert sorted(DONE) == ["b", "cheap", "dear"], "each was carried out once"


def test_one_call_is_carried_out_in_the_run_itself(client: Client, driver: Driver) -> None:
    run = swarm(client, look("a"), ["look", {"what": "b"}])
    assert played(client, driver, run).answer == ["g: a", "g: b"]
    assert children_of(client, run) == []


def test_a_failed_call_is_an_observation(client: Client, driver: Driver) -> None:
    run = swarm(client, [["fail", {"how": "at once"}], ["fail", {"how": "fatally"}], *look("a")])
    first, second, third = played(client, driver, run).answer
    child = children_of(client, run)[1]
    assert first == {"error": "ValueError: failed at once"}
    assert (second["run"], third) == (child.id, "g: a")
    assert second["error"] == (
        f"ChildFailed: child run {child.id} (flow swarm) errored "
        "at step 0, node Executor: failed fatally"
    )


def test_calls_that_name_no_command_have_their_turns_in_between(
    client: Client, driver: Driver
) -> None:
    run = swarm(client, [*look("a"), ["lok", {"what": "x"}], ["look", {}], *look("b")])
    first, unknown, wrong, last = played(client, driver, run).answer
    assert (first, last) == ("g: a", "g: b")
    assert "no command is named 'lok'" in unknown["error"]
    assert "does not accept these arguments" in wrong["error"]
    assert len(children_of(client, run)) == 2


def test_finish_in_a_reply_ends_the_run_behind_the_calls_before_it(
    client: Client, driver: Driver
) -> None:
    run = swarm(client, [*look("a", "b"), ["finish", {"answer": "enough"}], *look("c")])
    assert played(client, driver, run).answer == "enough"
    assert sorted(DONE) == ["a", "b"]


@pytest.mark.parametrize("parallel", [True, False])
def test_finish_in_a_reply_does_not_end_the_run_if_a_call_before_it_failed_or_was_refused(
    client: Client, driver: Driver, parallel: bool
) -> None:
    for call in (["buy", {"what": "dear"}], ["fail", {"how": "at once"}]):
        reply = [call, *(look("a") if parallel else ()), ["finish", {"answer": "enough"}]]
        run = swarm(client, [*reply, *look("c")])
        driver.play()
        for question in client.inbox().waiting:
            client.resume(question.run_id, {"refuse": "never!"})
        answer = played(client, driver, run).answer
        assert "the run has not ended, because the call of" in answer[-2]["error"]
        assert "behind finish" in answer[-1]["error"]
    assert set(DONE) <= {"a"}


def test_a_command_that_finishes_ends_the_run_with_all_turns(
    client: Client, driver: Driver
) -> None:
    run = swarm(client, [*look("a"), ["give_up", {"why": "tired"}], ["give_up", {"why": "late"}]])
    done = played(client, driver, run)
    assert (done.answer, done.output["status"]) == ("tired", "finished")
    assert len(turns_of(client, run)) == 3


def test_what_commands_remember_is_in_the_run(client: Client, driver: Driver) -> None:
    run = swarm(client, [["note", {"what": "a"}], ["note", {"what": "b"}]])
    assert played(client, driver, run).answer == ["a", "b"]
    values = client.transcript(run.id)["run"]["values"]
    assert (values["noted_a"], values["noted_b"]) == (1, 1)


def test_each_call_has_a_key_of_its_own(client: Client, driver: Driver) -> None:
    run = swarm(client, [["key", {}], ["key", {}]])
    first, second = played(client, driver, run).answer
    assert [key.split(":")[0] for key in (first, second)] == [
        each.id for each in children_of(client, run)
    ]


def test_the_whole_of_a_long_result_is_an_artifact_of_the_call_s_run(
    client: Client, driver: Driver
) -> None:
    replies = [["recite", {"length": 10}], ["recite", {"length": 300_000}]]
    run = client.submit("coded-swarm", "g", {"replies": replies})
    name, length = played(client, driver, run).answer
    child = children_of(client, run)[1]
    assert (name, length) == (f"{child.id}/0-recite", 300_000)
    assert len(client.artifact(child.id, "0-recite")) == 300_000
    note = turns_of(client, run)[1]["observation"]["note"]
    assert note == (
        "cut after 1000 of 300000 characters; the whole is the artifact '0-recite' "
        f"of run {child.id}"
    )


def test_the_controller_reads_artifacts_of_its_run_and_of_its_calls(
    client: Client, driver: Driver
) -> None:
    run = swarm(
        client,
        ["recite", {"length": 2000}],
        [["recite", {"length": 3000}], ["recite", {"length": 4000}]],
        [["read_artifact", {"of": place}] for place in range(3)],
        [["read_artifact", {"of": 2}]],
    )
    *_, first, second, third, alone = played(client, driver, run).answer
    for result, length in zip((first, second, third), (2000, 3000, 4000), strict=True):
        assert f'"characters":{length}' in result["beginning"]
    assert alone["beginning"] == third["beginning"]


def test_a_run_reads_no_artifact_of_a_stranger(client: Client, driver: Driver) -> None:
    stranger = client.submit("swarm", "g", {"replies": [["recite", {"length": 2000}]]})
    driver.play()
    (name,) = client.artifacts(stranger.id)
    run = client.submit("peeping", "g", {"name": f"{stranger.id}/{name}"})
    assert "has no artifact" in str(played(client, driver, run).answer)


def test_a_budget_allows_as_many_calls_at_once_as_are_left(client: Client, driver: Driver) -> None:
    run = swarm(client, look(*"abcde"), budgets={"commands.look": 3})
    driver.play()
    assert sorted(DONE) == ["a", "b", "c"]
    (question,) = client.inbox().waiting
    assert question.run_id == run.id
    client.resume(run.id, add={"commands.look": 2})
    assert played(client, driver, run).answer == [f"g: {each}" for each in "abcde"]
    assert client.get(run.id).details["spent"] == {"commands.look": 5}


def test_a_command_may_run_fewer_times_at_once(client: Client, driver: Driver) -> None:
    reply = [["research", {"goal": each}] for each in "abcde"]
    run = swarm(client, reply)
    most = 0
    while (message := driver.take()) is not None:
        driver.engine.rounds.run(*message)
        most = max(most, sum(not each.finished for each in children_of(client, run)))
    assert client.get(run.id).answer == [f"{each}, 1 deep" for each in "abcde"]
    assert most == 2


def test_no_more_calls_run_at_once_than_parallel_calls(client: Client, driver: Driver) -> None:
    run = swarm(client, look(*map(str, range(20))))
    most = 0
    while (message := driver.take()) is not None:
        driver.engine.rounds.run(*message)
        most = max(most, sum(not each.finished for each in children_of(client, run)))
    assert (most, len(client.get(run.id).answer)) == (8, 20)


def test_in_the_last_generation_the_calls_follow_one_another(
    client: Client, driver: Driver, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings.model_copy(update={"max_depth": 1})
    reply = [["dive", {"goal": "d", "replies": [look("a", "b")]}], *look("c")]
    run = client.submit("diver", "g", {"replies": [reply[0]]}, budgets={"commands.dive": 5})
    with driving(settings) as shallow:
        shallow.play()
    assert client.get(run.id).answer == [["d: a", "d: b"]]
    (child,) = children_of(client, run)
    assert children_of(client, child) == []
    assert caplog.text.count("the calls of this reply are carried out one after another") == 1


def test_long_results_of_many_calls_fit_into_one_round(client: Client, driver: Driver) -> None:
    reply = [["recite", {"length": 30_000}] for _ in range(20)]
    run = client.submit("gossip", "g", {"replies": [[*reply, ["finish", {"answer": "done"}]]]})
    assert played(client, driver, run).answer == "done"
    assert [turn["observation"]["artifact"] for turn in turns_of(client, run)] == [
        f"1-{place}-recite" for place in range(1, 21)
    ]
    assert len(client.artifact(run.id, "1-20-recite")) == 30_000


def test_code_that_decides_gets_a_failed_call_as_an_error_that_a_retry_mends(
    client: Client, driver: Driver
) -> None:
    run = client.submit("coded-swarm", "g", {"replies": [*look("a"), ["stumble", {}]]})
    done = played(client, driver, run)
    assert done.status is RunStatus.ERRORED
    stumbled = children_of(client, run)[1]
    assert f"perdure retry {stumbled.id}" in str(done.error)
    client.retry(run.id)
    driver.sweep_and_play()
    assert client.get(run.id).answer == [f"{stumbled.id}/0-stumble", 2000]
    assert DONE == ["a", "stumbled", "stumbled"], "what has succeeded is not carried out again"


def test_pauses_of_the_flow_are_for_the_run_and_not_for_each_call(
    client: Client, driver: Driver
) -> None:
    run = client.submit("watched-swarm", "g", {"replies": [look("a", "b")]})
    for _ in range(2):
        driver.play()
        assert [each.run_id for each in client.inbox().waiting] == [run.id]
        client.resume(run.id)
    assert played(client, driver, run).answer == ["g: a", "g: b"]


def test_the_events_say_what_was_decided_and_what_came_of_it(
    client: Client, driver: Driver
) -> None:
    run = swarm(client, [*look("a", "b"), ["fail", {"how": "x"}]])
    driver.play()
    told = [row_of(each).text for each in client.events(run.id, follow=False)]
    assert "calls at once: fail, 2 look" in told
    assert any(
        text.startswith("3 calls, 1 failed: look: g: a · look: g: b · fail: ") for text in told
    )


def test_a_model_gets_the_answers_of_its_calls_in_their_order(
    client: Client, settings: Settings
) -> None:
    calls = [
        ("look", {"what": "a"}),
        ("research", {"goal": "b", "depth": 2}),
        ("lok", {}),
        ("look", {"what": "c"}),
    ]
    script = [Says("I look.", calls)] * 4 + [Says("", [("finish", {"answer": "done"})])]
    with chat_server(script) as chat:
        settings = settings.model_copy(update={"model_url": chat.url, "model": "scripted"})
        run = client.submit("model-swarm", "g")
        with driving(settings) as driver:
            driver.play()
        asked = chat.play.asked[-1].body
    assert client.get(run.id).answer == "done"
    assert len(children_of(client, run)) == 3
    told = [str(each["content"]) for each in asked["messages"] if each["role"] == "tool"]
    assert [text[:9] for text in told] == ["g: a", "b, 2 deep", '{"error":', "g: c"]
    (shown,) = [
        each["function"] for each in asked["tools"] if each["function"]["name"] == "research"
    ]
    assert shown["parameters"]["properties"]["depth"]["type"] == "integer"
    assert shown["parameters"]["required"] == ["goal"]


def test_a_stopped_run_goes_on_with_the_calls_that_were_not_carried_out(
    client: Client, driver: Driver
) -> None:
    run = swarm(client, look("a", "b", "c"))
    for _ in range(3):  # decides; starts the runs; one run
        driver.engine.rounds.run(*(driver.take() or ("", 0, 0)))
    client.request_stop(run.id)
    driver.play()
    assert DONE == ["a"]
    client.resume(run.id)
    driver.sweep_and_play()
    assert client.get(run.id).answer == ["g: a", "g: b", "g: c"]
    assert sorted(DONE) == ["a", "b", "c"]


def test_people_see_the_command_of_each_call(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = swarm(client, [["buy", {"what": "dear"}], ["key", {}]])
    driver.play()
    first, second = children_of(client, run)
    assert (first.title, second.title, run.title) == ('buy {"what": "dear"}', "key", "g")
    assert first.details["call"] == {"command": "buy", "args": {"what": "dear"}}
    assert f"Run {first.id} of these waits for a person" in client.why(run.id).sentence
    with serving(settings) as url, Visitor(url) as visitor:
        assert 'buy {"what": "dear"}' in visitor.see(f"/runs/{run.id}").text
        assert 'buy {"what": "dear"}' in visitor.see(f"/runs/{first.id}").text


def test_a_reply_to_a_person_is_given_by_the_run_itself(client: Client, driver: Driver) -> None:
    run = swarm(client, [*look("a", "b"), ["reply", {"answer": "two"}], *look("c", "d")])
    asked = client.signal(run.id, "ask", "how many?")
    driver.play()
    assert client.reply(run.id, asked.number).value == "two"
    assert [turn["command"]["name"] for turn in turns_of(client, run) if turn["command"]] == [
        "look",
        "look",
        "reply",
        "look",
        "look",
    ]
    assert len(children_of(client, run)) == 4
