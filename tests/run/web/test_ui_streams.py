"""Chats over HTTP, in the protocols of Vercel's AI SDK and of AG-UI, as their clients have them."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from perdure import Client, RunStatus
from perdure.worker.settings import Settings
from tests.support.chat_ui_clients import AgUiPage, AiSdkPage
from tests.support.example_flows import chat_flow, live_text  # noqa: F401 -- registers flows
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.runs_in_every_status import play
from tests.support.ui_chats import AG_UI, AI_SDK, LATER, chat, http, run_of, says, stored, thread
from tests.support.workflow_effects import let_time_pass

__all__ = ["http"]

MODULES = ("tests.support.example_flows.live_text", "tests.support.example_flows.chat_flow")
STREAM = {"accept": "text/event-stream"}

pytestmark = pytest.mark.settings(flow_modules=MODULES)


def watched(http: httpx2.Client, run_id: str, form: str) -> list[str]:
    answer = http.get(f"/api/v1/runs/{run_id}/stream", params={"format": form}, headers=STREAM)
    assert answer.status_code == 200, answer.text
    return answer.text.splitlines()


def test_a_message_of_the_ai_sdk_is_answered_and_an_approval_goes_on_with_it(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    run_id = run_of(http, "chatting", chat(says("tea")))
    play(settings, run_id)
    page = AiSdkPage().take(watched(http, run_id, "ai-sdk"))
    assert (page.id, page.finished, page.text) == (run_id, "tool-calls", "I look it up.")
    kinds = [part["type"] for part in page.parts]
    assert kinds == [
        "step-start", "reasoning", "text", "tool-look_up", "step-start", "tool-pay", "data-interrupt",
    ]  # fmt: skip
    look_up, pay = page.parts[3], page.parts[5]
    assert look_up["input"] == {"item": "tea"} and look_up["output"] == stored(client, run_id)[0]
    assert pay["input"] == {"amount": 3} and pay["state"] == "approval-requested"

    pay |= {
        "state": "approval-responded",
        "approval": {"id": pay["approval"]["id"], "approved": True},
    }
    answered = chat(says("tea"), page.message())
    assert run_of(http, "chatting", answered) == run_id
    play(settings, run_id)
    assert http.get(AI_SDK.format("chatting") + "/c1/stream").status_code == 204, "it has ended"
    again = http.post(AI_SDK.format("chatting"), json=answered, params=LATER)
    assert again.status_code == 409, "an answer counts once"
    assert client.get(run_id).answer == 'Done: "paid 3"'


def test_a_refusal_over_the_ai_sdk_reaches_the_run(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    run_id = run_of(http, "chatting", chat(says("tea")))
    play(settings, run_id)
    page = AiSdkPage().take(watched(http, run_id, "ai-sdk"))
    pay = page.parts[5]
    pay |= {"state": "approval-responded"}
    pay["approval"] |= {"approved": False, "reason": "too dear"}
    run_of(http, "chatting", chat(says("tea"), page.message()))
    play(settings, run_id)
    assert "too dear" in json.dumps(stored(client, run_id)[1])


def test_the_same_message_makes_one_run_and_another_or_an_edited_one_another(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    free = {"inputs": {"free": True}}
    first = run_of(http, "chatting", chat(says("tea"), **free))
    assert run_of(http, "chatting", chat(says("tea"), **free)) == first
    anew = chat(says("tea"), trigger="regenerate-message", messageId="m0", **free)
    taken = http.post(AI_SDK.format("chatting"), json=anew, params=LATER)
    assert taken.status_code == 409 and taken.json()["type"].endswith(":taken")
    play(settings, first)
    assert run_of(http, "chatting", chat(says("tea"), **free)) == first, "also when it has ended"
    edited = run_of(http, "chatting", chat(says("coffee"), **free))
    play(settings, edited)
    again = chat(says("coffee"), trigger="regenerate-message", messageId=edited, **free)
    anew = run_of(http, "chatting", again)
    assert len({first, edited, anew}) == 3 and run_of(http, "chatting", again) == anew
    assert client.get(anew).goal == "coffee"


def test_a_text_after_a_question_is_its_answer(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    run_id = run_of(http, "question", chat(says("What colour?")))
    play(settings, run_id)
    page = AiSdkPage().take(watched(http, run_id, "ai-sdk"))
    assert page.text == "What colour?" and page.finished == "other"
    asked = page.parts[-1]
    assert asked["type"] == "data-interrupt" and asked["data"]["kind"] == "question"
    body = chat(says("What colour?"), page.message(), says("red", "m2"))
    assert run_of(http, "question", body) == run_id
    play(settings, run_id)
    assert client.get(run_id).answer == "red"


@pytest.mark.parametrize("form", ["ai-sdk", "ag-ui"])
def test_what_an_attempt_has_shown_that_failed_is_taken_back(
    form: str, client: Client, http: httpx2.Client, driver: Driver
) -> None:
    run = client.submit("chatting", "tea", {"fails": 1, "free": True})

    def has_ended() -> bool:
        driver.sweep_and_play()
        let_time_pass(driver)
        return client.get(run.id).status.ended

    until(has_ended, "the end of the run", 60)
    lines = watched(http, run.id, form)
    answer = client.get(run.id).answer
    if form == "ai-sdk":
        page = AiSdkPage().take(lines)
        assert page.retractions == 1 and page.text == f"I look it up.{answer}"
        assert [part["text"] for part in page.parts if part["type"] == "reasoning"] == [
            "What does it cost?"
        ]
        return
    talk = AgUiPage().take(lines)
    assert talk.snapshots == 2 and talk.text == f"I look it up.{answer}"
    assert [each["role"] for each in talk.messages] == [
        "user",
        "reasoning",
        "assistant",
        "assistant",
        "tool",
        "assistant",
    ]


def test_a_question_of_ag_ui_is_answered_with_a_payload(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    asked = {"id": "m1", "role": "user", "content": "What colour?"}
    run_id = run_of(http, "question", thread(asked))
    play(settings, run_id)
    talk = AgUiPage([asked]).take(watched(http, run_id, "ag-ui"))
    [interrupt] = talk.finished["outcome"]["interrupts"]
    assert interrupt["reason"] == "question" and interrupt["message"] == "What colour?"
    cancelled = [{"interruptId": interrupt["id"], "status": "cancelled"}]
    answer = http.post(AG_UI.format("question"), json=thread(asked, resume=cancelled))
    assert answer.status_code == 422 and "cannot be cancelled" in answer.json()["detail"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": "red"}]
    run_of(http, "question", thread(asked, resume=resume))
    play(settings, run_id)
    assert client.get(run_id).answer == "red"


def test_a_run_that_is_stopped_or_errored_or_shows_nothing_ends_its_response(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    stopped = client.submit("chatting", "tea").id
    client.request_stop(stopped, "now", "enough")
    assert AiSdkPage().take(watched(http, stopped, "ai-sdk")).aborted == "enough"
    assert AgUiPage().take(watched(http, stopped, "ag-ui")).finished["outcome"] == {
        "type": "cancelled"
    }
    silent = client.submit("countdown", "g", {"rounds": 1}).id
    play(settings, silent)
    answer = client.get(silent).answer
    shown = AiSdkPage().take(watched(http, silent, "ai-sdk"))
    assert shown.finished == "stop" and json.dumps(answer) in json.dumps(shown.parts)
    assert AgUiPage().take(watched(http, silent, "ag-ui")).finished["result"] == answer


def test_a_chat_goes_on_where_its_run_works(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    path = AI_SDK.format("chatting") + "/c1/stream"
    assert http.get(path).status_code == 204
    run_id = run_of(http, "chatting", chat(says("tea")))
    begun = http.get(path, params=LATER)
    assert begun.status_code == 200 and run_id in begun.text
    assert http.get(AI_SDK.format("question") + "/c1/stream").status_code == 204, "another flow"
    play(settings, run_id)
    assert client.get(run_id).status is RunStatus.INTERRUPTED
    assert http.get(path).status_code == 204, "it waits for a person"


@pytest.mark.parametrize(
    ("flow", "body", "status"),
    [
        ("chatting", {"id": "c1", "messages": []}, 422),
        ("chatting", chat({"id": "m", "role": "assistant", "parts": []}), 422),
        ("chatting", chat({"id": "m", "role": "user", "parts": [{"type": "file"}]}), 422),
        ("nothing", chat(says("tea")), 404),
        ("chatting", thread(), 422),
        ("chatting", thread({"id": "m", "role": "user", "content": "x"}, resume=[{"interruptId": "x", "status": "resolved"}]), 422),
        ("chatting", thread({"id": "m", "role": "user", "content": "x"}, resume=[{"interruptId": "none/3:1", "status": "resolved"}]), 404),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(
    http: httpx2.Client, flow: str, body: dict[str, Any], status: int
) -> None:
    path = AI_SDK if "id" in body else AG_UI
    answer = http.post(path.format(flow), json=body, params=LATER)
    assert answer.status_code == status, answer.text
    assert answer.json()["type"].startswith("urn:perdure:")
