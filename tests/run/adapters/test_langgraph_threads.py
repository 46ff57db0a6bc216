"""Graphs of LangGraph in a thread: the state continues, and files and earlier messages arrive."""

from __future__ import annotations

import asyncio
import base64
import operator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

from perdure import Client, File, InvalidFlow, Run, RunStatus, Settings
from perdure.flows.adapters import graph_thread
from perdure.flows.adapters.graph_thread import STATE
from perdure.flows.adapters.langgraph import register_graph
from perdure.flows.rounds import registry
from perdure.worker.web.exposed_flows import answer_text
from perdure.worker.web.ui_streams.ai_sdk import ANSWER, AiSdkWriter
from perdure.worker.web.ui_streams.response import UiResponse
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.workflow_effects import (
    DONE,
    FAILING,
    effect,
    nothing_done,
    play,
    play_anywhere,
    play_one,
)

__all__ = ["nothing_done"]
PICTURE = File("hat.png", b"\x89PNG\r\n\x1a\n" + bytes(300_000))
#: The contents of the messages that each request has read.
SEEN: list[list[Any]] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


def answer(state: MessagesState) -> dict[str, Any]:
    SEEN.append([each.content for each in state["messages"]])
    effect("answer")
    return {"messages": [AIMessage(f"{len(state['messages'])} messages")]}


chat = StateGraph(MessagesState)
chat.add_node("answer", answer)
chat.add_edge(START, "answer")
register_graph("thread_graph", chat, idempotent=True)
register_graph("thread_other_graph", chat, idempotent=True)
register_graph("thread_no_graph", chat, idempotent=True, thread="none")
register_graph("thread_forgetful_graph", chat, idempotent=True, history=False)


class Log(TypedDict, total=False):
    """A state without messages."""

    goal: str
    files: list[Any]
    log: Annotated[list[str], operator.add]


def note(state: Log) -> Log:
    effect("note")
    return {"log": [f"did {state['goal']}"]}


logs = StateGraph(Log)
logs.add_node("note", note)
logs.add_edge(START, "note")
register_graph("thread_log", logs, idempotent=True)


class Bare(TypedDict, total=False):
    """A state without a place for files."""

    goal: str


bare = StateGraph(Bare)
bare.add_node("note", lambda state: {})
bare.add_edge(START, "note")
register_graph("thread_bare", bare, idempotent=True)


def say(client: Client, driver: Driver, text: str, flow: str | None = None) -> Run:
    sent = client.send("ada", text, flow=flow)
    return play(driver, client.get(sent.run_id))


@pytest.mark.parametrize("flow", ["thread_graph", "thread_forgetful_graph"])
def test_the_state_of_a_graph_continues_in_its_thread(
    client: Client, driver: Driver, flow: str
) -> None:
    outside = chat.compile(checkpointer=InMemorySaver())
    place: Any = {"configurable": {"thread_id": "ada"}}
    for text in ("I am Ann", "I have a hat", "who am I?", "and now?", "bye"):
        done = say(client, driver, text, flow)
        told = asyncio.run(outside.ainvoke({"messages": [HumanMessage(text)]}, place))
        assert [each["content"] for each in done.answer["messages"]] == [
            each.content for each in told["messages"]
        ]
    assert len(done.answer["messages"]) == 10


def test_a_state_without_messages_continues_too(client: Client, driver: Driver) -> None:
    for text in ("a", "b", "c"):
        done = say(client, driver, text, "thread_log")
    assert done.answer == {"goal": "c", "log": ["did a", "did b", "did c"]}


def test_other_workers_go_on_with_the_same_state(
    client: Client, driver: Driver, settings: Settings
) -> None:
    say(client, driver, "I am Ann", "thread_graph")
    run = client.get(client.send("ada", "who am I?").run_id)
    assert play_one(driver, before_its_commit=True)
    assert play_one(driver)
    assert play_one(driver, before_its_commit=True)
    assert play_anywhere(settings, run).status is RunStatus.COMPLETED
    assert SEEN[1] == SEEN[2] == ["I am Ann", "1 messages", "who am I?"]


def test_a_run_that_failed_is_told_of_and_leaves_no_state(client: Client, driver: Driver) -> None:
    say(client, driver, "I am Ann", "thread_log")
    FAILING["note"] = 9
    assert say(client, driver, "b").status is RunStatus.ERRORED
    FAILING.clear()
    assert say(client, driver, "c").answer["log"] == ["did I am Ann", "did c"]


def test_a_graph_gets_messages_of_other_flows(client: Client, driver: Driver) -> None:
    say(client, driver, "I am Ann", "thread_graph")
    say(client, driver, "I have a hat", "thread_other_graph")
    say(client, driver, "who am I?", "thread_graph")
    assert SEEN[1] == ["I am Ann", "1 messages", "I have a hat"]
    assert SEEN[2] == ["I am Ann", "1 messages", "I have a hat", "3 messages", "who am I?"]


def test_a_state_that_is_too_large_is_replaced_by_messages(
    client: Client, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_thread, "MOST_CHARACTERS", 10)
    first = say(client, driver, "I am Ann", "thread_graph")
    say(client, driver, "who am I?")
    assert SEEN[1] == ["I am Ann", "1 messages", "who am I?"]
    assert "the limit is 10" in str([event.to_dict() for event in client.events(first.id)])


def test_a_state_that_no_longer_fits_is_replaced_by_messages(
    client: Client, driver: Driver
) -> None:
    first = say(client, driver, "I am Ann", "thread_graph")
    store = driver.engine.store
    store.redis.hset(store.keys.artifacts(first.id), STATE, "of another release")
    second = say(client, driver, "who am I?")
    assert SEEN[1] == ["I am Ann", "1 messages", "who am I?"]
    assert "does not fit the graph" in str([event.to_dict() for event in client.events(second.id)])


