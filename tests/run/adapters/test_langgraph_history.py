"""Earlier states of LangGraph graphs: they read as with the library's own checkpointer, and a run
goes on from each.
"""

from __future__ import annotations

import asyncio
import operator
import os
from random import Random
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot
from typing_extensions import TypedDict

from perdure import (
    AsyncClient,
    Client,
    Conflict,
    InvalidInput,
    RemoteClient,
    Run,
    RunStatus,
    Settings,
)
from perdure.flows.adapters.graph_history import RECORDS, difference, patched
from perdure.flows.adapters.graph_start import FORK
from perdure.flows.adapters.langgraph import fork, graph_of, register_graph
from perdure.flows.rounds import registry
from tests.support.example_flows.graphs import FAN, ROUNDS, Farm, fan, names, node
from tests.support.redis_servers import until
from tests.support.round_driver import Driver
from tests.support.threaded_server import serving
from tests.support.workflow_effects import (
    DEADLY,
    DONE,
    let_time_pass,
    nothing_done,
    play,
    play_anywhere,
    play_one,
)

__all__ = ["nothing_done"]


def original(flow: str) -> Any:
    """Return a flow's graph, as it was registered."""
    made: Any = registry.make(flow)
    return type(made).graph


def finished(client: Client, driver: Driver, run: Run) -> Run:
    """Play a run to its end, and answer each question with yes."""
    while play(driver, run).status is RunStatus.INTERRUPTED:
        client.resume(run.id, "yes")
    return client.get(run.id)


def question_of(client: Client, run: Run) -> str:
    [question] = [each.question for each in client.inbox().waiting if each.run_id == run.id]
    return question


def seen(graph: Any, state: StateSnapshot) -> Any:
    """Return a state's facts, without ids and times."""
    return (
        state.metadata and (state.metadata["step"], state.metadata["source"]),
        state.next,
        state.values,
        [
            (task.name, [each.value for each in task.interrupts], history(graph, task.state))
            for task in state.tasks
        ],
    )


def history(graph: Any, config: Any) -> list[Any]:
    """Return all states, newest first, each with the states of its subgraphs."""
    if config is None:
        return []
    states = list(graph.get_state_history(config))
    ids = [each.config["configurable"]["checkpoint_id"] for each in states]
    assert len(set(ids)) == len(ids), "a state is there twice"
    parents = [each.parent_config and each.parent_config["configurable"]["checkpoint_id"]
               for each in states]  # fmt: skip
    assert parents == [*ids[1:], None]
    return [seen(graph, each) for each in states]


def of_the_library(flow: str) -> list[Any]:
    """Return the history of the same graph with a checkpointer of the library."""
    graph = original(flow).copy({"checkpointer": InMemorySaver()})
    config: Any = {"configurable": {"thread_id": "one"}}
    given: Any = {"goal": "farm"}
    while True:
        asyncio.run(graph.ainvoke(given, config))
        if not (asked := graph.get_state(config).interrupts):
            DONE.clear()
            return history(graph, config)
        given = Command(resume={each.id: "yes" for each in asked})


def of_a_run(client: Client, run: Run) -> list[Any]:
    graph = graph_of(client, run.id)
    return history(graph, graph.config)


class Turns(TypedDict, total=False):
    goal: str
    count: Annotated[int, operator.add]
    texts: list[str]


def turn(state: Turns) -> Turns:
    count = state.get("count", 0)
    return {"count": 1, "texts": [*state.get("texts", [])[:2], f"turn {count}"]}


loop = StateGraph(Turns)
loop.add_node("turn", turn)
loop.add_edge(START, "turn")
loop.add_conditional_edges(
    "turn", lambda state: "turn" if state["count"] < 6 else "__end__", ["turn", "__end__"]
)
register_graph("graph_loop", loop, idempotent=True)
register_graph("graph_without_history", loop, idempotent=True, history=False)

FLOWS = ["graph_fan", "graph_async_fan", "graph_jumps", "graph_loop", "graph_asks", "graph_twice",
         "graph_outer", "graph_many"]  # fmt: skip


