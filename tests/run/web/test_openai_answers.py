"""Answers of people over OpenAI's API: each counts, or the client learns that it does not."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from perdure import Client, RunStatus
from perdure.worker.settings import Settings
from perdure.worker.web.openai_api import files
from tests.support.example_flows import exposed_flows  # noqa: F401 -- registers flows
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, playing
from tests.support.runs_in_every_status import play
from tests.support.threaded_server import serving
from tests.support.workflow_effects import let_deadline_pass

pytestmark = pytest.mark.settings(flow_modules=("tests.support.example_flows.exposed_flows",))


@pytest.fixture
def http(settings: Settings) -> Iterator[httpx2.Client]:
    with serving(settings) as url, httpx2.Client(base_url=url, timeout=60) as made:
        yield made


@pytest.fixture
def asking(client: Client, settings: Settings) -> str:
    """The id of a run that asks a question."""
    run_id = client.submit("asks", "question").id
    play(settings, run_id)
    return run_id


def send(http: httpx2.Client, items: Any, **more: Any) -> httpx2.Response:
    body = {"model": "asks", "input": items, "background": True, **more}
    return http.post("/v1/responses", json=body)


def output(run_id: str, text: Any, question: str = "0:0") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"{run_id}/{question}", "output": text}


PNG = b"\x89PNG\r\n\x1a\n"
USER = {"role": "user", "content": "and be quick"}


@pytest.mark.parametrize("text", ["NaN", "Infinity", '{"a": 1, "a": 2}', "1" * 30])
def test_a_text_that_is_no_strict_json_is_an_answer(
    client: Client, http: httpx2.Client, settings: Settings, asking: str, text: str
) -> None:
    assert send(http, [output(asking, text)]).json()["id"] == asking
    play(settings, asking)
    assert str(client.get(asking).answer) == text


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
@pytest.mark.parametrize("order", [1, -1])
def test_an_answer_beside_a_new_message_is_refused_and_the_question_stays_open(
    client: Client, http: httpx2.Client, asking: str, path: str, order: int
) -> None:
    if path == "/v1/responses":
        answer = send(http, [output(asking, "left"), USER][::order], previous_response_id=asking)
    else:
        tool = {"role": "tool", "tool_call_id": f"{asking}/0:0", "content": "left"}
        answer = http.post(path, json={"model": "asks", "messages": [tool, USER][::order]})
    assert answer.status_code == 422 and answer.json()["error"]["code"] == "invalid-input"
    assert "message beside the answer" in answer.json()["error"]["message"]
    assert client.get(asking).status is RunStatus.INTERRUPTED
    assert len(client.runs().runs) == 1


def test_an_answer_that_was_given_already_is_a_part_of_the_next_runs_conversation(
    client: Client, http: httpx2.Client, settings: Settings, asking: str
) -> None:
    client.resume(asking, "right")
    play(settings, asking)
    answer = send(http, [{"role": "user", "content": "go"}, output(asking, "right"), USER])
    assert answer.status_code == 200 and answer.json()["id"] != asking
    assert client.get(answer.json()["id"]).goal.endswith("tool: right\n\nuser: and be quick")


def test_another_answer_to_a_question_that_is_not_open_is_refused(
    client: Client, http: httpx2.Client, settings: Settings, asking: str
) -> None:
    client.resume(asking, "right", by="bob")
    for _ in range(2):  # before the run has heard it, and after it has ended
        late = send(http, [output(asking, "left")])
        assert (late.status_code, late.json()["error"]["code"]) == (409, "stale")
        assert "by bob" in late.json()["error"]["message"]
        same = send(http, [output(asking, "right")])
        assert (same.status_code, same.json()["id"]) == (200, asking)
        play(settings, asking)
    assert client.get(asking).answer == "right"


def test_an_output_for_a_question_of_another_response_answers_nothing(
    client: Client, http: httpx2.Client, asking: str
) -> None:
    answer = send(http, [output(asking, "left")], previous_response_id="another")
    assert answer.status_code == 422
    assert client.get(asking).status is RunStatus.INTERRUPTED


@pytest.mark.parametrize("shown_by", ["the top", "the run between"])
def test_a_question_below_is_answered_by_any_exposed_run_above_whose_response_showed_it(
    client: Client, http: httpx2.Client, settings: Settings, shown_by: str
) -> None:
    flows = ["hides_down", "hands_down", "asks"]
    with playing(settings):
        asked = send(http, "go", model="hands_down", inputs={"flows": flows}, background=False)
        top = asked.json()["id"]
        [waiting] = client.inbox()
        between = client.get(waiting.run_id).details["parent"]
        hidden = client.get(between).details["parent"]
        [call] = asked.json()["output"]
        answer = {"type": "function_call_output", "call_id": call["call_id"], "output": "left"}
        for wrong in (hidden, client.submit("talk", "another").id):
            refused = send(http, [answer], previous_response_id=wrong)
            assert refused.status_code == 422 and wrong in refused.json()["error"]["message"]
        assert client.get(waiting.run_id).status is RunStatus.INTERRUPTED
        previous = top if shown_by == "the top" else between
        for _ in range(2):  # the second is sent again
            done = send(http, [answer], previous_response_id=previous, background=False)
            assert (done.status_code, done.json().get("id")) == (200, previous), done.text
            assert done.json()["status"] == "completed"
    assert client.get(top).answer == client.get(waiting.run_id).answer == "left"


def test_an_answer_after_the_deadline_of_a_question_whose_default_is_null_is_refused(
    client: Client, http: httpx2.Client, driver: Driver
) -> None:
    run_id = client.submit("asks_in_time", "question").id
    driver.play()
    let_deadline_pass(client, run_id)
    until(lambda: (driver.sweep_and_play(), client.get(run_id).status.ended)[1], "the answer")
    late = send(http, [output(run_id, "left")])
    assert (late.status_code, late.json()["error"]["code"]) == (409, "stale")
    assert "deadline" in late.json()["error"]["message"]
    assert send(http, [output(run_id, "null")]).json()["id"] == run_id


def test_the_same_amount_for_a_budget_again_changes_nothing(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    run_id = client.submit("asks", "budget").id
    play(settings, run_id)
    [waiting] = client.inbox()
    for _ in range(2):
        again = send(http, [output(run_id, "100", waiting.id)])
        assert (again.status_code, again.json()["id"]) == (200, run_id)
    assert client.get(run_id).details["budgets"]["tokens"] == 110


def test_an_output_for_a_pause_after_a_node_lets_the_run_go_on(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    run_id = client.submit("talk", "go", interrupt_after=["Controller"]).id
    play(settings, run_id)
    [waiting] = client.inbox()
    for _ in range(2):
        assert send(http, [output(run_id, "ok", waiting.id)]).json()["id"] == run_id
    assert client.get(run_id).answer == "you said go"


def test_a_third_turn_keeps_the_roles_of_the_turns_before(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    last = None
    for text in ("one", "two", "three"):
        last = send(http, text, model="talk", previous_response_id=last).json()["id"]
        play(settings, last)
    goal = client.get(last).goal
    roles = [line.partition(":")[0] for line in goal.split("\n\n")]
    assert goal.startswith("user: one\n\n") and goal.endswith("\n\nuser: three")
    assert "user: user:" not in goal.replace("you said user:", "")
    assert roles[0] == "user" and roles[-2:] == ["assistant", "user"]


def picture(content: bytes) -> list[dict[str, Any]]:
    """Return the input of a turn: a message with a picture."""
    data = base64.b64encode(PNG + content).decode()
    part = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
    return [{"role": "user", "content": [{"type": "input_text", "text": "look"}, part]}]


@pytest.mark.parametrize(("most", "kept"), [(20, [b"1", b"2", b"3"]), (2, [b"2", b"3"])])
def test_the_pictures_of_earlier_turns_are_files_of_the_next_run(
    client: Client,
    http: httpx2.Client,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    kept: list[bytes],
) -> None:
    monkeypatch.setattr(files, "MOST_FILES", most)
    last = None
    for items in (picture(b"1"), picture(b"2"), "go on", picture(b"3"), "and?"):
        last = send(http, items, model="talk", previous_response_id=last).json()["id"]
        play(settings, last)
    submitted = [each["file"] for each in client.get(last).details["files"]]
    assert [client.file(last, name).content.removeprefix(PNG) for name in submitted] == kept


def test_pictures_of_earlier_turns_do_not_go_on_to_another_flow(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    first = send(http, picture(b"1"), model="talk").json()["id"]
    play(settings, first)
    last = send(http, "go on", model="breaks", previous_response_id=first).json()["id"]
    assert client.get(last).flow == "breaks"
    assert not client.get(last).details.get("files")
