"""Chats over HTTP, in the protocols of Vercel's AI SDK and of AG-UI, as their clients have them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from perdure import Client, FileReference, RunStatus, Steps, workflow
from perdure.flows.commands.approval import Approved, read_answer
from perdure.worker.settings import Settings
from tests.support.chat_ui_clients import AgUiPage, AiSdkPage, events_of
from tests.support.example_flows import (  # noqa: F401 -- registers flows
    chat_flow,
    ends_and_pauses,
    exposed_flows,
    live_text,
)
from tests.support.redis_servers import until
from tests.support.round_driver import Driver, playing
from tests.support.runs_in_every_status import play
from tests.support.threaded_server import serving
from tests.support.workflow_effects import let_time_pass

MODULES = ("tests.support.example_flows.live_text", "tests.support.example_flows.chat_flow")
AI_SDK, AG_UI = "/api/v1/flows/{}/ai-sdk", "/api/v1/flows/{}/ag-ui"
STREAM = {"accept": "text/event-stream"}
LATER = {"follow": "false"}


@workflow("asks_for_a_call", needs_goal=False)
def asks_for_a_call(steps: Steps) -> str:
    """Asks about a call as the adapters of other libraries do, and makes it if it is approved."""
    args = {"amount": 3}
    approval = {"command": "pay", "args": args, "digest": "d", "listener": "model"}
    answer = steps.ask("approve the call pay?", {"approval": approval}, name="approve")
    steps.sleep(0)
    if not isinstance(read_answer(answer), Approved):
        return "refused"
    return str(steps.step(pay, 3))


def pay(amount: int) -> str:
    return f"paid {amount}"


@workflow("has_it_asked", needs_goal=False)
def has_it_asked(steps: Steps) -> str:
    """Has a run below ask."""
    return str(steps.child("question", "What colour?"))


pytestmark = pytest.mark.settings(flow_modules=MODULES)


@pytest.fixture
def http(settings: Settings) -> Iterator[httpx2.Client]:
    with serving(settings) as url, httpx2.Client(base_url=url, timeout=60) as made:
        yield made


def says(text: str, message_id: str = "m1") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def chat(*messages: dict[str, Any], chat_id: str = "c1", **more: Any) -> dict[str, Any]:
    return {"id": chat_id, "trigger": "submit-message", "messages": list(messages), **more}


def thread(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "threadId": "t1",
        "runId": "r1",
        "state": {},
        "tools": [],
        "context": [],
        "messages": list(messages),
        "forwardedProps": {},
        **more,
    }


def run_of(http: httpx2.Client, flow: str, body: dict[str, Any]) -> str:
    """Send a message, and return the run that is to answer it."""
    path = AI_SDK if "id" in body else AG_UI
    answer = http.post(path.format(flow), json=body, params=LATER)
    assert answer.status_code == 200, answer.text
    first = next(events_of(answer.text.splitlines()))
    return (first.get("messageMetadata") or first["metadata"])["run"]


def watched(http: httpx2.Client, run_id: str, form: str) -> list[str]:
    answer = http.get(f"/api/v1/runs/{run_id}/stream", params={"format": form}, headers=STREAM)
    assert answer.status_code == 200, answer.text
    return answer.text.splitlines()


def stored(client: Client, run_id: str) -> list[Any]:
    return [turn["observation"] for turn in client.transcript(run_id)["history"]]


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
    other = json.loads(json.dumps(answered))
    other["messages"][-1]["parts"][5]["approval"]["approved"] = False
    late = http.post(AI_SDK.format("chatting"), json=other, params=LATER)
    assert (late.status_code, late.json()["type"]) == (409, "urn:perdure:stale")
    page.finished = ""
    page.take(http.post(AI_SDK.format("chatting"), json=answered).text.splitlines())
    assert pay["output"] == "paid 3" and page.finished == "stop", "the same answer again"
    assert client.get(run_id).answer == 'Done: "paid 3"'


def test_an_approval_over_the_ai_sdk_streams_what_follows_into_the_same_message(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    with playing(settings):
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


def test_a_refusal_over_the_ai_sdk_reaches_the_run_and_leaves_a_valid_message(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    run_id = run_of(http, "chatting", chat(says("tea")))
    play(settings, run_id)
    page = AiSdkPage().take(watched(http, run_id, "ai-sdk"))
    pay = page.parts[5]
    pay |= {"state": "approval-responded"}
    pay["approval"] |= {"approved": False, "reason": "too dear"}
    page.finished = ""
    with playing(settings):
        body = chat(says("tea"), page.message())
        with http.stream("POST", AI_SDK.format("chatting"), json=body) as response:
            page.take(response.iter_lines())
    assert "too dear" in json.dumps(stored(client, run_id)[1])
    assert pay["state"] == "output-denied" and "output" not in pay and "errorText" not in pay
    assert page.finished == "stop"
    later = AiSdkPage().take(watched(http, run_id, "ai-sdk"))
    [seen] = [part for part in later.parts if part["type"] == "tool-pay"]
    assert seen["state"] == "output-available" and seen["output"]["refused"] == "too dear"


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ({"approved": True}, "paid 3"),
        ({"approved": True, "editedArgs": {"amount": 2}}, "paid 2"),
        ({"approved": False, "reason": "too dear"}, "too dear"),
        ({"approved": False}, "refused"),
        (None, "refused"),
    ],
)
def test_the_same_decision_of_ag_ui_again_streams_what_follows(
    client: Client, http: httpx2.Client, settings: Settings, payload: Any, shown: str
) -> None:
    asked = {"id": "m1", "role": "user", "content": "tea"}
    run_id = run_of(http, "chatting", thread(asked))
    play(settings, run_id)
    talk = AgUiPage([asked]).take(watched(http, run_id, "ag-ui"))
    [interrupt] = talk.finished["outcome"]["interrupts"]
    status = "cancelled" if payload is None else "resolved"
    entry = {"interruptId": interrupt["id"], "status": status, "payload": payload}
    body = thread(*talk.messages, resume=[entry])
    assert run_of(http, "chatting", body) == run_id
    play(settings, run_id)
    for _ in range(2):
        again = AgUiPage([*talk.messages])
        again.take(http.post(AG_UI.format("chatting"), json=body).text.splitlines())
        [result] = [
            each for each in again.messages if each.get("toolCallId") == interrupt["toolCallId"]
        ]
        assert shown in result["content"] and again.finished["outcome"] == {"type": "success"}
    entry |= {"status": "resolved", "payload": {"approved": True, "editedArgs": {"amount": 9}}}
    other = http.post(AG_UI.format("chatting"), json=body, params=LATER)
    assert (other.status_code, other.json()["type"]) == (409, "urn:perdure:stale")


def test_the_same_amount_of_ag_ui_again_streams_what_follows(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    run_id = client.submit("asks", "budget").id
    play(settings, run_id)
    [waiting] = client.inbox()
    entry = {"interruptId": f"{run_id}/{waiting.id}", "status": "resolved"}
    for amount, status in ((100, 200), (100, 200), (50, 409)):
        body = thread(resume=[{**entry, "payload": {"tokens": amount}}])
        answer = http.post(AG_UI.format("asks"), json=body, params=LATER)
        assert answer.status_code == status, answer.text
    assert client.get(run_id).details["budgets"]["tokens"] == 110


def test_an_answer_of_ag_ui_to_a_pause_after_a_node_lets_the_run_go_on(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    run_id = client.submit("relay", "g", interrupt_after=["Fetch"]).id
    play(settings, run_id)
    [waiting] = client.inbox()
    entry = {"interruptId": f"{run_id}/{waiting.id}", "status": "resolved", "payload": {}}
    for _ in range(2):
        assert run_of(http, "relay", thread(resume=[entry])) == run_id
    play(settings, run_id)
    assert client.get(run_id).answer == "reported"


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_approvals_of_the_ai_sdk_the_one_whose_question_is_open_is_the_answer(
    client: Client, http: httpx2.Client, settings: Settings, is_first: bool
) -> None:
    run_id = run_of(http, "chatting", chat(says("tea")))
    play(settings, run_id)
    page = AiSdkPage().take(watched(http, run_id, "ai-sdk"))
    pay = page.parts[5]
    pay |= {"state": "approval-responded"}
    pay["approval"] |= {"approved": True}
    earlier = {**pay, "approval": {"id": f"{run_id}/0:7", "approved": True}, "toolCallId": "x"}
    page.parts.insert(6 if is_first else 5, earlier)
    assert run_of(http, "chatting", chat(says("tea"), page.message())) == run_id
    play(settings, run_id)
    assert client.get(run_id).answer == 'Done: "paid 3"'


@pytest.mark.parametrize("answer", ["approve", {"refuse": "too dear"}])
@pytest.mark.parametrize("form", ["ai-sdk", "ag-ui"])
def test_the_approval_of_a_workflow_is_shown_at_its_call_and_is_no_call_itself(
    client: Client, http: httpx2.Client, settings: Settings, form: str, answer: Any
) -> None:
    run_id = client.submit("asks_for_a_call").id
    play(settings, run_id)
    client.resume(run_id, answer)
    play(settings, run_id)
    lines = watched(http, run_id, form)
    if form == "ai-sdk":
        page = AiSdkPage().take(lines)
        calls = {part["type"]: part["output"] for part in page.parts if "toolCallId" in part}
    else:
        talk = AgUiPage().take(lines)
        names = {
            call["id"]: f"tool-{call['function']['name']}"
            for each in talk.messages
            for call in each.get("toolCalls", ())
        }
        results = [each for each in talk.messages if each["role"] == "tool"]
        calls = {names[each["toolCallId"]]: each["content"] for each in results}
        assert names.keys() == {each["toolCallId"] for each in results}
    result = calls.pop("tool-pay")
    assert calls == {}, "an answer and a sleep are no calls"
    assert "paid 3" in str(result) if answer == "approve" else "too dear" in str(result)


def test_a_refused_call_of_a_workflow_is_denied_in_the_message_that_asked(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    run_id = run_of(http, "asks_for_a_call", chat(says("tea")))
    play(settings, run_id)
    page = AiSdkPage().take(watched(http, run_id, "ai-sdk"))
    [pay] = [part for part in page.parts if part["type"] == "tool-pay"]
    pay |= {"state": "approval-responded"}
    pay["approval"] |= {"approved": False}
    page.finished = ""
    with playing(settings):
        body = chat(says("tea"), page.message())
        with http.stream("POST", AI_SDK.format("asks_for_a_call"), json=body) as response:
            page.take(response.iter_lines())
    assert [part["state"] for part in page.parts if "toolCallId" in part] == ["output-denied"]
    assert page.finished == "stop"


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
    with playing(settings):
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


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
PNG_DATA = base64.b64encode(PNG).decode()
PNG_URL = f"data:image/png;base64,{PNG_DATA}"
ADDRESS = "http://169.254.169.254/latest/meta-data/a.png"


def with_parts(form: str, parts: list[dict[str, Any]], *texts: str, **more: Any) -> dict[str, Any]:
    """Return a body whose last message has these parts, in the protocol ``form``."""
    if form == "ai-sdk":
        before = [says(text, f"b{number}") for number, text in enumerate(texts)]
        return chat(*before, {"id": "m1", "role": "user", "parts": parts}, **more)
    plain = [{"id": f"b{n}", "role": "user", "content": text} for n, text in enumerate(texts)]
    return thread(*plain, {"id": "m1", "role": "user", "content": parts}, **more)


@pytest.mark.parametrize(
    ("form", "part", "name"),
    [
        ("ai-sdk", {"type": "file", "mediaType": "image/png", "filename": "a b.png", "url": PNG_URL}, "a b.png"),
        ("ai-sdk", {"type": "file", "mediaType": "image/*", "url": PNG_URL}, "file-1"),
        ("ai-sdk", {"type": "file", "mediaType": "image/png", "url": PNG_URL}, "picture-1"),
        ("ag-ui", {"type": "binary", "mimeType": "image/png", "filename": "a.png", "data": PNG_DATA}, "a.png"),
        ("ag-ui", {"type": "binary", "mimeType": "image/png", "url": PNG_URL}, "picture-1"),
        ("ag-ui", {"type": "image", "source": {"type": "data", "value": PNG_DATA, "mimeType": "image/png"}}, "picture-1"),
        ("ag-ui", {"type": "document", "source": {"type": "url", "value": PNG_URL}, "metadata": {"filename": "d.png"}}, "d.png"),
    ],
)  # fmt: skip
def test_a_file_of_a_chat_message_is_a_file_of_its_run(
    client: Client, http: httpx2.Client, form: str, part: dict[str, Any], name: str
) -> None:
    body = with_parts(form, [{"type": "text", "text": "What is on it?"}, part])
    run_id = run_of(http, "chatting", body)
    assert client.get(run_id).goal == "What is on it?"
    assert client.files(run_id) == [FileReference(name, "image/png", len(PNG))]
    assert client.file(run_id, name).content == PNG
    assert run_of(http, "chatting", body) == run_id, "the same message makes one run"


def test_a_message_of_files_alone_makes_a_run_and_each_file_keeps_its_own_name(
    client: Client, http: httpx2.Client
) -> None:
    text = {"type": "file", "mediaType": "text/plain;charset=utf-8", "filename": "n.txt"}
    parts = [
        {**text, "url": "data:text/plain;base64,aGVsbG8="},
        {**text, "url": "data:text/plain,good%20day"},
    ]
    run_id = run_of(http, "chatting", with_parts("ai-sdk", parts))
    contents = {each.name: client.file(run_id, each.name).text for each in client.files(run_id)}
    assert contents == {"n.txt": "hello", "n-2.txt": "good day"}
    assert client.get(run_id).goal == ""
    other = with_parts("ai-sdk", parts[:1], chat_id="c2")
    assert run_of(http, "chatting", other) != run_id, "another file is another message"


@pytest.mark.parametrize(
    ("form", "part"),
    [
        ("ai-sdk", {"type": "file", "mediaType": "image/png", "url": ADDRESS}),
        ("ai-sdk", {"type": "file", "mediaType": "image/png"}),
        ("ai-sdk", {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,%%%"}),
        ("ai-sdk", {"type": "data-cart", "data": {"item": 1}}),
        ("ai-sdk", {"type": "source-url", "sourceId": "s", "url": ADDRESS}),
        ("ai-sdk", {"type": "text"}),
        ("ag-ui", {"type": "binary", "mimeType": "image/png", "url": ADDRESS}),
        ("ag-ui", {"type": "binary", "mimeType": "image/png", "id": "file-1"}),
        ("ag-ui", {"type": "image", "source": {"type": "url", "value": ADDRESS}}),
        ("ag-ui", {"type": "image", "source": {"type": "file", "value": "file-1"}}),
        ("ag-ui", {"type": "image"}),
        ("ag-ui", {"type": "sticker", "name": "heart"}),
    ],
)  # fmt: skip
def test_a_part_that_a_run_cannot_take_is_refused_and_never_dropped(
    client: Client, http: httpx2.Client, form: str, part: dict[str, Any]
) -> None:
    path = (AI_SDK if form == "ai-sdk" else AG_UI).format("chatting")
    body = with_parts(form, [{"type": "text", "text": "What is on it?"}, part])
    answer = http.post(path, json=body, params=LATER)
    assert answer.status_code == 422, answer.text
    assert answer.json()["type"] == "urn:perdure:unsupported-part"
    assert client.runs().runs == []


@pytest.mark.parametrize("form", ["ai-sdk", "ag-ui"])
def test_a_file_for_a_run_that_works_is_refused(
    client: Client, http: httpx2.Client, form: str
) -> None:
    text = {"type": "text", "text": "tea"}
    first = run_of(http, "chatting", with_parts(form, [text]))
    part = (
        {"type": "file", "mediaType": "image/png", "url": PNG_URL}
        if form == "ai-sdk"
        else {"type": "binary", "mimeType": "image/png", "data": PNG_DATA}
    )
    path = (AI_SDK if form == "ai-sdk" else AG_UI).format("chatting")
    answer = http.post(path, json=with_parts(form, [text, part], "tea"), params=LATER)
    assert answer.status_code == 422 and answer.json()["type"].endswith(":unsupported-part")
    assert first in answer.json()["detail"] and client.unread(first) == {}
    assert len(client.runs().runs) == 1


def test_a_file_beside_the_answer_to_a_question_is_refused(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    run_id = run_of(http, "question", chat(says("What colour?")))
    play(settings, run_id)
    page = AiSdkPage().take(watched(http, run_id, "ai-sdk"))
    answer = says("red", "m2")
    answer["parts"].append({"type": "file", "mediaType": "image/png", "url": PNG_URL})
    body = chat(says("What colour?"), page.message(), answer)
    refused = http.post(AI_SDK.format("question"), json=body, params=LATER)
    assert refused.status_code == 422 and refused.json()["type"].endswith(":unsupported-part")
    assert client.get(run_id).status is RunStatus.INTERRUPTED


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


def asked(
    client: Client, http: httpx2.Client, settings: Settings, form: str = "ai-sdk"
) -> tuple[str, str]:
    """Start a run over this protocol that asks a question, and return its id and the question's."""
    first = says("What colour?")
    body = chat(first) if form == "ai-sdk" else thread({**first, "content": "What colour?"})
    run_id = run_of(http, "question", body)
    play(settings, run_id)
    [waiting] = client.inbox()
    return run_id, waiting.id