@pytest.mark.parametrize("flow", FLOWS)
def test_a_history_is_that_of_the_librarys_checkpointer(
    client: Client, driver: Driver, flow: str
) -> None:
    expected = of_the_library(flow)
    run = client.submit(flow, "farm")
    assert finished(client, driver, run).status is RunStatus.COMPLETED
    assert of_a_run(client, run) == expected
    assert len(expected) >= 3


@pytest.mark.parametrize(
    ("flow", "deadly"),
    [
        *(("graph_fan", each) for each in [("first",), ("a", "c"), ("last",)]),
        *(("graph_outer", each) for each in [("look",), ("ask",), ("write",), ("beside", "after")]),
        ("graph_jumps", ("jump 1", "jump 3")),
    ],
)
def test_deaths_neither_lose_nor_repeat_a_state(
    client: Client, settings: Settings, flow: str, deadly: tuple[str, ...]
) -> None:
    expected = of_the_library(flow)
    DEADLY.update(deadly)
    run = client.submit(flow, "farm")
    while play_anywhere(settings, run).status is RunStatus.INTERRUPTED:
        client.resume(run.id, "yes")
    assert not +DEADLY
    assert of_a_run(client, run) == expected


def test_a_death_before_each_commit_adds_no_state(client: Client, driver: Driver) -> None:
    expected = of_the_library("graph_fan")
    run = client.submit("graph_fan", "farm")
    while play_one(driver, before_its_commit=True) and play_one(driver):
        pass
    assert of_a_run(client, run) == expected


def test_a_run_that_waits_shows_its_question(client: Client, driver: Driver) -> None:
    run = client.submit("graph_asks", "farm")
    graph = graph_of(client, run.id)
    assert graph.get_state(graph.config).values == {}  # It has not begun.
    play(driver, run)
    state = graph.get_state(graph.config)
    assert state.next == ("buy", "sell") and state.values["log"] == ["beside is done"]
    assert [each.value["question"] for each in state.interrupts] == ["may I buy?", "may I sell?"]
    assert {task.name: task.result for task in state.tasks}["beside"] == {"log": ["beside is done"]}
    client.resume(run.id, "yes")
    play(driver, run)
    state = graph.get_state(graph.config)
    assert (state.next, len(state.interrupts)) == (("sell",), 1)
    client.resume(run.id, "yes")
    play(driver, run)
    assert graph.get_state(graph.config).next == ()
    assert asyncio.run(graph.aget_state(graph.config)).next == ()


def test_a_history_is_searched_as_with_the_library(client: Client, driver: Driver) -> None:
    run = client.submit("graph_loop", "farm")
    play(driver, run)
    graph = graph_of(client, run.id)
    states = list(graph.get_state_history(graph.config))
    assert [state.metadata and state.metadata["step"] for state in states] == list(range(6, -2, -1))
    assert list(graph.get_state_history(graph.config, limit=2)) == states[:2]
    assert list(graph.get_state_history(graph.config, before=states[2].config)) == states[3:]
    assert list(graph.get_state_history(graph.config, filter={"step": 3})) == [states[3]]
    assert list(graph.get_state_history(states[4].config)) == [states[4]]
    assert graph.get_state(states[4].config).values == states[4].values

    async def read() -> list[StateSnapshot]:
        return [each async for each in graph.aget_state_history(graph.config)]

    assert asyncio.run(read()) == states
    with pytest.raises(InvalidInput, match=f"the states of run {run.id}, not of other"):
        graph.get_state({"configurable": {"thread_id": "other"}})


# Forks


@pytest.mark.parametrize("flow", FLOWS)
def test_a_fork_at_each_superstep_comes_to_the_same_answer(
    client: Client, driver: Driver, flow: str
) -> None:
    run = client.submit(flow, "farm")
    answer = finished(client, driver, run).answer
    before = of_a_run(client, run)
    for (step, _), following, *_ in before:
        if not following:
            with pytest.raises(InvalidInput, match="no node follows the state"):
                fork(client, run.id, step)
            continue
        other = fork(client, run.id, step)
        assert (other.flow, other.goal, other.inputs[FORK]["run"]) == (flow, "farm", run.id)
        done = finished(client, driver, other)
        assert (done.status, done.answer) == (RunStatus.COMPLETED, answer)
        assert [each[0][0] for each in of_a_run(client, other)] == [
            each[0][0] for each in before if each[0][0] >= step
        ]
        assert names(client, other)[0] == "fork"
    assert of_a_run(client, run) == before, "the run itself has not changed"
    assert client.get(run.id).answer == answer


