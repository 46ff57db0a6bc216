"""Graphs of LangGraph: finished nodes stay finished when a worker dies, and a person is asked about
doubts.
"""

from __future__ import annotations

import asyncio
import inspect
import operator
import re
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import median
from typing import Annotated, Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.managed import IsLastStep, RemainingSteps
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, RetryPolicy, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from perdure import (
    Advance,
    Client,
    InvalidFlow,
    InvalidInput,
    RoundContext,
    RoundStopped,
    RunStatus,
    Settings,
)
from perdure.flows.adapters.graph_checkpoints import JOINED, MOST_PARTS, StoredChannel
from perdure.flows.adapters.graph_history import RECORDS
from perdure.flows.adapters.langgraph import graph_of, register_graph
from perdure.flows.rounds import registry
from perdure.testing import crash_lab
from perdure.worker.store.replies import known_flows
from tests.support.example_flows.graphs import (
    FAN,
    LETTERS,
    ROUNDS,
    Farm,
    fan,
    inner,
    jumps,
    names,
    node,
)
from tests.support.round_driver import Driver, driving
from tests.support.workflow_effects import (
    BEGUN,
    DEADLY,
    DONE,
    FAILING,
    effect,
    nothing_done,
    other,
    play,
    play_anywhere,
    play_one,
    play_until_it_waits_for_code,
)

__all__ = ["nothing_done", "other"]


@pytest.mark.parametrize("flow", ["graph_fan", "graph_async_fan"])
@pytest.mark.parametrize("deadly", [(), ("first",), ("a",), ("b",), ("c",), ("a", "c"), ("last",)])
def test_only_the_node_in_hand_runs_again(
    client: Client, driver: Driver, flow: str, deadly: tuple[str, ...]
) -> None:
    DEADLY.update(deadly)
    run = client.submit(flow, "farm")
    done = play(driver, run)
    assert (done.status, done.answer) == (RunStatus.COMPLETED, {"goal": "farm", "log": FAN})
    assert {each: 2 if each in deadly else 1 for each in ("first", "a", "b", "c", "last")} == DONE
    assert sorted(names(client, run)) == ["a", "b", "c", "first", "last"]