def answering(form: str, question: tuple[str, str], text: str, number: int = 2) -> dict[str, Any]:
    """Return a request that answers a run's question."""
    run_id, reference = question[0], "/".join(question)
    if form == "ag-ui":
        entry = {"interruptId": reference, "status": "resolved", "payload": text}
        return thread({"id": "m1", "role": "user", "content": "What colour?"}, resume=[entry])
    data = {"interrupt": reference, "kind": "question", "question": "What colour?", "data": {}}
    part = {"type": "data-interrupt", "id": reference, "data": data}
    before = {"id": run_id, "role": "assistant", "parts": [part]}
    return chat(says("What colour?"), before, says(text, f"m{number}"))


def sent(http: httpx2.Client, body: dict[str, Any]) -> httpx2.Response:
    path = AI_SDK if "id" in body else AG_UI
    return http.post(path.format("question"), json=body, params=LATER)


@pytest.mark.parametrize("form", ["ai-sdk", "ag-ui"])
def test_the_same_answer_again_counts_once_and_streams_what_follows(
    client: Client, http: httpx2.Client, settings: Settings, form: str
) -> None:
    question = run_id, _ = asked(client, http, settings, form)
    for _ in range(2):
        assert run_of(http, "question", answering(form, question, "red")) == run_id
    play(settings, run_id)
    again = sent(http, answering(form, question, "red"))
    assert again.status_code == 200 and run_id in again.text and "red" in again.text
    assert len(client.runs().runs) == 1
    assert [each.type for each in client.events(run_id)].count("resumed") == 1


