"""The official client of OpenAI, unchanged, drives runs: as responses, as streams that go on after
a cut, and as chats.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import openai
import pytest
from openai import OpenAI
from openai.types.responses import Response, ResponseFunctionToolCall

from perdure import RunStatus
from perdure.worker.web.json_body import MOST_ENCODED, most_bytes
from tests.support.exposed_server import MODULE, ExposedServer, exposed_server
from tests.support.redis_servers import CrashableServer, until
from tests.support.workers import workers

INPUTS = {"inputs": {"target": {"path": "build"}}}


@pytest.fixture(scope="module")
def exposed(server: CrashableServer) -> Iterator[ExposedServer]:
    with exposed_server(server) as made:
        yield made


@pytest.fixture(scope="module")
def ann(exposed: ExposedServer) -> Iterator[OpenAI]:
    with client_of(exposed, exposed.token("ann")) as made:
        yield made


def client_of(exposed: ExposedServer, token: str, **options: Any) -> OpenAI:
    return OpenAI(base_url=f"{exposed.url}/v1", api_key=token, timeout=60, **options)


def question_of(response: Response) -> ResponseFunctionToolCall:
    assert response.status == "incomplete"
    [call] = response.output
    assert isinstance(call, ResponseFunctionToolCall)
    return call


def output(call_id: str, text: str) -> Any:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def test_the_models_are_the_exposed_flows(ann: OpenAI) -> None:
    flows = {"asks", "breaks", "guarded", "pauses", "talk", "tidy"}
    found = [model.id for model in ann.models.list()]
    assert found == sorted(found) and set(found) >= flows and "secluded" not in found
    assert ann.models.retrieve("talk").id == "talk"


def test_a_response_is_a_run(exposed: ExposedServer, ann: OpenAI) -> None:
    response = ann.responses.create(model="talk", input="hello", metadata={"team": "search"})
    assert response.status == "completed" and response.output_text == "you said hello"
    run = exposed.client.get(response.id)
    assert (run.goal, run.labels, run.details["submitted_by"]) == (
        "hello", {"team": "search"}, "ann",
    )  # fmt: skip
    again = ann.responses.retrieve(response.id)
    assert again.to_dict() == response.to_dict()
    longer = ann.responses.create(model="talk", input="and?", previous_response_id=response.id)
    assert longer.output_text == "you said user: hello assistant: you said hello user: and?"


def test_an_approval_is_a_call_whose_output_is_the_answer(
    exposed: ExposedServer, ann: OpenAI
) -> None:
    asked = ann.responses.create(model="tidy", input="tidy up", extra_body=INPUTS)
    call = question_of(asked)
    facts = json.loads(call.arguments)
    assert call.name == "approval"
    assert (facts["command"], facts["args"]) == ("remove", {"path": "build"})
    done = ann.responses.create(
        model="tidy",
        previous_response_id=asked.id,
        input=[output(call.call_id, "approve")],
    )
    assert done.id == asked.id and done.output_text == "removed build"
    assert done.usage is not None and done.usage.total_tokens == 30
    assert exposed.client.get(done.id).details["resumed_by"] == "ann"
    repeated = ann.responses.create(model="tidy", input=[output(call.call_id, "approve")])
    assert repeated.output_text == "removed build", "the same answer again changes nothing"


@pytest.mark.parametrize(
    ("flow", "goal", "text", "answer"),
    [
        ("asks", "question", "left", "left"),
        ("asks", "question", '{"to": "left"}', '{"to": "left"}'),
        ("asks", "in_doubt", '"retry"', "retry"),
        ("asks", "budget", "50", "rich"),
        ("asks", "budget", '{"add": {"tokens": 50}}', "rich"),
        ("pauses", "go", "", "you said go"),
    ],
)
def test_each_kind_of_question_is_a_call(
    ann: OpenAI, flow: str, goal: str, text: str, answer: str
) -> None:
    call = question_of(ann.responses.create(model=flow, input=goal))
    assert call.name == {"go": "pause"}.get(goal, goal)
    done = ann.responses.create(model=flow, input=[output(call.call_id, text)])
    assert done.output_text == answer


@pytest.mark.parametrize("how", ["whole", "stream", "chat"])
def test_a_question_of_a_run_below_is_a_call_whose_output_is_the_answer(
    exposed: ExposedServer, ann: OpenAI, how: str
) -> None:
    if how == "chat":
        completion = ann.chat.completions.create(
            model="delegates", messages=[{"role": "user", "content": "question"}]
        )
        asked_id, [tool_call] = completion.id, completion.choices[0].message.tool_calls or []
        assert tool_call.type == "function"
        call_id, facts = tool_call.id, json.loads(tool_call.function.arguments)
    else:
        if how == "whole":
            asked = ann.responses.create(model="delegates", input="question")
        else:
            with ann.responses.stream(model="delegates", input="talk") as stream:
                *_, last = stream
            assert last.type == "response.incomplete"
            asked = last.response
            asked.output = [item for item in asked.output if item.type == "function_call"]
        call = question_of(asked)
        asked_id, call_id, facts = asked.id, call.call_id, json.loads(call.arguments)
    assert (facts["text"], facts["flow"]) == ("left or right?", "private")
    done = ann.responses.create(
        model="delegates", previous_response_id=asked_id, input=[output(call_id, "left")]
    )
    assert (done.id, done.output_text) == (asked_id, "left")
    assert exposed.client.get(facts["run"]).details["resumed_by"] == "ann"
    with pytest.raises(openai.NotFoundError):
        ann.responses.retrieve(facts["run"])


def test_an_answer_to_an_older_question_does_not_answer_the_newer_one(ann: OpenAI) -> None:
    first = question_of(ann.responses.create(model="asks", input="twice"))
    second = question_of(ann.responses.create(model="asks", input=[output(first.call_id, "old")]))
    assert second.call_id != first.call_id
    repeated = ann.responses.create(model="asks", input=[output(first.call_id, "old")])
    assert question_of(repeated) == second
    done = ann.responses.create(model="asks", input=[output(second.call_id, "new")])
    assert done.output_text == "new"


def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(ann: OpenAI) -> None:
    asked = ann.responses.create(model="tidy", input="tidy up", extra_body=INPUTS)
    answer = output(question_of(asked).call_id, "perhaps")
    with pytest.raises(openai.UnprocessableEntityError, match="expected") as caught:
        ann.responses.create(model="tidy", input=[answer])
    assert caught.value.code == "invalid-input"
    assert ann.responses.retrieve(asked.id).to_dict() == asked.to_dict()


def test_a_client_that_sends_the_whole_conversation_answers_too(ann: OpenAI) -> None:
    first: Any = [{"role": "user", "content": "tidy up"}]
    asked = ann.responses.create(model="tidy", input=first, extra_body=INPUTS)
    call = question_of(asked)
    refused = json.dumps({"refuse": "not today"})
    history = [*first, *asked.output, output(call.call_id, refused)]
    assert "not today" in ann.responses.create(model="tidy", input=history).output_text


def test_who_started_a_guarded_run_cannot_approve_its_command(ann: OpenAI) -> None:
    call = question_of(ann.responses.create(model="guarded", input="x", extra_body=INPUTS))
    with pytest.raises(openai.PermissionDeniedError, match="another person"):
        ann.responses.create(model="guarded", input=[output(call.call_id, "approve")])


def test_a_background_response_is_polled_and_cancelled(exposed: ExposedServer, ann: OpenAI) -> None:
    started = ann.responses.create(
        model="tidy", input="tidy up", background=True, extra_body=INPUTS
    )
    assert started.status in ("queued", "in_progress") and started.output == []
    until(lambda: ann.responses.retrieve(started.id).status == "incomplete", "its question", 60)
    assert ann.responses.cancel(started.id).status == "cancelled"
    assert exposed.client.get(started.id).status is RunStatus.STOPPED


def test_a_run_that_fails_is_a_failed_response(ann: OpenAI) -> None:
    response = ann.responses.create(model="breaks", input="x")
    assert response.status == "failed" and response.error is not None
    assert "it is broken" in response.error.message


# streams


def text_of(events: Iterable[Any]) -> str:
    """Return the text of the last message, as a client has it that follows the events."""
    texts: dict[str, str] = {}
    for event in events:
        if event.type == "response.output_text.delta":
            texts[event.item_id] = texts.get(event.item_id, "") + event.delta
        if event.type == "response.output_item.done" and event.item.type == "message":
            if event.item.status == "incomplete":
                del texts[event.item.id]
            else:
                assert event.item.content[0].text == texts[event.item.id]
    return list(texts.values())[-1]


def test_a_stream_goes_on_after_each_of_its_events(ann: OpenAI) -> None:
    with ann.responses.create(
        model="talk", input="so many words", stream=True, background=True
    ) as stream:
        whole = list(stream)
    kinds = [event.type for event in whole]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed" and kinds.count("response.output_text.delta") >= 1
    assert "response.reasoning_text.delta" in kinds
    numbers = [event.sequence_number for event in whole]
    assert numbers == sorted(set(numbers)) and numbers[-1] < 2**53
    assert text_of(whole) == whole[-1].response.output_text == "you said so many words"
    run_id = whole[0].response.id
    for place, number in enumerate(numbers):
        rest = list(ann.responses.retrieve(run_id, stream=True, starting_after=number))
        assert [(event.type, event.sequence_number) for event in rest] == [
            (event.type, event.sequence_number) for event in whole[place + 1 :]
        ]


def test_text_of_an_attempt_that_was_given_up_ends_as_incomplete(ann: OpenAI) -> None:
    with ann.responses.stream(
        model="talk", input="all of it", extra_body={"inputs": {"fails": 2}}
    ) as stream:
        events = list(stream)
        final = stream.get_final_response()
    ended = [
        event.item.status
        for event in events
        if event.type == "response.output_item.done" and event.item.type == "message"
    ]
    # Text that an attempt has written last may come after its end, and is given up once more.
    assert ended[-1] == "completed" and len(ended) >= 3
    assert set(ended[:-1]) == {"incomplete"}
    assert text_of(events) == final.output_text == "you said all of it"


def test_a_stream_ends_with_a_question_and_goes_on_behind_it(ann: OpenAI) -> None:
    asked = list(ann.responses.create(
        model="tidy", input="tidy up", stream=True, extra_body=INPUTS
    ))  # fmt: skip
    assert asked[-1].type == "response.incomplete"
    call = question_of(asked[-1].response)
    answer = [output(call.call_id, "approve")]
    last = asked[-1].sequence_number
    ann.responses.create(model="tidy", input=answer, background=True)  # type: ignore[arg-type]
    rest = list(ann.responses.retrieve(asked[-1].response.id, stream=True, starting_after=last))
    assert rest[0].sequence_number > last
    assert rest[-1].type == "response.completed" and text_of(rest) == "removed build"
    with ann.responses.stream(response_id=asked[-1].response.id) as whole:
        assert whole.get_final_response().output_text == "removed build"


# chats


def test_a_chat_is_a_run(ann: OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "hello"}]
    chat = ann.chat.completions.create(model="talk", messages=messages)
    [choice] = chat.choices
    assert (choice.message.content, choice.finish_reason) == ("you said hello", "stop")
    chunks = list(
        ann.chat.completions.create(
            model="talk",
            messages=messages,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    said = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(said) == "you said hello"


@pytest.mark.parametrize("stream", [False, True])
def test_an_approval_is_a_tool_call_of_a_chat(ann: OpenAI, stream: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": "tidy up"}]
    if stream:
        with ann.chat.completions.stream(
            model="tidy", messages=messages, extra_body=INPUTS
        ) as chunks:
            [choice] = chunks.get_final_completion().choices
    else:
        asked = ann.chat.completions.create(model="tidy", messages=messages, extra_body=INPUTS)
        [choice] = asked.choices  # type: ignore[assignment]
    assert choice.finish_reason == "tool_calls"
    [call] = choice.message.tool_calls or []
    assert call.type == "function" and call.function.name == "approval"
    messages += [
        {"role": "assistant", "tool_calls": [{
            "id": call.id, "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }]},
        {"role": "tool", "tool_call_id": call.id, "content": "approve"},
    ]  # fmt: skip
    done = ann.chat.completions.create(model="tidy", messages=messages)
    assert done.choices[0].message.content == "removed build"


def test_a_run_that_fails_is_an_error_of_a_chat(ann: OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "x"}]
    with pytest.raises(openai.InternalServerError, match="it is broken") as caught:
        ann.chat.completions.create(model="breaks", messages=messages)
    assert caught.value.code == "run-failed"
    with pytest.raises(openai.APIError, match="it is broken"):
        list(ann.chat.completions.create(model="breaks", messages=messages, stream=True))


# refusals


def refusal_of(error: type[openai.APIStatusError], call: Any) -> tuple[str | None, str | None]:
    """Return code and type of the error that a call raises; it is raised at once."""
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value.body, dict) and caught.value.body["message"]
    return caught.value.code, caught.value.type


def test_a_wrong_token_opens_nothing(exposed: ExposedServer) -> None:
    exposed.token("ann")
    with client_of(exposed, "hf_0000000000000000_x") as stranger:
        told = refusal_of(openai.AuthenticationError, stranger.models.list)
        assert told == ("unknown-caller", "authentication_error")
        for call in (
            lambda: stranger.responses.create(model="talk", input="x"),
            lambda: stranger.responses.retrieve("r"),
            lambda: stranger.responses.cancel("r"),
        ):
            refusal_of(openai.AuthenticationError, call)


def test_a_token_without_the_scope_is_refused_before_anything_is_stored(
    exposed: ExposedServer, ann: OpenAI
) -> None:
    owner = f"o{uuid4().hex[:8]}"
    asked = ann.responses.create(model="tidy", input="tidy up", extra_body=INPUTS)
    call = question_of(asked)
    with client_of(exposed, exposed.token(owner, "read")) as reader:
        assert refusal_of(
            openai.PermissionDeniedError,
            lambda: reader.responses.create(model="talk", input="x"),
        ) == ("forbidden", "permission_error")
        refusal_of(
            openai.PermissionDeniedError,
            lambda: reader.responses.create(model="tidy", input=[output(call.call_id, "approve")]),
        )
    with client_of(exposed, exposed.token(owner, "submit")) as blind:
        refusal_of(
            openai.PermissionDeniedError, lambda: blind.responses.create(model="talk", input="x")
        )
    assert not list(exposed.client.runs(submitted_by=owner))


def test_runs_of_others_and_flows_that_are_not_exposed_do_not_exist(
    exposed: ExposedServer, ann: OpenAI
) -> None:
    other = exposed.client.submit("tidy", "x", INPUTS["inputs"], submitted_by="bob")
    own = exposed.client.submit("secluded", "x", submitted_by="ann")
    for run_id in (other.id, own.id, "nothing"):
        assert refusal_of(
            openai.NotFoundError, lambda run_id=run_id: ann.responses.retrieve(run_id)
        ) == ("run-not-found", "not_found_error")
        refusal_of(openai.NotFoundError, lambda run_id=run_id: ann.responses.cancel(run_id))
        answer = output(f"{run_id}/0:0", "approve")
        refusal_of(
            openai.NotFoundError,
            lambda answer=answer: ann.responses.create(model="tidy", input=[answer]),
        )
    for flow in ("secluded", "nothing"):
        assert refusal_of(
            openai.NotFoundError,
            lambda flow=flow: ann.responses.create(model=flow, input="x"),
        ) == ("unknown-flow", "not_found_error")
        refusal_of(openai.NotFoundError, lambda flow=flow: ann.models.retrieve(flow))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"temprature": 1}, "temprature"),
        ({"store": False}, "a run is always stored"),
        ({"tools": [{"type": "web_search"}]}, "calls no tools of its client"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"input": []}, "no message of a user"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input_image"),
        ({"input": [output("call_1", "x")]}, "was made by no run"),
        ({"metadata": {"a": 1}}, "metadata"),
    ],
)
def test_what_a_run_cannot_do_is_refused_and_not_ignored(
    ann: OpenAI, body: dict[str, Any], words: str
) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match=words):
        ann.responses.create(model="talk", **({"input": "x"} | {"extra_body": body}))  # type: ignore[call-overload]


def test_what_only_says_how_to_ask_a_model_is_accepted(ann: OpenAI) -> None:
    response = ann.responses.create(
        model="talk", input="x", temperature=0.5, max_output_tokens=9, user="u", store=True
    )
    assert response.output_text == "you said x"


def test_a_body_over_the_limit_is_refused(exposed: ExposedServer, ann: OpenAI) -> None:
    most = most_bytes(exposed.client.settings) + MOST_ENCODED
    with pytest.raises(openai.APIStatusError) as caught:
        ann.responses.create(model="talk", input="x" * most)
    assert (caught.value.status_code, caught.value.code) == (413, "body-too-large")


def test_a_request_that_the_client_repeats_by_itself_starts_no_second_run(
    exposed: ExposedServer,
) -> None:
    owner = f"o{uuid4().hex[:8]}"
    cut = _Cutting()
    with httpx2.Client(transport=cut, timeout=60) as http:
        client = client_of(exposed, exposed.token(owner), http_client=http)
        assert (
            refusal_of(
                openai.ConflictError, lambda: client.responses.create(model="talk", input="x")
            )[0]
            == "retry-without-key"
        )
        cut.cuts = 1
        response = client.responses.create(
            model="talk", input="x", extra_headers={"Idempotency-Key": "mine"}
        )
    assert response.output_text == "you said x"
    assert len(list(exposed.client.runs(submitted_by=owner))) == 2, "one of each call"


class _Cutting(httpx2.BaseTransport):
    """A network that loses the first request's response."""

    def __init__(self) -> None:
        self.cuts, self._inner = 1, httpx2.HTTPTransport()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._inner.handle_request(request)
        if self.cuts:
            self.cuts -= 1
            response.close()
            raise httpx2.ReadError("cut")
        return response

    def close(self) -> None:
        self._inner.close()