def test_a_node_that_may_have_run_is_asked_about(client: Client, driver: Driver) -> None:
    DEADLY.update(["a", "b"])
    run = client.submit("graph_strict_fan", "farm")
    assert play(driver, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert (question.kind, question.args["log"]) == ("in_doubt", ["first is done"])
    assert question.listener == "graph"
    client.resume(run.id, {"result": {"log": ["a was done"]}})
    done = play(driver, run)
    assert done.answer["log"] == [FAN[0], "a was done", *FAN[2:]]
    assert DONE == {"first": 1, "a": 1, "b": 2, "c": 1, "last": 1}


@pytest.mark.parametrize("answer", ["retry", {"tell": "it has failed"}])
def test_what_a_person_says_of_a_node_in_doubt(client: Client, driver: Driver, answer: Any) -> None:
    DEADLY.update(["a"])
    run = client.submit("graph_strict_fan", "farm")
    play(driver, run)
    client.resume(run.id, answer)
    done = play(driver, run)
    if answer != "retry":
        assert done.status is RunStatus.ERRORED and "it has failed" in str(client.why(run.id))
        client.retry(run.id)
        assert play(driver, run).status is RunStatus.INTERRUPTED  # It is still in doubt.
        client.resume(run.id, "retry")
        done = play(driver, run)
    assert done.answer["log"] == FAN
    assert DONE == {"first": 1, "a": 2, "b": 1, "c": 1, "last": 1}


def test_a_result_of_a_person_that_does_not_fit_is_asked_for_again(
    client: Client, driver: Driver
) -> None:
    DEADLY.update(["a"])
    run = client.submit("graph_strict_fan", "farm")
    play(driver, run)
    client.resume(run.id, {"result": "done"})
    assert play(driver, run).status is RunStatus.ERRORED
    assert "refuses what a person said that the node 'a' has returned" in str(client.why(run.id))
    client.retry(run.id)
    assert play(driver, run).status is RunStatus.INTERRUPTED
    client.resume(run.id, {"result": {"log": ["a is done"]}})
    assert play(driver, run).answer["log"] == FAN
    assert DONE["a"] == 1


@pytest.mark.parametrize("flow", ["graph_fan", "graph_async_fan", "graph_strict_fan"])
def test_each_round_is_played_by_another_process(
    client: Client, settings: Settings, flow: str
) -> None:
    run = client.submit(flow, "farm")
    rounds = 0
    while not client.get(run.id).status.ended:
        with driving(settings) as other:
            rounds += play_one(other)
    assert client.get(run.id).answer["log"] == FAN
    assert rounds == 4


def test_a_node_that_fails_ends_the_run_and_a_retry_goes_on(client: Client, driver: Driver) -> None:
    FAILING["a"] = 1
    run = client.submit("graph_strict_fan", "farm")
    failed = play(driver, run)
    assert failed.status is RunStatus.ERRORED
    assert "the node 'a' of the graph failed: ValueError: a failed" in str(client.why(run.id))
    client.retry(run.id)
    assert play(driver, run).answer["log"] == FAN
    assert DONE == {"first": 1, "a": 2, "b": 1, "c": 1, "last": 1}


wrong = StateGraph(Farm)
wrong.add_node("wrong", lambda state: effect("wrong"))  # not a mapping
wrong.add_edge(START, "wrong")
register_graph("graph_wrong", wrong)


def test_a_result_that_the_graph_refuses_is_not_tried_again(client: Client, driver: Driver) -> None:
    run = client.submit("graph_wrong", "farm")
    assert play(driver, run).status is RunStatus.ERRORED
    assert "the node 'wrong' of the graph failed: InvalidUpdateError" in str(client.why(run.id))
    client.retry(run.id)
    assert play(driver, run).status is RunStatus.ERRORED
    assert DONE["wrong"] == 2


def test_a_policy_of_the_graph_retries_a_node(client: Client, driver: Driver) -> None:
    FAILING["flaky"] = 2
    run = client.submit("graph_flaky", "farm")
    assert play(driver, run).answer["log"] == ["flaky is done"]
    assert DONE["flaky"] == 3


flaky = StateGraph(Farm)
flaky.add_node(
    "flaky",
    node("flaky"),
    retry_policy=RetryPolicy(max_attempts=3, initial_interval=0.01, retry_on=ValueError),
)
flaky.add_edge(START, "flaky")
register_graph("graph_flaky", flaky)


HAS_FAILED = threading.Event()


def fails(state: Farm) -> Farm:
    HAS_FAILED.set()
    return {"log": [effect("fails")]}


def waits_for_it(state: Farm) -> Farm:
    HAS_FAILED.wait(10)
    time.sleep(0.05)  # The error is on its way.
    return {"log": [effect("slow")]}


async def waits_for_it_too(state: Farm) -> Farm:
    await asyncio.to_thread(HAS_FAILED.wait, 10)
    await asyncio.sleep(0.05)
    return {"log": [effect("async slow")]}


siblings = StateGraph(Farm)
for name, function in (("fails", fails), ("slow", waits_for_it), ("too", waits_for_it_too)):
    siblings.add_node(name, function)
    siblings.add_edge(START, name)
register_graph("graph_siblings", siblings)


def test_the_siblings_of_a_node_that_fails_go_on_to_their_end(
    client: Client, driver: Driver
) -> None:
    HAS_FAILED.clear()
    FAILING["fails"] = 1
    run = client.submit("graph_siblings", "farm")
    assert play(driver, run).status is RunStatus.ERRORED
    assert DONE == {"fails": 1, "slow": 1, "async slow": 1}
    client.retry(run.id)
    assert play(driver, run).status is RunStatus.COMPLETED
    assert DONE == {"fails": 2, "slow": 1, "async slow": 1}


async def sleeps(state: Farm) -> Farm:
    HAS_FAILED.set()
    try:
        await asyncio.sleep(60)
    finally:
        effect("clean-up")
    return {}


sleeping = StateGraph(Farm)
sleeping.add_node("sleeps", sleeps)
sleeping.add_edge(START, "sleeps")
Sleeping = register_graph("graph_sleeping", sleeping)


def test_a_coroutine_is_cancelled_with_its_round() -> None:
    HAS_FAILED.clear()
    begun = Sleeping().play("Superstep", RoundContext("farm"))
    assert isinstance(begun, Advance)
    context = RoundContext("farm", step=1, committed=begun.values)
    threading.Thread(target=lambda: HAS_FAILED.wait(10) and context.cancelled.set()).start()
    with pytest.raises(RoundStopped, match="the round was cancelled"):
        Sleeping().play("Superstep", context)
    assert DONE["clean-up"] == 1
    assert context.journal.text  # It may have happened.


@pytest.mark.parametrize("flow", ["graph_fan", "graph_async_fan", "graph_jumps", "graph_of_tools"])
def test_the_crash_lab_plays_graphs(flow: str) -> None:
    # The ids of messages are random.
    assert crash_lab(flow, "go", same_answer=flow != "graph_of_tools").stories > 20


def registered_chain(*names: str, asks: str = "", nested: bool = False) -> None:
    """Register a graph of nodes that follow one another again, as a deployment does."""

    def node(name: str) -> Any:
        def run(state: Farm) -> Farm:
            if name == asks:
                interrupt(f"{name}?")
            return {"log": [effect(name)]}

        return run

    chain = StateGraph(Farm)
    for name in names:
        chain.add_node(name, node(name))
    chain.add_edge(START, names[0])
    for before, after in pairwise(names):
        chain.add_edge(before, after)
    graph = chain
    if nested:
        graph = StateGraph(Farm)
        graph.add_node("inner", chain.compile())
        graph.add_edge(START, "inner")
    registry._definitions.pop("graph_deployed", None)
    register_graph("graph_deployed", graph)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("asks", ["", "ask"])
def test_a_graph_whose_next_node_is_gone_does_not_end_as_if_it_were_done(
    client: Client, driver: Driver, settings: Settings, asks: str, nested: bool
) -> None:
    registered_chain("look", "ask", "pay", asks=asks, nested=nested)
    run = client.submit("graph_deployed", "go")
    while "look" not in DONE or (asks and not client.inbox().waiting):
        assert play_one(driver)
    registered_chain("look", "asked", "pay", asks=asks, nested=nested)
    if asks:
        client.resume(run.id, "yes")
    error = play_until_it_waits_for_code(client, settings, run)
    assert "has come to the node 'ask'" in error and "look, asked, pay" in error
    assert "pay" not in DONE
    registered_chain("look", "ask", "pay", asks=asks, nested=nested)  # The deployment is undone.
    with driving(settings) as another:
        done = play(another, run)
        if done.status is RunStatus.INTERRUPTED:
            client.resume(run.id, "yes")
            done = play(another, run)
    assert done.status is RunStatus.COMPLETED and DONE["pay"] == DONE["look"] == 1


# People


@pytest.mark.parametrize("deadly", [(), ("buy",), ("sell",), ("beside",)])
def test_two_nodes_ask_one_after_the_other(
    client: Client, settings: Settings, deadly: tuple[str, ...]
) -> None:
    DEADLY.update(deadly)
    run = client.submit("graph_asks", "farm")
    questions = []
    while play_anywhere(settings, run).status is RunStatus.INTERRUPTED:
        [question] = client.inbox().waiting
        if question.kind == "in_doubt":
            client.resume(run.id, "retry")
            continue
        questions.append(question.question)
        assert question.data["value"]["price"] == 3
        client.resume(run.id, "yes" if "buy" in question.question else {"no": "never"})
    assert questions == ["may I buy?", "may I sell?"]
    done = client.get(run.id)
    assert sorted(done.answer["log"]) == ["beside is done", "buy: yes", "sell: {'no': 'never'}"]
    assert {name: 2 if name in deadly else 1 for name in ("beside", "buy", "sell")} == DONE
    # A node begins once to ask, and once with its answer.
    assert {name: 3 if name in deadly else 2 for name in ("buy", "sell")} == BEGUN


def test_a_node_asks_twice(client: Client, settings: Settings) -> None:
    run = client.submit("graph_twice", "farm")
    for question, answer in (("your name?", "Ann"), ("Ann, your age?", 12)):
        assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
        assert client.inbox().waiting[0].question == question
        client.resume(run.id, answer)
    assert play_anywhere(settings, run).answer["log"] == ["Ann is 12"]


@pytest.mark.parametrize("deadly", [(), ("look",), ("ask",), ("write",), ("beside",), ("after",)])
def test_a_subgraph_asks(client: Client, settings: Settings, deadly: tuple[str, ...]) -> None:
    DEADLY.update(deadly)
    run = client.submit("graph_outer", "farm")
    assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert question.question == "may I ask?"
    client.resume(run.id, "yes")
    done = play_anywhere(settings, run)
    assert done.status is RunStatus.COMPLETED, client.why(run.id)
    assert done.answer["log"] == [
        "beside is done",
        "look is done",
        "ask: yes",
        "write is done",
        "after is done",
    ]
    effects = ("look", "ask", "write", "beside", "after")
    assert {each: 2 if each in deadly else 1 for each in effects} == DONE


def calls(state: Farm) -> Farm:
    effect("calls")
    log = inner_alone.invoke({"goal": state["goal"]})["log"]
    return {"log": log}


inner_alone = inner.compile()
calling = StateGraph(Farm)
calling.add_node("calls", calls)
calling.add_edge(START, "calls")
register_graph("graph_calling", calling)


@pytest.mark.parametrize("deadly", [(), ("write",)])
def test_a_node_invokes_a_graph_that_asks(
    client: Client, settings: Settings, deadly: tuple[str, ...]
) -> None:
    DEADLY.update(deadly)
    run = client.submit("graph_calling", "farm")
    assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
    assert client.inbox().waiting[0].question == "may I ask?"
    client.resume(run.id, "yes")
    if deadly:
        assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
        assert client.inbox().waiting[0].kind == "in_doubt"
        client.resume(run.id, "retry")
    done = play_anywhere(settings, run)
    assert done.answer["log"] == ["look is done", "ask: yes", "write is done"]
    assert {"calls": 2 + len(deadly), "look": 1, "ask": 1, "write": 1 + len(deadly)} == DONE


def test_more_nodes_ask_than_a_round_has(client: Client, driver: Driver) -> None:
    run = client.submit("graph_crowd", "farm")
    while play(driver, run).status is RunStatus.INTERRUPTED:
        [question] = client.inbox().waiting
        client.resume(run.id, f"yes {question.question}")
    log = [f"{number}: yes {number}" for number in range(34)]
    assert client.get(run.id).answer["log"] == log
    assert set(DONE.values()) == {2}  # once to ask, and once with the answer


class Age(BaseModel):
    """An answer."""

    years: int


HAS_SCHEMAS = "response_schema" in inspect.signature(interrupt).parameters


def ask_age(state: Farm) -> Farm:
    age = interrupt("your age?", response_schema=Age)  # type: ignore[call-arg,unused-ignore]
    return {"log": [f"{age.years} years"]}


typed = StateGraph(Farm)
typed.add_node("ask", ask_age)
typed.add_node("beside", node("beside"))
typed.add_edge(START, "ask")
typed.add_edge(START, "beside")
register_graph("graph_typed", typed)


@pytest.mark.skipif(not HAS_SCHEMAS, reason="this LangGraph has no response_schema")
def test_an_answer_that_does_not_fit_is_asked_again(client: Client, settings: Settings) -> None:
    run = client.submit("graph_typed", "farm")
    play_anywhere(settings, run)
    client.resume(run.id, {"years": "many"})
    assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
    [question] = client.inbox().waiting
    assert "your age? (the last answer was not valid: " in question.question
    client.resume(run.id, {"years": 12})
    assert play_anywhere(settings, run).answer["log"] == ["12 years", "beside is done"]
    assert DONE == {"beside": 1}


# Send, goto


@pytest.mark.parametrize("deadly", [(), (0,), (31, 40), (49,)])
def test_fifty_tasks_are_sent(client: Client, driver: Driver, deadly: tuple[int, ...]) -> None:
    DEADLY.update(f"part {number}" for number in deadly)
    done = play(driver, client.submit("graph_many_idempotent", "farm"))
    assert done.answer["log"] == [f"part {number} is done" for number in range(50)]
    assert {f"part {number}": 1 + (number in deadly) for number in range(50)} == DONE


register_graph("graph_jumps_thrice", jumps, max_rounds=3)


def test_a_node_says_where_to_go(client: Client, driver: Driver) -> None:
    DEADLY["jump 2"] = 1
    run = client.submit("graph_jumps", "farm")
    assert play(driver, run).answer["log"] == ["jump"] * 4 + ["land is done"]
    assert DONE["jump 2"] == 2 and DONE["jump 3"] == DONE["land"] == 1
    assert names(client, run) == ["jump"] * 4 + ["land"]


def test_a_graph_ends_at_its_limit(client: Client, driver: Driver) -> None:
    run = client.submit("graph_jumps_thrice", "farm")
    assert play(driver, run).output == {"status": "unfinished"}
    assert DONE.total() == 3


# The stored data


@pytest.mark.parametrize("stays", [True, False])
def test_only_what_is_new_is_written(
    client: Client, driver: Driver, settings: Settings, stays: bool
) -> None:
    run = client.submit("graph_growing", "farm")
    done = play(driver, run) if stays else play_anywhere(settings, run)
    assert [int(text) for text in done.answer["texts"]] == list(range(ROUNDS))
    assert [message["type"] for message in done.answer["messages"]] == ["human"] + ["ai"] * ROUNDS
    store = driver.engine.store
    sizes = store.reads.artifacts(run.id)
    records = sum(size for name, size in sizes.items() if name.startswith(RECORDS))
    assert ROUNDS * LETTERS * 2 < sum(sizes.values()) - records < ROUNDS * LETTERS * 3.2
    assert records < ROUNDS * 1000  # The history's additions do not grow with the state.
    assert store.redis.hlen(store.keys.run(run.id)) < 60


@pytest.mark.parametrize("seed", range(5))
def test_a_list_reads_back_whatever_changes_in_it(seed: int) -> None:
    random, artifacts, items, written = Random(seed), {}, [], 0
    channel = StoredChannel(0, [], True)
    for version in range(1, 400):
        if items and random.random() < 0.05:
            del items[random.randrange(len(items)) :]
        if items and random.random() < 0.05:
            items[random.randrange(len(items))] = f'{{"json":"changed in {version}"}}'
        items += [f'{{"json":"{version} {number}"}}' for number in range(random.randrange(4))]
        channel = StoredChannel(version, list(items), True, channel.parts_of(items))
        added: dict[str, str] = {}
        channel.store("channel/list", added)
        assert not added.keys() & artifacts.keys()
        artifacts |= added
        written = max(written, sum(map(len, added.values())))
        channel = StoredChannel.of([version, True, channel.place()], artifacts.__getitem__)
        assert channel.texts == items
        assert len(channel.parts) <= 2 + MOST_PARTS
    assert written < 2 * JOINED


@dataclass
class Basket:
    """A type that the state names."""

    eggs: int


class Pen:
    """A type that it does not name."""


class Yard(TypedDict, total=False):
    basket: Basket
    anything: Any


def put(value: Any) -> StateGraph:
    graph = StateGraph(Yard)
    graph.add_node("put", lambda state: value())
    graph.add_node("see", lambda state: {"anything": str(state.get("basket"))})
    graph.add_edge(START, "put")
    graph.add_edge("put", "see")
    return graph


@dataclass
class Unnamed:
    """A type that no annotation names."""

    eggs: int


register_graph("graph_of_types", put(lambda: {"basket": Basket(3), "anything": {1, 2}}))
register_graph("graph_of_an_object", put(lambda: {"anything": Pen()}))
register_graph("graph_of_a_lock", put(lambda: {"anything": [threading.Lock()]}))
register_graph("graph_of_an_unnamed_type", put(lambda: {"anything": Unnamed(3)}))
register_graph("graph_of_a_named_type", put(lambda: {"anything": Unnamed(3)}), types=[Unnamed])


@pytest.mark.parametrize("flow", ["graph_of_types", "graph_of_a_named_type"])
def test_types_of_the_state_are_stored(client: Client, settings: Settings, flow: str) -> None:
    run = client.submit(flow, "farm")
    assert play_anywhere(settings, run).status is RunStatus.COMPLETED
    if flow == "graph_of_types":
        answer = {"basket": {"eggs": 3}, "anything": "Basket(eggs=3)"}
        assert client.get(run.id).answer == answer


@pytest.mark.parametrize(
    ("flow", "why"),
    [
        ("graph_of_an_object", "cannot be stored: .*Pen"),
        ("graph_of_a_lock", "cannot be stored: .*lock"),
        ("graph_of_an_unnamed_type", r"type .*\.Unnamed, which is not one of the state's schema"),
    ],
)
def test_other_types_are_refused(client: Client, driver: Driver, flow: str, why: str) -> None:
    run = client.submit(flow, "farm")
    done = play(driver, run)
    assert done.status is RunStatus.ERRORED
    assert re.search(why, str(client.why(run.id))), client.why(run.id)


# Models


def chat(state: MessagesState) -> Any:
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    reply = AIMessage(f"heard {state['messages'][-1].content}", usage_metadata=usage)
    return {"messages": [GenericFakeChatModel(messages=iter([reply])).invoke(state["messages"])]}


chatting = StateGraph(MessagesState)
chatting.add_node("chat", chat)
chatting.add_edge(START, "chat")
register_graph("graph_chat", chatting, idempotent=["chat"], role="controller")


def asker(name: str) -> Any:
    """Return a node that causes an effect, and then asks a model."""

    def run(state: MessagesState) -> Any:
        effect(name)
        return chat(state)

    return run


asking = StateGraph(MessagesState)
for each in ("ask_one", "ask_other"):
    asking.add_node(each, asker(each))
    asking.add_edge(START, each)
register_graph("graph_asks_models", asking, idempotent=True)


@tool
def price(animal: str) -> str:
    """Look up a price."""
    return effect(f"price of {animal}")


async def decide(state: MessagesState) -> Any:
    seen = sum(message.type == "ai" for message in state["messages"])
    calls = [
        {"name": "price", "args": {"animal": animal}, "id": animal} for animal in ("hen", "cow")
    ]
    reply = AIMessage("", tool_calls=calls) if seen == 0 else AIMessage("the hen")
    effect(f"request {seen}")
    model = GenericFakeChatModel(messages=iter([reply]))
    return {"messages": [await model.ainvoke(state["messages"])]}


tools = StateGraph(MessagesState)
tools.add_node("decide", decide)
tools.add_node("tools", ToolNode([price]))
tools.add_edge(START, "decide")
tools.add_conditional_edges("decide", tools_condition)
tools.add_edge("tools", "decide")
register_graph("graph_of_tools", tools, idempotent=["decide", "tools"])


@pytest.mark.parametrize("deadly", [(), ("request 0",), ("price of cow",), ("request 1",)])
def test_an_agent_calls_tools(client: Client, settings: Settings, deadly: tuple[str, ...]) -> None:
    DEADLY.update(deadly)
    done = play_anywhere(settings, client.submit("graph_of_tools", "buy the cheapest"))
    texts = [message["content"] for message in done.answer["messages"]]
    prices = ["price of hen is done", "price of cow is done"]
    assert texts == ["buy the cheapest", "", *prices, "the hen"]
    assert DONE["request 0"] + DONE["request 1"] == 2 + sum("request" in each for each in deadly)


def test_the_goal_is_the_first_message_and_tokens_are_charged(
    client: Client, driver: Driver
) -> None:
    done = play(driver, client.submit("graph_chat", "cluck"))
    texts = [(message["type"], message["content"]) for message in done.answer["messages"]]
    assert texts == [("human", "cluck"), ("ai", "heard cluck")]
    spent = done.details["spent"]
    assert (spent["tokens"], spent["input_tokens"], spent["requests"]) == (110, 100, 1)


@pytest.mark.parametrize("deadly", [(), ("ask_one",), ("ask_other",), ("ask_one", "ask_other")])
def test_what_a_lost_attempt_has_recorded_is_charged(
    client: Client, driver: Driver, deadly: tuple[str, ...]
) -> None:
    DEADLY.update(deadly)
    done = play(driver, client.submit("graph_asks_models", "cluck"))
    spent = done.details["spent"]
    assert (spent["tokens"], spent["requests"]) == (220, 2)
    assert {name: 2 if name in deadly else 1 for name in ("ask_one", "ask_other")} == DONE


def test_inputs_are_the_input_of_the_graph(client: Client, driver: Driver) -> None:
    run = client.submit("graph_fan", "farm", {"log": ["zero"], "goal": "other"})
    assert play(driver, run).answer == {"goal": "other", "log": ["zero", *FAN]}
    with pytest.raises(InvalidInput, match="no input named color"):
        client.submit("graph_fan", "farm", {"color": "red"})


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: register_graph("graph_bad", fan("a"), idempotent=["A"]), "unknown node 'A'"),
        (lambda: register_graph("graph_bad", fan("a"), color=1), "no setting 'color'"),
        (lambda: register_graph("graph_bad", object()), "expected a StateGraph, got object"),  # type: ignore[arg-type]
        (
            lambda: register_graph("graph_bad", fan("a").compile(interrupt_before=["a"])),
            "has breakpoints",
        ),
    ],
)
def test_what_cannot_be_registered_is_refused(make: Any, why: str) -> None:
    with pytest.raises(InvalidFlow, match=why):
        make()


