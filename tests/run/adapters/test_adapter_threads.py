"""Agents of other libraries in a thread: they get earlier messages, and the files of their run."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import Model as OpenAIModel
from agents import ModelResponse as OpenAIResponse
from agents import SQLiteSession, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from perdure import (
    AsyncSteps,
    Client,
    File,
    InvalidFlow,
    RunStatus,
    Settings,
    Steps,
    workflow,
)
from perdure.flows.adapters import openai_agents, prompts, pydantic_ai
from perdure.flows.rounds import registry
from perdure.worker.domain.fleet import describe
from tests.support.round_driver import Driver, driving
from tests.support.workflow_effects import nothing_done, play, play_anywhere, play_one

__all__ = ["nothing_done"]
PICTURE = File("hat.png", b"\x89PNG\r\n\x1a\n1")
#: The results of calls that requests have read.
RESULTS: list[Any] = []
#: Called by the next requests, such as a person who says something meanwhile.
MEANWHILE: list[Callable[[], object]] = []
#: By run, the messages of each request of its agent: role and content.
SEEN: list[list[tuple[str, Any]]] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()
    RESULTS.clear()
    MEANWHILE.clear()


def answers(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    seen: list[tuple[str, Any]] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, SystemPromptPart):
                seen.append(("system", part.content))
            elif isinstance(part, ToolReturnPart):
                RESULTS.append(part.content)
            elif isinstance(part, UserPromptPart | TextPart):
                role = "user" if isinstance(message, ModelRequest) else "assistant"
                seen.append((role, _plain(part.content)))
    SEEN.append(seen)
    if MEANWHILE:
        MEANWHILE.pop(0)()
    is_called = any(isinstance(message, ModelResponse) for message in messages[-3:])
    if "look up" in str(seen[-1][1]) and not is_called:
        return ModelResponse(parts=[ToolCallPart("look_up", {})])
    return ModelResponse(parts=[TextPart(f"answer {len(seen)}")])


def _plain(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [each.data if isinstance(each, BinaryContent) else each for each in content]


pydantic_chat = Agent(
    FunctionModel(answers),
    name="chat",
    system_prompt="Be short.",
    capabilities=[pydantic_ai.PerdureDurability()],
)


@pydantic_chat.tool_plain(metadata={"idempotent": True})
def look_up() -> str:
    return "found"


pydantic_ai.register_agent("thread_pydantic", pydantic_chat)
pydantic_ai.register_agent("thread_pydantic_full", pydantic_chat, thread="full")
pydantic_ai.register_agent("thread_pydantic_alone", pydantic_chat, thread="none")


class Answers(OpenAIModel):
    """Says how many messages it has read."""

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002
        *args: Any,
        **named: Any,
    ) -> OpenAIResponse:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        seen = [(each["role"], _read(each["content"])) for each in items if "role" in each]
        SEEN.append([("system", system_instructions), *seen])
        results = (each for each in items if each.get("type") == "function_call_output")
        RESULTS.extend(each["output"] for each in results)
        if MEANWHILE:
            MEANWHILE.pop(0)()
        is_called = any(each.get("type") == "function_call_output" for each in items)
        if "look up" in str(seen[-1][1]) and not is_called:
            call = ResponseFunctionToolCall(
                call_id="c", name="look_up", arguments="{}", type="function_call"
            )
            return OpenAIResponse(output=[call], usage=Usage(requests=1), response_id=None)
        text = f"answer {len(seen) + 1}"
        part = ResponseOutputText(type="output_text", text=text, annotations=[], logprobs=[])
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[part]
        )
        return OpenAIResponse(output=[message], usage=Usage(requests=1), response_id=None)

    def stream_response(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError


def _read(content: Any) -> Any:
    if isinstance(content, str):
        return content
    read: list[Any] = []
    for part in content:
        data = part.get("image_url") or part.get("file_data")
        read.append(part["text"] if data is None else base64.b64decode(data.partition(",")[2]))
    return read if len(read) > 1 else read[0]


@function_tool(name_override="look_up")
async def look_up_too() -> str:
    return "found"


openai_chat = OpenAIAgent(
    name="chat", model=Answers(), instructions="Be short.", tools=[look_up_too]
)
openai_agents.register_agent("thread_openai", openai_chat)
openai_agents.register_agent("thread_openai_full", openai_chat, thread="full")
openai_agents.register_agent("thread_openai_alone", openai_chat, thread="none")

AGENTS = ["thread_pydantic", "thread_openai"]


def say(client: Client, driver: Driver, text: str, flow: str) -> Any:
    sent = client.send("ada", text, flow=flow)
    return play(driver, client.get(sent.run_id)).answer


@pytest.mark.parametrize("flow", AGENTS)
def test_an_agent_gets_the_earlier_messages_of_its_thread(
    client: Client, driver: Driver, flow: str
) -> None:
    for text in ("I am Ann", "I have a hat", "who am I?"):
        say(client, driver, text, flow)
    assert SEEN[-1] == [
        ("system", "Be short."),
        ("user", "I am Ann"),
        ("assistant", "answer 2"),
        ("user", "I have a hat"),
        ("assistant", "answer 4"),
        ("user", "who am I?"),
    ]


@pytest.mark.parametrize("flow", AGENTS)
def test_another_attempt_on_another_worker_sends_the_same_messages(
    client: Client, driver: Driver, settings: Settings, flow: str
) -> None:
    first = client.get(client.send("ada", "I am Ann", flow=flow).run_id)
    play(driver, first)
    second = client.get(client.send("ada", "who am I?").run_id)
    assert play_one(driver)  # It finds out which role the first step has.
    assert play_one(driver, before_its_commit=True)
    with driving(settings) as other:
        assert play(other, second).status is RunStatus.COMPLETED
    assert SEEN[1] == SEEN[2] and len(SEEN[2]) == 4


@pytest.mark.parametrize("flow", AGENTS)
def test_thread_none_leaves_the_earlier_messages_out(
    client: Client, driver: Driver, flow: str
) -> None:
    for text in ("I am Ann", "who am I?"):
        say(client, driver, text, f"{flow}_alone")
    assert SEEN[-1] == [("system", "Be short."), ("user", "who am I?")]


@pytest.mark.parametrize("flow", AGENTS)
def test_an_agent_gets_the_files_of_its_submission(
    client: Client, driver: Driver, flow: str
) -> None:
    files = [
        PICTURE,
        File("a.pdf", b"%PDF-1"),
        File("a.csv", b"1,2"),
        File("a.bin", b"1", "application/octet-stream"),
    ]
    run = client.submit(flow, "look", files=files)
    assert play(driver, run).status is RunStatus.COMPLETED
    [_, (role, content)] = SEEN[-1]
    lines = [each for each in content if isinstance(each, str)]
    assert role == "user" and lines[0].startswith("look")
    assert [each for each in content if isinstance(each, bytes)] == [PICTURE.content, b"%PDF-1"]
    assert any("1,2" in line for line in lines)
    assert "[File a.bin: application/octet-stream, 1 bytes, not shown]" in "\n".join(lines)


@pytest.mark.parametrize("flow", AGENTS)
def test_the_text_of_an_earlier_message_names_its_files(
    client: Client, driver: Driver, flow: str
) -> None:
    for text in ("this is my hat", ""):
        play(driver, client.get(client.send("ada", text, flow=flow, files=[PICTURE]).run_id))
    say(client, driver, "which colour is it?", flow)
    line = f"[File hat.png: image/png, {len(PICTURE.content)} bytes, sent then, not shown now]"
    told = [content for role, content in SEEN[-1] if role == "user"]
    assert told == [f"this is my hat\n{line}", line, "which colour is it?"]
    assert client.conversation("ada")[0].text == "this is my hat"


def test_a_run_that_an_older_release_began_goes_on_without_the_thread(
    client: Client, driver: Driver, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(client, driver, "I am Ann", "thread_pydantic")
    run = client.get(client.send("ada", "look up who I am").run_id)
    with monkeypatch.context() as older:
        older.setattr(pydantic_ai, "prompt_parts", lambda steps: ([], ()))
        assert play_one(driver) and play_one(driver)
    assert play_anywhere(settings, run).status is RunStatus.COMPLETED
    assert SEEN[1] == SEEN[2] == [("system", "Be short."), ("user", "look up who I am")]


@pytest.mark.parametrize("flow", AGENTS)
def test_a_flow_says_whether_its_agent_reads_messages(flow: str) -> None:
    assert describe(registry.make(flow))["reads_messages"]
    assert not describe(registry.make(f"{flow}_alone"))["reads_messages"]


def test_an_unknown_use_of_the_thread_is_refused() -> None:
    unknown: Any = "all"
    with pytest.raises(InvalidFlow, match="expected 'text', 'full' or 'none'"):
        pydantic_ai.register_agent("thread_wrong", pydantic_chat, thread=unknown)
    with pytest.raises(InvalidFlow, match="expected 'text', 'full' or 'none'"):
        openai_agents.register_agent("thread_wrong", openai_chat, thread=unknown)


@pytest.mark.parametrize("flow", AGENTS)
@pytest.mark.parametrize("dies", [False, True])
def test_an_agent_goes_on_with_what_people_said_until_it_answered(
    client: Client, driver: Driver, settings: Settings, flow: str, dies: bool
) -> None:
    run = client.get(client.send("ada", "I am Ann", flow=flow).run_id)
    MEANWHILE[:] = [lambda: [client.send("ada", text) for text in ("I have a hat", "and a cat")]]
    assert play_one(driver)
    for _ in range(3 if dies else 0):
        assert play_one(driver, before_its_commit=True)
        assert play_one(driver)
    assert play_anywhere(settings, run).status is RunStatus.COMPLETED
    heard = [
        ("system", "Be short."),
        ("user", "I am Ann"),
        ("assistant", "answer 2"),
        ("user", "I have a hat\n\nand a cat"),
    ]
    assert SEEN[-1] == heard and client.get(run.id).answer == "answer 4"
    say(client, driver, "who am I?", flow)
    assert [content for _, content in SEEN[-1][1:]] == [
        "I am Ann",
        "I have a hat",
        "and a cat",
        "answer 4",
        "who am I?",
    ]


@pytest.mark.parametrize("flow", AGENTS)
@pytest.mark.parametrize("dies", [False, True])
def test_words_are_heard_before_the_next_request(
    client: Client, driver: Driver, settings: Settings, flow: str, dies: bool
) -> None:
    run = client.get(client.send("ada", "look up who I am", flow=flow).run_id)
    MEANWHILE[:] = [lambda: client.send("ada", "I have a hat", key="hat")]
    while len(SEEN) < 2:
        if dies:
            assert play_one(driver, before_its_commit=True)
        assert play_one(driver)
    assert play_anywhere(settings, run).status is RunStatus.COMPLETED
    words = [[content for role, content in each if role == "user"] for each in SEEN]
    assert words[-1] == ["look up who I am", "I have a hat"]
    assert {tuple(each) for each in words[:-1]} <= {tuple(words[-1]), ("look up who I am",)}
    assert dies or len(SEEN) == 2
    say(client, driver, "who am I?", flow)
    assert [content for _, content in SEEN[-1][1:]] == [
        "look up who I am",
        "I have a hat",
        client.get(run.id).answer,
        "who am I?",
    ]


@pytest.mark.parametrize("flow", AGENTS)
def test_words_said_before_the_first_request_are_part_of_it(
    client: Client, driver: Driver, flow: str
) -> None:
    run = client.get(client.send("ada", "I am Ann", flow=flow).run_id)
    client.send("ada", "and I have a hat")
    assert play(driver, run).status is RunStatus.COMPLETED
    assert SEEN == [[("system", "Be short."), ("user", "I am Ann"), ("user", "and I have a hat")]]


@pytest.mark.parametrize("flow", AGENTS)
@pytest.mark.parametrize("goal", ["look up who I am", "I am Ann"])
def test_each_request_sends_the_same_words_on_each_worker(
    client: Client, settings: Settings, flow: str, goal: str
) -> None:
    """Words before each request, and after each answer. Each worker runs the function again."""
    run = client.get(client.send("ada", goal, flow=flow).run_id)
    MEANWHILE[:] = [
        lambda: client.send("ada", "I have a hat"),
        lambda: client.send("ada", "and a cat"),
    ]
    assert play_anywhere(settings, run).status is RunStatus.COMPLETED
    words = [[content for role, content in each if role == "user"] for each in SEEN]
    whole = [goal, "I have a hat", "and a cat"]
    assert words == [whole[:1], whole[:2], whole]


@pytest.mark.parametrize("flow", AGENTS)
@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("goal", ["I am Ann", "look up who I am"])
def test_a_question_is_heard_with_the_next_request_and_the_answer_is_the_reply(
    client: Client, driver: Driver, settings: Settings, flow: str, dies: bool, goal: str
) -> None:
    run = client.submit(flow, goal)

    def meanwhile() -> None:
        client.say(run.id, "I have a hat")
        client.signal(run.id, "ask", "how far are you?")
        client.say(run.id, "and a cat")

    MEANWHILE[:] = [meanwhile]
    while len(SEEN) < 2:
        if dies:
            assert play_one(driver, before_its_commit=True)
        assert play_one(driver)
    ended = play_anywhere(settings, run)
    assert ended.status is RunStatus.COMPLETED and not client.unread(run.id)
    told = [content for role, content in SEEN[-1] if role == "user"]
    assert told == [goal, "I have a hat\n\nhow far are you?\n\nand a cat"]
    reply = client.reply(run.id, 1)
    assert reply is not None and reply.value == ended.answer


@pytest.mark.parametrize("flow", AGENTS)
@pytest.mark.parametrize("dies", [False, True])
def test_a_full_thread_has_calls_results_files_and_words_of_earlier_runs(
    client: Client, driver: Driver, settings: Settings, flow: str, dies: bool
) -> None:
    sent = client.send("ada", "look up my hat", flow=f"{flow}_full", files=[PICTURE])
    MEANWHILE[:] = [lambda: client.send("ada", "it is green")]
    play(driver, client.get(sent.run_id))
    say(client, driver, "and?", f"{flow}_full")
    RESULTS.clear()
    run = client.get(client.send("ada", "who am I?").run_id)
    if dies:
        assert play_one(driver)
        assert play_one(driver, before_its_commit=True)
    assert play_anywhere(settings, run).status is RunStatus.COMPLETED
    first, *others = [content for _, content in SEEN[-1][1:]]
    assert first[0].startswith("look up my hat") and first[-1] == PICTURE.content
    assert others[0] == "it is green" and others[-1] == "who am I?" and len(others) == 5
    assert set(RESULTS) == {"found"}
    assert not dies or SEEN[-1] == SEEN[-2]


def test_a_full_thread_goes_on_as_text_where_its_items_are_of_no_use(
    client: Client, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as small:
        small.setattr(prompts, "MOST_CHARACTERS", 100)
        say(client, driver, "I am Ann", "thread_pydantic_full")
    [told] = list(client.runs(thread_id="ada"))
    facts = [each.data for each in client.events(told.id)]
    assert any("the limit is 100" in str(each.get("thread_as_text")) for each in facts)
    say(client, driver, "a cat", "thread_openai_full")  # The items of the other flow do not count.
    say(client, driver, "who am I?", "thread_pydantic_full")
    assert [content for _, content in SEEN[-1][1:]] == [
        "I am Ann",
        "answer 2",
        "a cat",
        "answer 4",
        "who am I?",
    ]


@workflow("thread_own_steps")
def own_steps(steps: Steps, goal: str) -> dict[str, Any]:
    """A workflow of one's own, which reads the thread and the files by itself."""
    earlier = [(each.role, each.text) for each in steps.earlier()]
    return {"earlier": earlier, "files": [each.name for each in steps.files()]}


def test_a_workflow_reads_the_earlier_messages_and_the_files(
    client: Client, driver: Driver
) -> None:
    say(client, driver, "I am Ann", "thread_openai")
    sent = client.send("ada", "look", flow="thread_own_steps", files=[PICTURE])
    assert play(driver, client.get(sent.run_id)).answer == {
        "earlier": [["user", "I am Ann"], ["assistant", "answer 2"]],
        "files": ["hat.png"],
    }


@workflow("thread_session")
async def with_a_session(steps: AsyncSteps, goal: str) -> Any:
    with closing(SQLiteSession("ada")) as session:
        return await openai_agents.run_agent(openai_chat, goal, session=session)


def test_a_session_of_the_sdk_is_refused(client: Client, driver: Driver) -> None:
    done = play(driver, client.submit("thread_session", "hello"))
    assert done.status is RunStatus.ERRORED and "Use thread='full'" in str(done.error)
