"""Graphs of LangGraph, registered as flows."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from perdure import Client, Run
from perdure.flows.adapters.langgraph import register_graph
from tests.support.workflow_effects import BEGUN, effect, journal


class Farm(TypedDict, total=False):
    goal: str
    log: Annotated[list[str], operator.add]
    animal: str


def node(name: str) -> Any:
    """Return a node that causes an effect."""

    def run(state: Farm) -> Farm:
        return {"log": [effect(name)]}

    return run


def anode(name: str) -> Any:
    async def run(state: Farm) -> Farm:
        return {"log": [effect(name)]}

    return run


def fan(*names: str, make: Any = node) -> StateGraph:
    """Return a graph of a node, several behind it, and a last one behind them."""
    graph = StateGraph(Farm)
    graph.add_node("first", make("first"))
    graph.add_node("last", make("last"))
    graph.add_edge(START, "first")
    for name in names:
        graph.add_node(name, make(name))
        graph.add_edge("first", name)
    graph.add_edge(list(names), "last")
    return graph


register_graph("graph_fan", fan("a", "b", "c"), idempotent=True)
register_graph("graph_async_fan", fan("a", "b", "c", make=anode), idempotent=True)
register_graph("graph_strict_fan", fan("a", "b", "c"), idempotent=["first", "b"])
FAN = ["first is done", "a is done", "b is done", "c is done", "last is done"]


def names(client: Client, run: Run) -> list[str]:
    return [name for name, _ in journal(client, run)]


# People


def asking(name: str) -> Any:
    def run(state: Farm) -> Farm:
        BEGUN[name] += 1
        answer = interrupt({"question": f"may I {name}?", "price": 3})
        effect(name)
        return {"log": [f"{name}: {answer}"]}

    return run


asks = StateGraph(Farm)
asks.add_node("beside", node("beside"))
asks.add_edge(START, "beside")
for each in ("buy", "sell"):
    asks.add_node(each, asking(each))
    asks.add_edge(START, each)
register_graph("graph_asks", asks)


def twice(state: Farm) -> Farm:
    first = interrupt("your name?")
    effect("between")
    second = interrupt(f"{first}, your age?")
    return {"log": [f"{first} is {second}"]}


two = StateGraph(Farm)
two.add_node("twice", twice)
two.add_edge(START, "twice")
register_graph("graph_twice", two)


inner = StateGraph(Farm)
inner.add_node("look", node("look"))
inner.add_node("ask", asking("ask"))
inner.add_node("write", node("write"))
inner.add_edge(START, "look")
inner.add_edge("look", "ask")
inner.add_edge("ask", "write")
outer = StateGraph(Farm)
outer.add_node("inner", inner.compile())
outer.add_node("beside", node("beside"))
outer.add_node("after", node("after"))
outer.add_edge(START, "inner")
outer.add_edge(START, "beside")
outer.add_edge(["inner", "beside"], "after")
register_graph("graph_outer", outer, idempotent=True)


def spread_questions(state: Farm) -> list[Send]:
    return [Send("ask", {"animal": str(number)}) for number in range(34)]


def ask_of(state: Farm) -> Farm:
    effect(f"ask {state['animal']}")
    return {"log": [f"{state['animal']}: {interrupt(state['animal'])}"]}


crowd = StateGraph(Farm)
crowd.add_node("ask", ask_of)
crowd.add_conditional_edges(START, spread_questions, ["ask"])
register_graph("graph_crowd", crowd)


# Send, goto


def spread(state: Farm) -> list[Send]:
    return [Send("part", {"animal": str(number)}) for number in range(50)]


def part(state: Farm) -> Farm:
    return {"log": [effect(f"part {state['animal']}")]}


many = StateGraph(Farm)
many.add_node("part", part)
many.add_conditional_edges(START, spread, ["part"])
register_graph("graph_many", many)
register_graph("graph_many_idempotent", many, idempotent=["part"])


def jump(state: Farm) -> Command:
    log = state.get("log", [])
    effect(f"jump {len(log)}")
    return Command(update={"log": ["jump"]}, goto="jump" if len(log) < 3 else "land")


jumps = StateGraph(Farm)
jumps.add_node("jump", jump, destinations=("jump", "land"))
jumps.add_node("land", node("land"))
jumps.add_edge(START, "jump")
register_graph("graph_jumps", jumps, idempotent=True)


# The stored data

ROUNDS, LETTERS = 100, 1000


class Counted(TypedDict):
    texts: Annotated[list[str], operator.add]
    messages: Annotated[list[BaseMessage], add_messages]


def grow(state: Counted) -> Any:
    number = len(state["texts"])
    message = AIMessage(f"{number}".ljust(LETTERS))
    return Command(
        update={"texts": [f"{number}".ljust(LETTERS)], "messages": [message]},
        goto="grow" if number < ROUNDS - 1 else END,
    )


growing = StateGraph(Counted)
growing.add_node("grow", grow, destinations=("grow", END))
growing.add_edge(START, "grow")
register_graph("graph_growing", growing, idempotent=True)
