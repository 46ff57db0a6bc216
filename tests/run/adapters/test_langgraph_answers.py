"""An answer to a question that a graph of other code does not ask any more is never dropped or
given to another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from perdure import Client, Run, RunStatus, Settings
from perdure.flows.adapters.langgraph import register_graph
from perdure.flows.rounds import registry
from tests.support.example_flows.graphs import Farm, inner
from tests.support.workflow_effects import (
    DONE,
    effect,
    nothing_done,
    play_anywhere,
    play_until_it_waits_for_code,
)

__all__ = ["nothing_done"]
FLOW = "graph_redeployed"


def helper(question: str) -> Any:
    return interrupt(question)


def buys(state: Farm) -> Farm:
    """Ask, then buy: the version that asks."""
    answer = interrupt("may I buy?")
    return {"log": [f"{effect('buy')}: {answer}"]}


def buys_by_a_helper(state: Farm) -> Farm:
    answer = helper("may I buy?")
    return {"log": [f"{effect('buy')}: {answer}"]}


def buys_unasked(state: Farm) -> Farm:
    return {"log": [effect("buy")]}


def asked_by(object_: Any) -> Any:
    """Return a node that asks by a method, which no look at its code can tell."""

    def run(state: Farm) -> Farm:
        answer = object_.ask()
        return {"log": [f"{effect('buy')}: {answer}"]}

    return run


class Asks:
    def ask(self) -> Any:
        return interrupt("may I buy?")


class AsksNot:
    def ask(self) -> Any:
        return "nobody"


def of_two(first: str, second: str) -> Any:
    def run(state: Farm) -> Farm:
        one = interrupt(first)
        effect(f"{first} {one}")
        two = interrupt(second)
        return {"log": [f"{first} {one}", f"{second} {two}"]}

    return run


TICKS = count()


def changing(state: Farm) -> Farm:
    """Ask a question that has another text each time."""
    answer = interrupt(f"question {next(TICKS)}")
    return {"log": [str(answer)]}


def deploy(*nodes: Any, idempotent: Sequence[str] = ()) -> None:
    graph = StateGraph(Farm)
    graph.add_node("buy", nodes[0])
    graph.add_edge(START, "buy")
    registry._definitions.pop(FLOW, None)
    register_graph(FLOW, graph, idempotent=idempotent)


def of_build(settings: Settings, build: str) -> Settings:
    return settings.model_copy(update={"build": build})


def answered(client: Client, settings: Settings, *nodes: Any, answer: Any = "no") -> Run:
    """Return a run that the build ``one`` has asked about, and a person has answered."""
    deploy(*nodes)
    run = client.submit(FLOW, "go")
    assert play_anywhere(of_build(settings, "one"), run).status is RunStatus.INTERRUPTED
    client.resume(run.id, answer)
    return run


@pytest.mark.parametrize("before", [buys, buys_by_a_helper])
def test_an_answer_to_a_question_that_is_gone_waits_for_the_code_that_asks(
    client: Client, settings: Settings, before: Any
) -> None:
    run = answered(client, settings, before)
    deploy(buys_unasked)
    error = play_until_it_waits_for_code(client, of_build(settings, "two"), run)
    assert "a person has answered the question of the node 'buy'" in error
    assert "Nothing was carried out" in error and "buy" not in DONE
    deploy(before)  # The deployment is undone.
    done = play_anywhere(of_build(settings, "one"), run)
    assert (done.status, done.answer["log"]) == (RunStatus.COMPLETED, ["buy is done: no"])


def test_a_question_that_moved_to_a_helper_is_still_asked(
    client: Client, settings: Settings
) -> None:
    run = answered(client, settings, buys)
    deploy(buys_by_a_helper)
    done = play_anywhere(of_build(settings, "two"), run)
    assert (done.status, done.answer["log"]) == (RunStatus.COMPLETED, ["buy is done: no"])


def test_a_node_that_ended_without_its_answered_question_is_in_doubt(
    client: Client, settings: Settings
) -> None:
    run = answered(client, settings, asked_by(Asks()))
    deploy(asked_by(AsksNot()))
    error = play_until_it_waits_for_code(client, of_build(settings, "two"), run)
    assert "ended without asking it" in error and DONE["buy"] == 1
    deploy(asked_by(Asks()))
    found = play_anywhere(of_build(settings, "one"), run)
    assert found.status is RunStatus.INTERRUPTED and client.inbox().waiting[0].kind == "in_doubt"
    client.resume(run.id, {"result": {"log": ["bought before"]}})
    done = play_anywhere(of_build(settings, "one"), run)
    assert (done.answer["log"], DONE["buy"]) == (["bought before"], 1)


@pytest.mark.parametrize("place", [0, 1])
def test_an_answer_is_not_given_to_another_question(
    client: Client, settings: Settings, place: int
) -> None:
    run = answered(client, settings, of_two("name?", "age?"), answer="Ann")
    if place:
        assert play_anywhere(of_build(settings, "one"), run).status is RunStatus.INTERRUPTED
        client.resume(run.id, 12)
    before = dict(DONE)
    deploy(of_two("age?", "name?"))
    error = play_until_it_waits_for_code(client, of_build(settings, "two"), run)
    assert "answered 'name?'" in error and "asks 'age?'" in error and before == DONE
    deploy(of_two("name?", "age?"))
    done = play_anywhere(of_build(settings, "one"), run)
    if not place:
        client.resume(run.id, 12)
        done = play_anywhere(of_build(settings, "one"), run)
    assert done.answer["log"] == ["name? Ann", "age? 12"]


def test_a_question_whose_text_changes_by_itself_is_answered_and_an_event_tells(
    client: Client, settings: Settings
) -> None:
    run = answered(client, settings, changing, answer="yes")
    done = play_anywhere(of_build(settings, "one"), run)
    assert (done.status, done.answer["log"]) == (RunStatus.COMPLETED, ["yes"])
    told = [
        each.data["other_question"]
        for each in client.events(run.id)
        if "other_question" in each.data
    ]
    assert len(told) == 1 and "node 'buy'" in told[0]


def test_an_answer_in_a_subgraph_waits_for_the_code_that_asks(
    client: Client, settings: Settings
) -> None:
    def outer(ask: Any) -> Any:
        graph = StateGraph(Farm)
        graph.add_node("ask", ask)
        graph.add_edge(START, "ask")
        return graph.compile()

    run = answered(client, settings, outer(buys))
    deploy(outer(buys_unasked))
    assert "the node 'ask'" in play_until_it_waits_for_code(client, of_build(settings, "two"), run)
    assert "buy" not in DONE
    deploy(outer(buys))
    assert play_anywhere(of_build(settings, "one"), run).answer["log"] == ["buy is done: no"]


def test_a_node_may_leave_its_graph_after_its_answer(client: Client, settings: Settings) -> None:
    def leaves(state: Farm) -> Any:
        answer = interrupt("may I hand over?")
        update = {"log": [f"{effect('hand over')}: {answer}"]}
        return Command(graph=Command.PARENT, goto="buy", update=update)

    part = StateGraph(Farm)
    part.add_node("ask", leaves)
    part.add_edge(START, "ask")
    graph = StateGraph(Farm)
    graph.add_node("part", part.compile(), destinations=("buy",))
    graph.add_node("buy", buys_unasked)
    graph.add_edge(START, "part")
    registry._definitions.pop(FLOW, None)
    register_graph(FLOW, graph)
    run = client.submit(FLOW, "go")
    assert play_anywhere(settings, run).status is RunStatus.INTERRUPTED
    client.resume(run.id, "yes")
    done = play_anywhere(settings, run)
    assert done.status is RunStatus.COMPLETED, client.why(run.id)
    assert done.answer["log"] == ["hand over is done: yes", "buy is done"]
    assert DONE == {"hand over": 1, "buy": 1}


def test_a_graph_that_a_node_invokes_does_not_drop_an_answer(
    client: Client, settings: Settings
) -> None:
    def invoking(graph: Any) -> Any:
        compiled = graph.compile()

        def run(state: Farm) -> Farm:
            return {"log": compiled.invoke({"log": []})["log"]}

        return run

    without = StateGraph(Farm)
    without.add_node("ask", buys_unasked)
    without.add_edge(START, "ask")
    run = answered(client, settings, invoking(inner))
    deploy(invoking(without))
    error = play_until_it_waits_for_code(client, of_build(settings, "two"), run)
    assert "ended without asking it" in error


def test_code_that_drops_an_answer_without_a_change_ends_the_run(
    client: Client, settings: Settings
) -> None:
    asks = [True]

    def sometimes(state: Farm) -> Farm:
        answer = interrupt("may I?") if asks else "unasked"
        return {"log": [f"{effect('buy')}: {answer}"]}

    run = answered(client, settings, sometimes)
    asks.clear()
    done = play_anywhere(of_build(settings, "one"), run)
    assert done.status is RunStatus.ERRORED and "ended without asking it" in str(done.error)
