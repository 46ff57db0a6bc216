"""Graphs that a node of a LangGraph graph invokes: finished nodes outlive a worker's death."""

from __future__ import annotations

import operator
from random import Random
from typing import Annotated, Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.config import get_config
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command as LangGraphCommand
from typing_extensions import TypedDict

from perdure import Client, RoundContext, RunStatus, Settings
from perdure.flows.adapters.graph_checkpoints import Namespace, RoundTasks, StoredChannel
from perdure.flows.adapters.graph_records import MOST_NESTED, NESTED, RoundRecords, _difference
from perdure.flows.adapters.langgraph import register_graph
from tests.support.example_flows.graphs import fan
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.workflow_effects import (
    DEADLY,
    DONE,
    FAILING,
    effect,
    nothing_done,
    play,
    play_anywhere,
    play_one,
)

__all__ = ["nothing_done"]


class Farm(TypedDict, total=False):
    goal: str
    log: Annotated[list[str], operator.add]
    animal: str


def over(name: str, function: Any, **options: Any) -> None:
    """Register a graph of one node."""
    graph = StateGraph(Farm)
    graph.add_node("calls", function)
    graph.add_edge(START, "calls")
    register_graph(name, graph, **{"idempotent": True, **options})


# An agent in a node


@tool
def price(animal: str) -> str:
    """Look up a price."""
    return effect(f"price of {animal}")


def decide(state: MessagesState) -> Any:
    seen = sum(message.type == "ai" for message in state["messages"])
    effect(f"request {seen}")
    calls = [
        {"name": "price", "args": {"animal": animal}, "id": f"{animal} {seen}"}
        for animal in ("hen", "cow")
    ]
    reply = AIMessage(f"thought {seen}", tool_calls=calls) if seen < 3 else AIMessage("the hen")
    model = GenericFakeChatModel(messages=iter([reply]))
    return {"messages": [model.invoke(state["messages"])]}


tools = StateGraph(MessagesState)
tools.add_node("decide", decide)
tools.add_node("tools", ToolNode([price]))
tools.add_edge(START, "decide")
tools.add_conditional_edges("decide", tools_condition)
tools.add_edge("tools", "decide")
agent = tools.compile()


def asks_agent(state: Farm) -> Farm:
    effect("calls")
    messages = agent.invoke({"messages": [("human", state["goal"])]})["messages"]
    return {"log": [str(message.content) for message in messages]}


async def asks_agent_later(state: Farm) -> Farm:
    effect("calls")
    messages = (await agent.ainvoke({"messages": [("human", state["goal"])]}))["messages"]
    return {"log": [str(message.content) for message in messages]}


over("nested_agent", asks_agent)
over("nested_agent_async", asks_agent_later)
REQUESTS = [f"request {number}" for number in range(4)]


@pytest.mark.parametrize("flow", ["nested_agent", "nested_agent_async"])
@pytest.mark.parametrize("deadly", [None, *REQUESTS])
def test_an_agent_in_a_node_repeats_only_the_request_in_hand(
    client: Client, settings: Settings, flow: str, deadly: str | None
) -> None:
    if deadly:
        DEADLY[deadly] += 1
    done = play_anywhere(settings, client.submit(flow, "buy the cheapest"))
    assert done.status is RunStatus.COMPLETED, client.why(done.id)
    prices = ["price of hen is done", "price of cow is done"]
    thoughts = [each for number in range(3) for each in (f"thought {number}", *prices)]
    assert done.answer["log"] == ["buy the cheapest", *thoughts, "the hen"]
    assert {name: 1 + (name == deadly) for name in REQUESTS} == {
        name: count for name, count in DONE.items() if name in REQUESTS
    }
    assert DONE["price of hen"] == DONE["price of cow"] == 3
    assert DONE["calls"] == (2 if deadly else 1)


# Several graphs in a node

#: The store of the test.
SERVER: dict[str, Any] = {}