# the lost part


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_run_survives_the_death_of_its_worker(server: CrashableServer, tmp_path: Path) -> None:
    """The worker is killed during the approved command, and a client follows the run."""
    gate = tmp_path / "gate"
    gate.touch()
    inputs = {"inputs": {"target": {"path": "build"}, "gate": str(gate)}}
    with exposed_server(server, 0) as exposed, client_of(exposed, exposed.token("ann")) as ann:
        settings = exposed.client.settings
        with workers(1, settings, PERDURE_FLOW_MODULES=MODULE) as [worker]:
            asked = ann.responses.create(model="tidy", input="tidy up", extra_body=inputs)
            answer = [output(question_of(asked).call_id, "approve")]
            ann.responses.create(model="tidy", input=answer, background=True)  # type: ignore[arg-type]
            until(lambda: exposed.client.get(asked.id).phase == "leased", "the command", 60)
            worker.kill()
        events: list[Any] = []
        stream = ann.responses.retrieve(asked.id, stream=True)
        reader = threading.Thread(target=lambda: events.extend(stream))
        reader.start()
        gate.unlink()
        with workers(1, settings, PERDURE_FLOW_MODULES=MODULE):
            reader.join(100)
        assert events[-1].type == "response.completed"
        assert events[-1].response.output_text == "removed build"


