"""Chats over HTTP while workers play and are killed, in the protocols of the AI SDK and of AG-UI."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from perdure import Client
from perdure.worker.settings import Settings
from tests.support.chat_ui_clients import AgUiPage, AiSdkPage, events_of
from tests.support.example_flows import chat_flow, live_text  # noqa: F401 -- registers flows
from tests.support.runs_in_every_status import play
from tests.support.ui_chats import AG_UI, AI_SDK, LATER, chat, http, run_of, says, stored, thread
from tests.support.workers import workers

__all__ = ["http"]

MODULES = ("tests.support.example_flows.live_text", "tests.support.example_flows.chat_flow")

pytestmark = pytest.mark.settings(flow_modules=MODULES)


def test_an_approval_over_the_ai_sdk_streams_what_follows_into_the_same_message(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    with workers(1, settings, PERDURE_FLOW_MODULES=",".join(MODULES)):
        page = AiSdkPage()
        with http.stream("POST", AI_SDK.format("chatting"), json=chat(says("tea"))) as response:
            assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
            assert response.headers["content-type"].startswith("text/event-stream")
            page.take(response.iter_lines())
        pay = page.parts[5]
        pay |= {
            "state": "approval-responded",
            "approval": {"id": pay["approval"]["id"], "approved": True},
        }
        page.finished = ""
        body = chat(says("tea"), page.message())
        with http.stream("POST", AI_SDK.format("chatting"), json=body) as response:
            page.take(response.iter_lines())
    assert pay["output"] == "paid 3" and pay["state"] == "output-available"
    assert page.finished == "stop" and page.text == 'I look it up.Done: "paid 3"'


@pytest.mark.parametrize("form", ["ai-sdk", "ag-ui"])
def test_the_run_that_works_hears_the_next_message_and_its_response_is_what_follows(
    client: Client, http: httpx2.Client, settings: Settings, form: str
) -> None:
    path = AI_SDK if form == "ai-sdk" else AG_UI

    def body(*texts: str) -> dict[str, Any]:
        messages = [says(text, f"m{number}") for number, text in enumerate(texts)]
        if form == "ai-sdk":
            return chat(*messages, inputs={"free": True})
        plain = [{**each, "content": each["parts"][0]["text"]} for each in messages]
        return thread(*plain, forwardedProps={"inputs": {"free": True}})

    first = run_of(http, "chatting", body("tea"))
    assert run_of(http, "chatting", body("tea", "with milk")) == first
    assert run_of(http, "chatting", body("tea", "with milk")) == first, "the same again"
    assert client.unread(first) == {"say": 1}
    with workers(1, settings, PERDURE_FLOW_MODULES=",".join(MODULES)):
        answer = http.post(path.format("chatting"), json=body("tea", "with milk"))
        assert answer.status_code == 200, answer.text
        said = "".join(each.get("delta", "") for each in events_of(answer.text.splitlines()))
        assert "Done:" in said
    run = client.get(first)
    assert run.finished and len(client.runs().runs) == 1
    heard = [
        turn for turn in client.transcript(first)["history"] if "with milk" in json.dumps(turn)
    ]
    assert heard, "its controller has heard it"
    other = http.post(path.format("question"), json=body("And this?"), params=LATER)
    assert other.status_code == 200, "it has ended, so another flow may answer"
    taken = http.post(path.format("chatting"), json=body("tea", "x", "y"), params=LATER)
    assert taken.status_code == 409, "the run that works is of another flow"


def test_a_message_of_ag_ui_is_answered_and_an_interrupt_is_resumed(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    asked = {"id": "m1", "role": "user", "content": "tea"}
    run_id = run_of(http, "chatting", thread(asked))
    assert run_of(http, "chatting", thread(asked, runId="r2")) == run_id, "the message is the same"
    play(settings, run_id)
    talk = AgUiPage([asked])
    again = http.post(AG_UI.format("chatting"), json=thread(asked))
    talk.take(again.text.splitlines())
    assert talk.started["threadId"] == "t1" and talk.started["runId"] == "r1"
    [interrupt] = talk.finished["outcome"]["interrupts"]
    look_up, result, pay = talk.messages[-3:]
    assert json.loads(look_up["toolCalls"][0]["function"]["arguments"]) == {"item": "tea"}
    assert json.loads(result["content"]) == stored(client, run_id)[0]
    assert interrupt["toolCallId"] == pay["id"] and interrupt["responseSchema"]["required"] == [
        "approved"
    ]

    entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": "yes"}}
    unclear = http.post(AG_UI.format("chatting"), json=thread(*talk.messages, resume=[entry]))
    assert unclear.status_code == 422 and "approved" in unclear.json()["detail"]
    entry["payload"] = {"approved": True, "editedArgs": {"amount": 2}}
    with workers(1, settings, PERDURE_FLOW_MODULES=",".join(MODULES)):
        body = thread(*talk.messages, runId="r2", resume=[entry])
        with http.stream("POST", AG_UI.format("chatting"), json=body) as response:
            talk.take(response.iter_lines())
    assert talk.finished["outcome"] == {"type": "success"} and talk.finished["runId"] == "r2"
    assert talk.finished["result"].startswith("Done: ") and talk.text.endswith(
        talk.finished["result"]
    )
    [paid] = [each for each in talk.messages if each.get("toolCallId") == pay["id"]]
    assert json.loads(paid["content"])["result"] == "paid 2"