def is_recorded(run_id: str, told: str) -> bool:
    """Return whether a task with this text is recorded."""
    store = SERVER["store"]
    fields = store.redis.hgetall(store.keys.run(run_id)).items()
    return any(name.startswith("o:graph.") and told in value for name, value in fields)


def part(name: str) -> Any:
    def run(state: Farm) -> Farm:
        if DEADLY[f"{state['goal']} {name}"] and name in ("a", "b"):
            run_id = get_config()["configurable"]["thread_id"]
            told = f"{state['goal']} {'ab'.replace(name, '')} is done"
            until(lambda: is_recorded(run_id, told), "a sibling's record")
        return {"log": [effect(f"{state['goal']} {name}")]}

    return run


inner = fan("a", "b", make=part).compile()
PARTS = ["first", "a", "b", "last"]


def calls_two(state: Farm) -> Farm:
    one = inner.invoke({"goal": "one"})["log"]
    effect("between")
    return {"log": [*one, *inner.invoke({"goal": "two"})["log"]]}


async def calls_two_later(state: Farm) -> Farm:
    one = (await inner.ainvoke({"goal": "one"}))["log"]
    effect("between")
    return {"log": [*one, *(await inner.ainvoke({"goal": "two"}))["log"]]}


over("nested_two", calls_two)
over("nested_two_async", calls_two_later)
ALL = [f"{goal} {name}" for goal in ("one", "two") for name in PARTS]


@pytest.mark.parametrize("flow", ["nested_two", "nested_two_async"])
@pytest.mark.parametrize("deadly", ["one a", "between", "two first", "two b", "two last"])
def test_a_node_invokes_two_graphs(
    client: Client, driver: Driver, settings: Settings, flow: str, deadly: str
) -> None:
    SERVER["store"] = driver.engine.store
    DEADLY[deadly] += 1
    done = play_anywhere(settings, client.submit(flow, "farm"))
    assert done.status is RunStatus.COMPLETED, client.why(done.id)
    assert done.answer["log"] == [f"{each} is done" for each in ALL]
    assert {each: DONE[each] for each in ALL} == {each: 1 + (each == deadly) for each in ALL}
    assert DONE["between"] == 1 + (deadly in ("between", "two first", "two b", "two last"))


def fails_once(state: Farm) -> Farm:
    log = inner.invoke({"goal": "one"})["log"]
    effect("fails")
    return {"log": log}


over("nested_failing", fails_once)


def test_a_node_that_fails_behind_its_graph_does_not_repeat_it(
    client: Client, driver: Driver
) -> None:
    FAILING["fails"] += 1
    done = play(driver, client.submit("nested_failing", "farm"))
    assert done.status is RunStatus.COMPLETED, client.why(done.id)
    assert {name: DONE[f"one {name}"] for name in PARTS} == dict.fromkeys(PARTS, 1)
    assert DONE["fails"] == 2


# A graph with a memory of its own

memory = StateGraph(Farm)
memory.add_node("remembers", lambda state: {"log": [effect(state["goal"])]})
memory.add_node("then", lambda state: {"log": [effect(f"{state['goal']} then")]})
memory.add_edge(START, "remembers")
memory.add_edge("remembers", "then")
remembering = memory.compile(checkpointer=True)


def repeats(state: Farm) -> Any:
    number = len(state.get("log", []))
    log = remembering.invoke({"goal": f"visit {number}"})["log"]
    return LangGraphCommand(update={"log": [str(log[-1])]}, goto="calls" if number < 2 else [])


repeating = StateGraph(Farm)
repeating.add_node("calls", repeats, destinations=("calls",))
repeating.add_edge(START, "calls")
register_graph("nested_memory", repeating, idempotent=True)


@pytest.mark.parametrize("deadly", [None, "visit 0", "visit 1 then", "visit 2 then"])
def test_a_graph_with_a_memory_gets_the_input_of_each_visit(
    client: Client, settings: Settings, deadly: str | None
) -> None:
    if deadly:
        DEADLY[deadly] += 1
    done = play_anywhere(settings, client.submit("nested_memory", "farm"))
    assert done.answer["log"] == [f"visit {number} then is done" for number in range(3)]
    names = [f"visit {number}{then}" for number in range(3) for then in ("", " then")]
    assert {name: 1 + (name == deadly) for name in names} == DONE