@pytest.mark.parametrize("answer", ["refuse", '{"refuse": "not today"}'])
def test_a_refused_approval_is_not_carried_out(
    exposed: ExposedServer, ann: OpenAI, answer: str
) -> None:
    asked = ann.responses.create(model="tidy", input="tidy up", extra_body=INPUTS)
    done = ann.responses.create(
        model="tidy",
        previous_response_id=asked.id,
        input=[output(question_of(asked).call_id, answer)],
    )
    assert "removed" not in done.output_text
    told = json.dumps(exposed.client.transcript(asked.id)["history"])
    assert "removed build" not in told and ("not today" in told) == ("today" in answer)


PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
URL = "data:image/png;base64," + base64.b64encode(PICTURE).decode()


def test_a_picture_of_a_response_and_of_a_chat_is_a_file_of_the_run(
    exposed: ExposedServer, ann: OpenAI
) -> None:
    image: Any = {"type": "input_image", "image_url": URL, "detail": "auto"}
    text: Any = {"type": "input_text", "text": "what is it?"}
    response = ann.responses.create(
        model="talk", input=[{"role": "user", "content": [text, image]}]
    )
    part: Any = {"type": "image_url", "image_url": {"url": URL}}
    chat = ann.chat.completions.create(
        model="talk",
        messages=[{"role": "user", "content": [{"type": "text", "text": "what is it?"}, part]}],
    )
    for run_id in (response.id, chat.id.removeprefix("chatcmpl-")):
        [file] = exposed.client.files(run_id)
        assert exposed.client.file(run_id, file.name).content == PICTURE


def test_the_address_of_a_picture_is_refused(exposed: ExposedServer, ann: OpenAI) -> None:
    before = len(list(exposed.client.runs()))
    part: Any = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    with pytest.raises(openai.APIStatusError) as refused:
        ann.chat.completions.create(model="talk", messages=[{"role": "user", "content": [part]}])
    assert refused.value.status_code in (400, 422) and "address" in str(refused.value).lower()
    assert len(list(exposed.client.runs())) == before