def test_a_fork_runs_what_follows_and_nothing_else(client: Client, driver: Driver) -> None:
    run = client.submit("graph_fan", "farm")
    play(driver, run)
    graph = graph_of(client, run.id)
    for state in graph.get_state_history(graph.config):
        if not state.next:
            continue
        DONE.clear()
        done = play(driver, fork(client, run.id, state.config))
        assert done.answer["log"] == FAN
        first = {-1: 0, 0: 0, 1: 1, 2: 4}[state.metadata["step"]]  # type: ignore[index]
        assert dict.fromkeys(["first", "a", "b", "c", "last"][first:], 1) == DONE


def test_a_fork_of_a_superstep_of_two_rounds_runs_all_of_it(client: Client, driver: Driver) -> None:
    run = client.submit("graph_many", "farm")
    answer = play(driver, run).answer
    DONE.clear()
    assert play(driver, fork(client, run.id, 0)).answer == answer
    assert {f"part {number}": 1 for number in range(50)} == DONE


def test_a_fork_with_other_values_comes_to_another_answer(client: Client, driver: Driver) -> None:
    run = client.submit("graph_loop", "farm")
    play(driver, run)
    assert client.get(run.id).answer["texts"] == ["turn 0", "turn 1", "turn 5"]
    other = fork(client, run.id, 2, {"count": 2, "texts": ["else"]}, as_node="turn", goal="other")
    done = play(driver, other)
    assert other.goal == "other"
    assert done.answer == {"goal": "farm", "count": 6, "texts": ["else", "turn 4", "turn 5"]}
    states = of_a_run(client, other)
    assert [each[0] for each in states] == [
        (5, "loop"), (4, "loop"), (3, "update"), (2, "fork"),
    ]  # fmt: skip
    assert client.transcript(other.id)["history"][0] == {
        "command": {"name": "fork", "args": {"run": run.id, "step": 2}},
        "observation": {"count": 2, "texts": ["else"]},
    }
    # A fork can be forked.
    assert play(driver, fork(client, other.id, 4)).answer == done.answer


def test_an_update_decides_where_a_fork_goes_on(client: Client, driver: Driver) -> None:
    run = client.submit("graph_fan", "farm")
    play(driver, run)
    DONE.clear()
    done = play(driver, fork(client, run.id, 0, {"log": ["by hand"]}, as_node="first"))
    assert done.answer["log"] == ["by hand", *FAN[1:]]
    assert DONE == {"a": 1, "b": 1, "c": 1, "last": 1}


@pytest.mark.parametrize(
    ("values", "as_node", "why"),
    [
        ({"log": ["x"]}, "nobody", "nobody"),
        ({"log": ["x"]}, "last", "no node follows"),
        ("text", "first", "first|dict"),
        ({"log": [object()]}, "first", "the update cannot be stored"),
    ],
)
def test_an_update_that_is_not_possible_is_refused_before_anything_is_stored(
    client: Client, driver: Driver, values: Any, as_node: str, why: str
) -> None:
    run = client.submit("graph_fan", "farm")
    play(driver, run)
    with pytest.raises(InvalidInput, match=why):
        fork(client, run.id, 1, values, as_node=as_node)
    assert [each.id for each in client.runs().runs] == [run.id]


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_fork_asks_again_and_keeps_what_is_done(
    client: Client, driver: Driver, has_ended: bool
) -> None:
    run = client.submit("graph_asks", "farm")
    if has_ended:
        finished(client, driver, run)
    else:
        play(driver, run)
        client.resume(run.id, "yes")
        play(driver, run)
    DONE.clear()
    other = fork(client, run.id, 0)
    questions = []
    while play(driver, other).status is RunStatus.INTERRUPTED:
        questions.append(question_of(client, other))
        client.resume(other.id, "no")
    assert questions == ["may I buy?", "may I sell?"]
    log = ["beside is done", "buy: no", "sell: no"]
    assert sorted(client.get(other.id).answer["log"]) == log
    assert DONE == {"buy": 1, "sell": 1}  # `beside` was done when they asked.