def test_a_run_of_no_thread_stores_no_state(client: Client, driver: Driver) -> None:
    run = client.submit("thread_graph", "hello")
    play(driver, run)
    assert STATE not in client.artifacts(run.id)


def test_messages_have_the_files_and_the_answer_has_no_bytes(
    client: Client, driver: Driver
) -> None:
    files = [PICTURE, File("a.pdf", b"%PDF-1"), File("a.csv", b"1,2")]
    run = client.submit("thread_graph", "look", files=files)
    done = play(driver, run)
    assert done.status is RunStatus.COMPLETED
    [[content]] = SEEN
    kinds = [(each["type"], each.get("mime_type")) for each in content]
    assert ("image", "image/png") in kinds and ("file", "application/pdf") in kinds
    shown = [base64.b64decode(each["base64"]) for each in content if "base64" in each]
    assert shown == [PICTURE.content, b"%PDF-1"]
    assert "1,2" in str(content)
    blocks = done.answer["messages"][0]["content"]
    assert [each["bytes"] for each in blocks if "bytes" in each] == [len(PICTURE.content), 6]


def test_the_key_files_gets_references(client: Client, driver: Driver) -> None:
    run = client.submit("thread_log", "look", files=[PICTURE])
    assert play(driver, run).answer["files"] == [PICTURE.reference.data]


def test_files_without_a_place_are_refused(client: Client, driver: Driver) -> None:
    run = client.submit("thread_bare", "look", files=[PICTURE])
    assert play(driver, run).status is RunStatus.ERRORED
    assert "has no place for them" in str(client.why(run.id)) and not DONE


def test_the_answer_of_a_graph_is_text_in_its_thread(client: Client, driver: Driver) -> None:
    say(client, driver, "hello", "thread_graph")
    assert [each.text for each in client.conversation("ada")] == ["hello", "1 messages"]


def test_the_answer_of_a_graph_is_text_at_the_doors(client: Client, driver: Driver) -> None:
    done = say(client, driver, "hello", "thread_graph")
    assert answer_text(done) == "1 messages"
    events = list(UiResponse(done.id, AiSdkWriter()).end(done, None))
    assert "1 messages" in [each.get("delta") for each in events]
    assert ANSWER not in [each["type"] for each in events]


@pytest.mark.parametrize("dies", [False, True])
def test_a_graph_is_run_again_with_what_people_said(
    client: Client, driver: Driver, settings: Settings, dies: bool
) -> None:
    run = client.get(client.send("ada", "I am Ann", flow="thread_graph").run_id)
    assert play_one(driver)
    assert client.send("ada", "I have a hat").run_id == run.id
    if dies:
        assert play_one(driver) and play_one(driver, before_its_commit=True)
    assert play_anywhere(settings, run).status is RunStatus.COMPLETED
    assert SEEN[-1] == ["I am Ann", "1 messages", "I have a hat"]
    say(client, driver, "who am I?")
    assert SEEN[-1] == ["I am Ann", "1 messages", "I have a hat", "3 messages", "who am I?"]
    texts = [each.text for each in client.conversation("ada")]
    assert texts == ["I am Ann", "I have a hat", "3 messages", "who am I?", "5 messages"]


def test_a_question_to_a_graph_is_replied_to_with_its_answer(
    client: Client, driver: Driver
) -> None:
    run = client.submit("thread_graph", "I am Ann")
    assert play_one(driver)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.ask, run.id, "who am I?", timeout=60)
        until(lambda: client.unread(run.id).get("ask"), "the question")
        assert play(driver, run).status is RunStatus.COMPLETED
        assert asked.result() == "3 messages"


def test_words_that_a_graph_has_no_place_for_stay_unread(client: Client, driver: Driver) -> None:
    run = client.get(client.send("ada", "a", flow="thread_log").run_id)
    assert play_one(driver)
    client.send("ada", "b")
    assert play(driver, run).status is RunStatus.COMPLETED
    assert client.unread(run.id) == {"say": 1}


def calls(state: MessagesState) -> dict[str, Any]:
    call = {"name": "look", "args": {"city": "Oslo"}, "id": "1", "type": "tool_call"}
    return {"messages": [AIMessage("I look", tool_calls=[call])]}


calling = StateGraph(MessagesState)
calling.add_node("calls", calls)
calling.add_edge(START, "calls")
register_graph("thread_calling", calling, idempotent=True)


def test_a_transcript_tells_what_a_model_said_and_called(client: Client, driver: Driver) -> None:
    run = client.submit("thread_calling", "look")
    play(driver, run)
    [turn] = client.transcript(run.id)["history"]
    assert turn["command"]["thought"] == 'I look; look {"city":"Oslo"}'


def test_thread_none_begins_each_run_anew(client: Client, driver: Driver) -> None:
    run = client.get(client.send("ada", "I am Ann", flow="thread_no_graph").run_id)
    assert play_one(driver)
    client.send("ada", "I have a hat")
    assert play(driver, run).status is RunStatus.COMPLETED
    say(client, driver, "who am I?")
    assert SEEN == [["I am Ann"], ["who am I?"]] and STATE not in client.artifacts(run.id)


def test_an_unknown_use_of_the_thread_is_refused() -> None:
    unknown: Any = "text"
    with pytest.raises(InvalidFlow, match="expected 'state' or 'none'"):
        register_graph("thread_wrong_graph", chat, thread=unknown)


def test_a_flow_says_whether_its_graph_reads_messages() -> None:
    graphs = {"thread_graph": True, "thread_no_graph": False}
    assert {name: registry.make(name).reads_messages for name in graphs} == graphs