visiting = StateGraph(Farm)
visiting.add_node("visits", remembering)
visiting.add_node(
    "again",
    lambda state: LangGraphCommand(
        update={"goal": "other"}, goto="visits" if DONE["other"] == 0 else []
    ),
    destinations=("visits",),
)
visiting.add_edge(START, "visits")
visiting.add_edge("visits", "again")
register_graph("nested_memory_node", visiting, idempotent=True)


def test_a_node_that_is_a_graph_with_a_memory_gets_each_input(
    client: Client, settings: Settings
) -> None:
    play_anywhere(settings, client.submit("nested_memory_node", "farm"))
    assert DONE == {"farm": 1, "farm then": 1, "other": 1, "other then": 1}


# More than is recorded

LONG, LARGE = 80, 40


class Counted(TypedDict):
    done: Annotated[list[str], operator.add]
    last: str


def counts(state: Counted) -> Any:
    number = len(state["done"])
    return LangGraphCommand(
        update={"done": [effect(f"part {number}")], "last": f"{number}".ljust(1000 * LARGE)},
        goto="counts" if number < LONG - 1 else [],
    )


long = StateGraph(Counted)
long.add_node("counts", counts, destinations=("counts",))
long.add_edge(START, "counts")
longer = long.compile()


def calls_long(state: Farm) -> Farm:
    return {"log": longer.invoke({"done": []}, {"recursion_limit": 2 * LONG})["done"]}


over("nested_long", calls_long)


def test_a_long_graph_goes_on_from_what_there_is_room_for(
    client: Client, driver: Driver, settings: Settings
) -> None:
    DEADLY[f"part {LONG - 1}"] += 1
    run = client.submit("nested_long", "farm")
    play_one(driver), play_one(driver)
    store = driver.engine.store
    fields = store.redis.hgetall(store.keys.run(run.id))
    records = [value for name, value in fields.items() if name.startswith("o:nested_graph.")]
    assert 5 < len(records) < 60 and sum(map(len, records)) < MOST_NESTED + 20 * len(records)
    done = play_anywhere(settings, run)
    assert done.answer["log"] == [f"part {number} is done" for number in range(LONG)]
    assert DONE["part 0"] == 1
    assert not any(name.startswith("o:") for name in store.redis.hgetall(store.keys.run(run.id)))


@pytest.mark.parametrize("seed", range(3))
def test_recorded_checkpoints_read_back(seed: int) -> None:
    random, context, tasks = Random(seed), RoundContext("farm"), RoundTasks(begun={"T"})
    name, base = "calls:T", Namespace({"id": "0"}, {}, {"log": StoredChannel(1, ["1"], True)})
    committed = {name: base} if seed else {}
    records = RoundRecords(context, tasks)
    assert list(records.read_nested(committed)) == []
    values, spaces = {"log": ["1"]}, []
    for number in range(1, 40):
        channels = {}
        for channel in ("log", "other", "empty"):
            texts = list(values.get(channel, []))
            del texts[random.randrange(len(texts) + 1) :]
            values[channel] = texts = [*texts, *map(str, range(random.randrange(3)))]
            is_list = random.random() < 0.8
            kept = texts if is_list else None if channel == "empty" else [str(texts)]
            channels[channel] = StoredChannel(number + 1, kept, is_list)
        space = Namespace({"id": f"{number:02}"}, {"step": number}, channels)
        assert records.add_nested(name, space)
        spaces.append((name, space))
    late = _difference(name, Namespace({"id": "99"}, {}, {}), Namespace({"id": "98"}, {}, {}))
    assert list(RoundRecords(context, tasks).read_nested(committed)) == spaces
    context.once(f"{NESTED}99", lambda: late)  # of a worker with another checkpoint before it
    assert list(RoundRecords(context, tasks).read_nested(committed)) == []