def test_a_node_that_asked_twice_asks_twice_again(client: Client, driver: Driver) -> None:
    run = client.submit("graph_twice", "farm")
    finished(client, driver, run)
    other = fork(client, run.id, 0)
    for answer in ("Bob", 13):
        assert play(driver, other).status is RunStatus.INTERRUPTED
        client.resume(other.id, answer)
    assert play(driver, other).answer["log"] == ["Bob is 13"]


def test_a_fork_goes_on_in_a_subgraph(client: Client, driver: Driver) -> None:
    run = client.submit("graph_outer", "farm")
    answer = finished(client, driver, run).answer
    graph = graph_of(client, run.id)
    states: Any = graph.checkpointer
    assert list(states.history().moments[-1].entries) == [""], "the subgraph has ended"
    [root] = [each for each in graph.get_state_history(graph.config) if "inner" in each.next]
    [place] = [task.state for task in root.tasks if task.name == "inner"]
    assert isinstance(place, dict)
    for state in graph.get_state_history(place):  # type: ignore[arg-type]
        DONE.clear()
        done = finished(client, driver, fork(client, run.id, state.config))
        assert done.answer == answer
        begins = {(): 4, ("write",): 3, ("ask",): 2, ("look",): 1, ("__start__",): 1}[state.next]
        effects = ["look", "ask", "write", "after"][begins - 1 :]
        # The first of the subgraph's states were there before `beside` was done.
        assert [each for each in effects if DONE[each] != 1] == []
        assert DONE.total() - DONE["beside"] == len(effects)
    [asks] = [each for each in graph.get_state_history(place) if each.next == ("ask",)]  # type: ignore[arg-type]
    other = fork(client, run.id, asks.config, {"log": ["by hand"]}, as_node="ask")
    log = finished(client, driver, other).answer["log"]
    assert log == ["beside is done", "look is done", "by hand", "write is done", "after is done"]


def test_forks_of_a_crowd_ask_all_of_it(client: Client, driver: Driver) -> None:
    run = client.submit("graph_crowd", "farm")
    finished(client, driver, run)
    DONE.clear()
    other = fork(client, run.id, 0)
    play(driver, other)
    assert DONE == {"ask 32": 1, "ask 33": 1}, "those that no round had begun ask first"
    while play(driver, other).status is RunStatus.INTERRUPTED:
        client.resume(other.id, f"no {question_of(client, other)}")
    log = [f"{number}: no {number}" for number in range(34)]
    assert client.get(other.id).answer["log"] == log


def test_a_fork_whose_worker_dies_begins_once(client: Client, driver: Driver) -> None:
    run = client.submit("graph_fan", "farm")
    play(driver, run)
    DONE.clear()
    other = fork(client, run.id, 1)
    assert play_one(driver, before_its_commit=True)
    let_time_pass(driver)
    assert play(driver, other).answer["log"] == FAN
    assert DONE == {"a": 1, "b": 1, "c": 1, "last": 1}


def test_a_fork_with_a_key_is_submitted_once(client: Client, driver: Driver) -> None:
    run = client.submit("graph_loop", "farm")
    play(driver, run)
    first = fork(client, run.id, 2, {"count": 1}, as_node="turn", idempotency_key="k")
    again = fork(client, run.id, 2, {"count": 1}, as_node="turn", idempotency_key="k")
    assert again.id == first.id
    with pytest.raises(Conflict):
        fork(client, run.id, 2, {"count": 2}, as_node="turn", idempotency_key="k")