class Herd(TypedDict, total=False):
    animal: str


def test_a_graph_in_whose_input_the_goal_has_no_place_needs_none(
    client: Client, driver: Driver
) -> None:
    graph = StateGraph(Herd)
    graph.add_node("name", lambda state: {"animal": state["animal"].upper()})
    graph.add_edge(START, "name")
    assert not register_graph("graph_herd", graph).needs_goal
    run = client.submit("graph_herd", inputs={"animal": "cow"})
    assert play(driver, run).answer == {"animal": "COW"}
    assert register_graph("graph_farm_with_goal", fan()).needs_goal


# Ten megabytes of messages

STEPS, LONG = 200, 50_000


class Said(TypedDict):
    count: int


class Long(Said):
    messages: Annotated[list[BaseMessage], add_messages]


def say_much(state: Long) -> Any:
    number = len(state["messages"]) - 1
    text = Random(number).randbytes(LONG // 2).hex()
    return Command(
        update={"messages": [AIMessage(text)], "count": number + 1},
        goto="say_much" if number < STEPS - 1 else END,
    )


#: The answer of a run may take 256 KiB, so it is not the whole state.
long_chat = StateGraph(Long, output_schema=Said)
long_chat.add_node("say_much", say_much, destinations=("say_much", END))
long_chat.add_edge(START, "say_much")
register_graph("graph_long_chat", long_chat, idempotent=True, max_rounds=STEPS + 10)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_megabytes_of_messages_are_written_once(
    client: Client, driver: Driver, other: Driver
) -> None:
    run = client.submit("graph_long_chat", "farm")
    store = driver.engine.store
    # Each round also sends the names of all flows that other tests have registered in this process.
    listed = len(known_flows(driver.engine.flows))
    sent = []
    while not client.get(run.id).status.ended:
        before = store.redis.info("stats")["total_net_input_bytes"] + listed
        # Each tenth round is played by another process, which has to read the state.
        assert play_one(other if len(sent) % 10 == 9 else driver)
        sent.append(store.redis.info("stats")["total_net_input_bytes"] - before)
    assert client.get(run.id).answer == {"count": STEPS}
    # A message is written once, as base64, which is a third longer.
    sizes = store.reads.artifacts(run.id)
    records = sum(size for name, size in sizes.items() if name.startswith(RECORDS))
    state = sum(sizes.values()) - records
    # Rounds that followed one of the same process. The others also send their reads.
    stayed = [each for number, each in enumerate(sent) if 1 <= number % 10 <= 7]
    first, last = median(stayed[:30]), median(stayed[-30:])
    total = f"sent {sum(sent):,}, {first:,.0f} in a round at first, {last:,.0f} at last"
    print(f"state {state:,} bytes, history {records:,}; {total}")
    assert STEPS * LONG < state < 1.4 * STEPS * LONG
    assert records < STEPS * 1000
    assert sum(sent) < 1.7 * STEPS * LONG
    assert last < first + 40 * STEPS, "a round also writes an index of all messages"
    graph = graph_of(client, run.id)
    messages = graph.get_state(graph.config).values["messages"]
    assert [len(each.content) for each in messages[1:]] == [LONG] * STEPS


class Counted(TypedDict, total=False):
    seen: Annotated[list[int], operator.add]
    left: RemainingSteps
    is_last: IsLastStep


def counts(state: Counted) -> dict[str, list[int]]:
    return {"seen": [-state["left"] if state["is_last"] else state["left"]]}


def counting() -> Any:
    builder = StateGraph(Counted)
    builder.add_node("counts", counts)
    builder.add_edge(START, "counts")
    builder.add_conditional_edges("counts", lambda state: END if state["is_last"] else "counts")
    return builder.compile()


register_graph("graph_counting", counting(), idempotent=True, max_rounds=7)


def test_remaining_steps_count_to_the_limit_of_the_run(client: Client, driver: Driver) -> None:
    alone = counting().invoke({"seen": []}, {"recursion_limit": 7})
    assert alone["seen"] == [6, 5, 4, 3, 2, -1]
    run = play(driver, client.submit("graph_counting", inputs={"seen": []}))
    assert run.answer == {"seen": alone["seen"]}, run.error