@pytest.mark.parametrize("form", ["ai-sdk", "ag-ui"])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_text_for_a_question_that_is_not_open_is_a_message_of_the_chat(
    client: Client, http: httpx2.Client, settings: Settings, form: str, is_deleted: bool
) -> None:
    question = run_id, _ = asked(client, http, settings, form)
    client.resume(run_id, "blue", by="bob")
    play(settings, run_id)
    if is_deleted:
        client.delete(run_id)
    next_id = run_of(http, "question", answering(form, question, "red"))
    assert next_id != run_id and client.get(next_id).goal == "red"
    assert run_of(http, "question", answering(form, question, "red")) == next_id, "sent again"


def test_a_text_for_a_question_that_is_not_open_is_heard_by_the_run_that_works(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    question = run_id, _ = asked(client, http, settings)
    client.resume(run_id, "blue", by="bob")
    assert run_of(http, "question", answering("ai-sdk", question, "red")) == run_id
    assert client.unread(run_id) == {"say": 1}


def test_a_file_beside_a_text_for_a_question_that_is_not_open_is_one_of_the_message(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    question = run_id, _ = asked(client, http, settings)
    client.resume(run_id, "blue")
    play(settings, run_id)
    body = answering("ai-sdk", question, "red")
    part = {"type": "file", "mediaType": "image/png", "url": PNG_URL}
    body["messages"][-1]["parts"].append(part)
    assert [each.name for each in client.files(run_of(http, "question", body))] == ["picture-1"]


def test_a_text_behind_a_message_that_was_refused_is_still_the_answer(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    question = run_id, _ = asked(client, http, settings)
    body = answering("ai-sdk", question, "red", 3)
    body["messages"].insert(-1, says("This one did not arrive.", "m2"))
    assert run_of(http, "question", body) == run_id
    play(settings, run_id)
    assert client.get(run_id).answer == "red"


def test_a_message_to_a_run_that_waits_for_a_person_is_refused_with_its_question(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    run_id, _ = asked(client, http, settings)
    refused = sent(http, chat(says("red", "m2")))
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:perdure:taken")
    assert run_id in refused.json()["detail"] and "What colour?" in refused.json()["detail"]


def test_a_decision_about_a_question_that_is_not_open_is_refused(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    question = run_id, _ = asked(client, http, settings, "ag-ui")
    client.resume(run_id, "blue", by="bob")
    for payload in ({"approved": True}, {"tokens": 5}, 7, " ", None):
        entry = {"interruptId": "/".join(question), "status": "resolved", "payload": payload}
        late = sent(http, thread(resume=[entry]))
        assert (late.status_code, late.json()["type"]) == (409, "urn:perdure:stale")
        assert "bob" in late.json()["detail"]


def test_an_answer_of_ag_ui_without_a_payload_leaves_the_question_open(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    question = run_id, _ = asked(client, http, settings, "ag-ui")
    entry = {"interruptId": "/".join(question), "status": "resolved"}
    refused = sent(http, thread(resume=[entry]))
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:perdure:invalid-input")
    assert client.get(run_id).status is RunStatus.INTERRUPTED


def test_a_message_to_a_run_whose_events_are_gone_is_heard_once(
    client: Client, http: httpx2.Client
) -> None:
    run_id = run_of(http, "chatting", chat(says("tea")))
    body = chat(says("tea"), says("with milk", "m2"))
    assert run_of(http, "chatting", body) == run_id
    store = client._store
    store.redis.delete(store.keys.events(run_id))
    assert run_of(http, "chatting", body) == run_id, "the same again"
    assert client.unread(run_id) == {"say": 1}


@pytest.mark.parametrize("form", ["ai-sdk", "ag-ui"])
def test_the_question_of_a_run_below_is_shown_and_answered_in_the_response(
    client: Client, http: httpx2.Client, settings: Settings, form: str
) -> None:
    path = (AI_SDK if form == "ai-sdk" else AG_UI).format("has_it_asked")
    first = says("Go.")
    body = chat(first) if form == "ai-sdk" else thread({**first, "content": "Go."})
    with playing(settings):
        lines = http.post(path, json=body).text.splitlines()
        [waiting] = client.inbox()
        if form == "ai-sdk":
            page = AiSdkPage().take(lines)
            assert (page.text, page.finished) == ("What colour?", "other")
            data, run_id = page.parts[-1]["data"], page.id
            reference = data["interrupt"]
            body = chat(first, page.message(), says("red", "m2"))
        else:
            talk = AgUiPage().take(lines)
            [interrupt] = talk.finished["outcome"]["interrupts"]
            data, run_id = interrupt["metadata"], talk.started["metadata"]["run"]
            reference = interrupt["id"]
            entry = {"interruptId": reference, "status": "resolved", "payload": "red"}
            body = thread({**first, "content": "Go."}, resume=[entry])
        assert reference == f"{run_id}/{waiting.run_id}/{waiting.id}"
        assert (data["run"], data["flow"]) == (waiting.run_id, "question")
        again = http.get(f"/api/v1/runs/{run_id}/stream", params={"format": form})
        assert reference in again.text, "also in a stream that does not wait"
        for _ in range(2):  # the second is sent again
            lines = http.post(path, json=body).text.splitlines()
            done = AiSdkPage().take(lines) if form == "ai-sdk" else AgUiPage().take(lines)
            assert done.text == "red" and done.finished
    assert client.get(run_id).answer == client.get(waiting.run_id).answer == "red"


@pytest.mark.parametrize("form", ["ai-sdk", "ag-ui"])
@pytest.mark.parametrize("approved", [True, False])
def test_the_approval_of_a_run_below_is_asked_at_a_call_that_its_answer_closes(
    client: Client, http: httpx2.Client, settings: Settings, form: str, approved: bool
) -> None:
    path = (AI_SDK if form == "ai-sdk" else AG_UI).format("chatting")
    first = says("let another do it")
    plain = {"id": "m1", "role": "user", "content": "let another do it"}
    with playing(settings):
        lines = http.post(path, json=chat(first) if form == "ai-sdk" else thread(plain)).text
        if form == "ai-sdk":
            page = AiSdkPage().take(lines.splitlines())
            [pay] = [part for part in page.parts if part["type"] == "tool-pay"]
            pay |= {"state": "approval-responded"}
            pay["approval"] |= {"approved": approved}
            page.finished = ""
            body = chat(first, page.message())
            page.take(http.post(path, json=body).text.splitlines())
            assert pay["state"] == ("output-available" if approved else "output-denied")
            assert page.finished == "stop"
            return
        talk = AgUiPage([plain]).take(lines.splitlines())
        [interrupt] = talk.finished["outcome"]["interrupts"]
        entry = {"interruptId": interrupt["id"], "status": "resolved"}
        entry["payload"] = {"approved": approved}
        body = thread(*talk.messages, resume=[entry])
        for _ in range(2):  # the second is sent again
            again = AgUiPage([*talk.messages])
            again.take(http.post(path, json=body).text.splitlines())
            assert again.finished["outcome"] == {"type": "success"}
            [result] = [
                each for each in again.messages if each.get("toolCallId") == interrupt["toolCallId"]
            ]
            assert json.loads(result["content"])["approved"] is approved


def test_the_end_of_ag_uis_run_says_that_the_run_used_up_its_cycles_or_why_it_was_stopped(
    client: Client, http: httpx2.Client, settings: Settings
) -> None:
    stopped = client.submit("chatting", "tea").id
    client.request_stop(stopped, "now", "enough")
    ended = AgUiPage().take(watched(http, stopped, "ag-ui")).finished
    assert (ended["metadata"]["status"], ended["metadata"]["reason"]) == ("stopped", "enough")
    unfinished = client.submit("countdown", "g", {"rounds": 9}, max_rounds=2).id
    play(settings, unfinished)
    ended = AgUiPage().take(watched(http, unfinished, "ag-ui")).finished
    assert ended["metadata"]["status"] == "unfinished after 2 of 2 cycles"


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
    with playing(settings):
        body = thread(*talk.messages, runId="r2", resume=[entry])
        with http.stream("POST", AG_UI.format("chatting"), json=body) as response:
            talk.take(response.iter_lines())
    assert talk.finished["outcome"] == {"type": "success"} and talk.finished["runId"] == "r2"
    assert talk.finished["result"].startswith("Done: ") and talk.text.endswith(
        talk.finished["result"]
    )
    [paid] = [each for each in talk.messages if each.get("toolCallId") == pay["id"]]
    assert json.loads(paid["content"])["result"] == "paid 2"


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