def changed(flow: str, graph: StateGraph[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(registry.make(flow)), "graph", graph.compile())


def test_a_fork_goes_on_with_a_graph_that_has_more(
    client: Client, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = client.submit("graph_fan", "farm")
    play(driver, run)
    graph = fan("a", "b", "c")
    graph.add_node("more", node("more"))
    graph.add_edge("last", "more")
    changed("graph_fan", graph, monkeypatch)
    assert len(of_a_run(client, run)) == 5
    done = play(driver, fork(client, run.id, 1))
    assert done.answer["log"] == [*FAN, "more is done"]


def test_a_fork_of_a_graph_without_the_next_node_is_refused(
    client: Client, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = client.submit("graph_fan", "farm")
    play(driver, run)
    graph = StateGraph(Farm)
    graph.add_node("other", node("other"))
    graph.add_edge(START, "other")
    changed("graph_fan", graph, monkeypatch)
    with pytest.raises(InvalidInput, match=r"no node follows .* it was changed"):
        fork(client, run.id, 1)
    assert play(driver, fork(client, run.id, -1)).answer["log"] == ["other is done"]


# Refusals


def test_the_graph_of_a_run_writes_nothing(client: Client, driver: Driver) -> None:
    run = client.submit("graph_fan", "farm")
    play(driver, run)
    graph = graph_of(client, run.id)
    stored = client.artifacts(run.id)
    DONE.clear()
    config = graph.config
    assert config is not None
    for write in (
        lambda: graph.update_state(config, {"log": ["x"]}, as_node="first"),
        lambda: graph.bulk_update_state(config, []),
        lambda: graph.invoke({"goal": "x"}, config),
        lambda: graph.stream(None, config),
        lambda: graph.with_config({"tags": ["x"]}).invoke(None, config),
        lambda: asyncio.run(graph.ainvoke(None, config)),
        lambda: asyncio.run(graph.aupdate_state(config, {"log": ["x"]}, as_node="first")),
    ):
        with pytest.raises(InvalidInput, match=rf"only reads .* run {run.id}.*fork\(client"):
            write()
    # The graph as it was registered, with the same checkpointer.
    other: CompiledStateGraph[Any, Any, Any, Any] = original("graph_fan").copy(
        {"checkpointer": graph.checkpointer}
    )
    with pytest.raises(InvalidInput, match="only reads"):
        other.update_state(config, {"log": ["x"]}, as_node="first")
    assert client.artifacts(run.id) == stored and not DONE


def test_what_is_no_state_of_a_graph_is_refused(client: Client, driver: Driver) -> None:
    run = client.submit("graph_loop", "farm")
    with pytest.raises(InvalidInput, match=r"no state 0\. It has none yet"):
        fork(client, run.id, 0)
    play(driver, run)
    for at in (7, -2, "1f1e", True, {"configurable": {"checkpoint_id": "x"}}):
        with pytest.raises(InvalidInput, match="Its supersteps are -1 to 6"):
            fork(client, run.id, at)
    other = client.submit("workflow_order", "go", {"item": "book"})
    with pytest.raises(InvalidInput, match="'workflow_order', which is not a graph"):
        graph_of(client, other.id)
    with pytest.raises(InvalidInput, match=r"got an AsyncClient.*to_thread"):
        graph_of(AsyncClient(settings=client.settings), run.id)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({}, "is not valid"),
        ({"run": "x", "checkpoint": "y", "state": "!"}, "cannot be read"),
        ({"run": "x", "checkpoint": "y", "state": "eJyrrgUAAXUA+Q=="}, None),
        ({"run": "x", "checkpoint": "y", "state": "", "more": 1}, "is not valid"),
    ],
)
def test_an_input_that_no_fork_has_made_ends_the_run_with_an_error(
    client: Client, driver: Driver, data: Any, why: str | None
) -> None:
    if why == "is not valid":
        with pytest.raises(InvalidInput, match=why):
            client.submit("graph_loop", "farm", {FORK: data})
        return
    run = client.submit("graph_loop", "farm", {FORK: data})
    until(lambda: play(driver, run).status is RunStatus.ERRORED, "its end")
    assert (why or "no node follows") in str(client.why(run.id))


def test_without_a_history_nothing_is_kept(client: Client, driver: Driver) -> None:
    run = client.submit("graph_without_history", "farm")
    assert play(driver, run).answer["count"] == 6
    assert not [each for each in client.artifacts(run.id) if each.startswith(RECORDS)]
    for read in (
        lambda: graph_of(client, run.id).get_state({"configurable": {"thread_id": run.id}}),
        lambda: fork(client, run.id, 1),
    ):
        with pytest.raises(InvalidInput, match="history=False"):
            read()


def test_a_history_that_is_switched_on_later_begins_there(
    client: Client, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = type(registry.make("graph_loop"))
    run = client.submit("graph_loop", "farm")
    for keeps in (True, True, False, False, True):
        monkeypatch.setattr(flow, "keeps_history", keeps)
        assert play_one(driver)
    play(driver, run)
    steps = [each[0][0] for each in of_a_run(client, run)]
    assert steps == [6, 5, 4, 3, 1, 0, -1]
    assert play(driver, fork(client, run.id, 4)).answer == client.get(run.id).answer


# Sizes


class Small(TypedDict):
    more: str


class Large(TypedDict, total=False):
    text: str
    more: str


def large(text: str) -> StateGraph[Any]:
    graph = StateGraph(Large, output_schema=Small)
    graph.add_node("fill", lambda state: {"text": text})
    graph.add_node("more", lambda state: {"more": "done"})
    graph.add_edge(START, "fill")
    graph.add_edge("fill", "more")
    return graph


register_graph("graph_large", large("Cows are grazing. " * 100_000))
register_graph("graph_too_large", large(os.urandom(300_000).hex()))


def test_a_state_of_a_megabyte_is_forked(client: Client, driver: Driver) -> None:
    run = client.submit("graph_large", "farm")
    assert play(driver, run).answer == {"more": "done"}
    other = fork(client, run.id, 1)
    assert play(driver, other).answer == {"more": "done"}
    graph = graph_of(client, other.id)
    assert len(graph.get_state(graph.config).values["text"]) > 1_500_000


def test_a_state_that_is_too_large_is_refused(client: Client, driver: Driver) -> None:
    run = client.submit("graph_too_large", "farm")
    play(driver, run)
    with pytest.raises(InvalidInput, match=r"bytes, compressed; the limit .* is 262144"):
        fork(client, run.id, 1)
    assert play(driver, fork(client, run.id, 0)).status is RunStatus.COMPLETED


def test_a_record_is_as_long_as_what_has_changed(client: Client, driver: Driver) -> None:
    run = client.submit("graph_growing", "farm")
    play(driver, run)
    stored = client.artifacts(run.id)
    records = [size for name, size in stored.items() if name.startswith(RECORDS)]
    assert len(records) == ROUNDS + 1
    assert sum(records) / len(records) < 1000
    assert max(records) < 4000
    graph = graph_of(client, run.id)
    [state] = graph.get_state_history(graph.config, filter={"step": 50})
    assert [int(text) for text in state.values["texts"]] == list(range(50))


@pytest.mark.parametrize("seed", range(20))
def test_a_difference_makes_the_new_data_of_the_old(seed: int) -> None:
    random = Random(seed)

    def data(depth: int) -> Any:
        kind = random.randrange(7 if depth else 5)
        if kind == 5:
            return [data(depth - 1) for _ in range(random.randrange(4))]
        if kind == 6:
            return {name: data(depth - 1) for name in random.sample("abc=~-+", 3)}
        return [None, True, 1, "1", 1.0][kind]

    for _ in range(200):
        before, after = data(4), data(4)
        change = difference(before, after)
        assert repr(after if change is None else patched(before, change)) == repr(after) or (
            patched(before, change or {"~": {}}) == after
        )
        assert difference(after, after) is None


# Over HTTP


def test_a_client_over_http_reads_and_forks(
    client: Client, driver: Driver, settings: Settings
) -> None:
    run = client.submit("graph_asks", "farm")
    finished(client, driver, run)
    with serving(settings) as url:
        remote = RemoteClient(url)
        graph = graph_of(remote, run.id)
        assert history(graph, graph.config) == of_a_run(client, run)
        other = fork(remote, run.id, 0, labels={"try": "2"})
        remote.close()
    done = finished(client, driver, other)
    assert done.answer == client.get(run.id).answer
    assert client.get(other.id).labels == {"try": "2"}
