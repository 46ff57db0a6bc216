"""Answers of people over OpenAI's API: each counts, or the client learns that it does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from perdure import Client, RunStatus
from perdure.worker.settings import Settings
from tests.support.example_flows import exposed_flows  # noqa: F401 -- registers flows
from tests.support.runs_in_every_status import play
from tests.support.threaded_server import serving

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
