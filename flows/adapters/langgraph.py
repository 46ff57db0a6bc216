"""Graphs of LangGraph as flows: each superstep is a round, and the checkpoints belong to the run.

The commit of a round is the one write of its checkpoint. What a node has written is recorded as
soon as it is done. ``graph_checkpoints`` stores, ``graph_nodes`` decides which nodes run.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, get_type_hints

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage
from langchain_core.outputs import LLMResult
from langgraph import errors
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command as Resume
from pydantic_core import to_jsonable_python

from perdure.flows.adapters.graph_checkpoints import INDEX, TOLD, TaskWrites
from perdure.flows.adapters.graph_checks import all_graphs, check_graph, types_of
from perdure.flows.adapters.graph_nodes import START, TOGETHER, GraphRound, stepping
from perdure.flows.adapters.graph_saver import RunSaver
from perdure.flows.adapters.graph_values import StateSerializer
from perdure.flows.commands.calls import call
from perdure.flows.context import RoundContext
from perdure.flows.errors import FatalError, InvalidFlow, InvalidInput
from perdure.flows.flow import Flow, Role
from perdure.flows.json_values import canonical, storable
from perdure.flows.names import suggest
from perdure.flows.outcomes import Advance, Command, End, Interrupt, Outcome, Turn
from perdure.flows.registry import register
from perdure.flows.summaries import safe_text

#: The one node of such a flow.
NODE = "Superstep"
#: Characters of what a node has written, in the history and in a question.
SHOWN = 2_000
#: Name in the data of a question for the question's id in the graph.
ASKS = "interrupt"
#: Keys of a question's value that hold its text.
TEXTS = ("question", "message", "description", "text")
#: The state's keys that get the goal.
GOAL, MESSAGES = "goal", "messages"


class GraphFlow(Flow):
    """A graph of LangGraph. ``register_graph`` makes a class of it for each graph.

    Attributes:
        graph: the compiled graph.
        idempotent: names of nodes that may run again after their worker was lost. None: all.
        types: the types that the state may have beside JSON and messages, as module and name.
        role: of the workers that take the rounds.
        graph_context: the ``context`` with which the graph is invoked.
    """

    graph: ClassVar[CompiledStateGraph[Any, Any, Any, Any]]
    idempotent: ClassVar[Collection[str] | None] = ()
    types: ClassVar[frozenset[tuple[str, str]]] = frozenset()
    role: ClassVar[Role] = "executor"
    graph_context: ClassVar[Any] = None

    @property
    def nodes(self) -> Mapping[str, Role]:
        """One node, for a superstep of the graph."""
        return {NODE: self.role}

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a run, which are keys of the graph's input."""
        if self.Inputs is None and (unknown := sorted(set(inputs) - self._keys())):
            raise InvalidInput(
                f"flow {self.name!r} has no input named {', '.join(unknown)}. "
                f"Its graph expects: {', '.join(sorted(self._keys()))}"
            )
        return super().check_inputs(inputs)

    def exhausted(self, values: Mapping[str, Any]) -> End:
        """Return the end, with status ``unfinished``, of a run that has used up its cycles."""
        return End(output={"status": "unfinished"})

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Carry out a superstep of the graph, or ask a person what one of its nodes asks."""
        usage = UsageCounter()
        with ThreadPoolExecutor(TOGETHER, "perdure-node") as pool:
            this_round = GraphRound(context, self.idempotent, pool)
            saver = RunSaver(context, StateSerializer(self.types), this_round.tasks)
            saver.load(context.kept.take())
            index = context.committed.get(INDEX) or {}
            if "answer" in index:
                saver.answered = index["answer"]["id"]
            elif not index.get("is_partial") and not saver.written and (asked := saver.pending()):
                return _ask(*asked[0], context)  # No earlier attempt of this step ran the graph.
            this_round.waiting = saver.waiting()
            try:
                output, is_done = call(self._superstep, context, saver, this_round, usage, context)
            except BaseException as error:
                if isinstance(error, Exception) and _is_invalid_answer(error):
                    return _again(saver, error)
                found = this_round.error_of(error)
                if found is error:
                    raise
                raise found from error
            finally:
                usage.charge(context)
        if this_round.question is not None:
            return this_round.question
        return self._outcome(context, saver, this_round, output, is_done)

    async def _superstep(
        self,
        saver: RunSaver,
        this_round: GraphRound,
        usage: UsageCounter,
        context: RoundContext,
    ) -> tuple[Any, bool]:
        """Run the graph until its next superstep; return its output, and whether it has ended."""
        index = context.committed.get(INDEX)
        given: Any = None
        if index is None:
            given = self._input(context)
        elif answer := index.get("answer"):
            given = Resume(resume={answer["id"]: answer["value"]})
        graph = stepping(type(self).graph, this_round)
        graph.checkpointer = saver
        config = {
            "configurable": {"thread_id": context.run_id},
            "callbacks": [usage],
            "run_name": self.name,
        }
        output = await graph.ainvoke(given, config, context=self.graph_context, durability="sync")
        state = await graph.aget_state({"configurable": {"thread_id": context.run_id}})
        return output, not state.tasks

    def _outcome(
        self,
        context: RoundContext,
        saver: RunSaver,
        this_round: GraphRound,
        output: Any,
        is_done: bool,
    ) -> Outcome:
        done = [task for _, task in saver.written if task.is_finished and task.node]
        turns = tuple(_turn(task, saver) for task in done)
        summary = {"did": [task.node for task in done]} if done else {}
        if is_done:
            if isinstance(output, dict):
                output = {name: each for name, each in output.items() if name != "__interrupt__"}
            return End(_answer(output), turns=turns, summary=summary)
        index, artifacts = saver.commit()
        if this_round.is_partial:
            index["is_partial"] = True
        before = context.committed.get(INDEX)
        if before is not None and index["namespaces"] == before["namespaces"]:
            raise FatalError(
                f"run {context.run_id}, step {context.step}: the graph has not gone on, although "
                "it has not ended. Was it changed since the run began?"
            )
        context.kept.keep(saver.namespaces)
        return Advance(NODE, turns, {INDEX: index}, bool(done), summary, artifacts)

    def _input(self, context: RoundContext) -> dict[str, Any]:
        """Return the input of the graph: the run's inputs, with the goal where it has a place."""
        given = dict(context.inputs)
        keys = self._keys()
        if GOAL in keys:
            given.setdefault(GOAL, context.goal)
        elif MESSAGES in keys and context.goal:
            given.setdefault(MESSAGES, [HumanMessage(context.goal)])
        return given

    def _keys(self) -> set[str]:
        return set(get_type_hints(type(self).graph.builder.input_schema))


def _ask(node: str, question: Any, context: RoundContext) -> Outcome:
    """Ask a person what a node asks, or commit the answer.

    The next round runs the node with it. So the answer stays if that round's worker is lost.
    """
    index, asked = dict(context.committed[INDEX]), context.asked
    fault = index.pop("fault", "")
    # A node that asks twice may use the same id, and the old answer is still there.
    mark = {ASKS: question.id, "step": context.step}
    if context.answered and isinstance(asked, Mapping) and mark.items() <= asked.items():
        index["answer"] = {"id": question.id, "value": context.answer}
        turn = Turn(Command("interrupt", {"node": node}), context.answer)
        return Advance(NODE, (turn,), {INDEX: index})
    value = _shown(question.value)
    text = value
    if isinstance(value, Mapping):
        text = next((value[key] for key in TEXTS if isinstance(value.get(key), str)), value)
    text = text if isinstance(text, str) else f"the node {node} asks: {canonical(text)}"
    if fault:
        text = f"{text} (the last answer was not valid: {fault})"
    return Interrupt(safe_text(text, SHOWN), {**mark, "node": node, "value": value})


def _is_invalid_answer(error: Exception) -> bool:
    """Return whether an answer does not fit the schema that ``interrupt`` was given.

    Older versions of the library have no such schema.
    """
    test = getattr(errors, "is_invalid_resume", None)
    return test is not None and bool(test(error))


def _again(saver: RunSaver, error: BaseException) -> Advance:
    """Commit that an answer was not valid. The next round asks again."""
    saver.answered = None
    index, artifacts = saver.commit()
    return Advance(
        NODE, (), {INDEX: {**index, "fault": safe_text(str(error), SHOWN)}}, artifacts=artifacts
    )


def _turn(task: TaskWrites, saver: RunSaver) -> Turn:
    """Return the entry of a task in the history, for people. No round reads it."""
    wrote = {
        channel: _shown(saver.value(text, channel))
        for channel, text in task.writes
        if channel not in TOLD and not channel.startswith(("__", "branch:"))
    }
    text = canonical(wrote)
    return Turn(Command(task.node), wrote if len(text) <= SHOWN else safe_text(text, SHOWN))


def _shown(value: Any) -> Any:
    return storable(to_jsonable_python(value, fallback=repr), "what a node shows")


def _answer(output: Any) -> Any:
    """Return the output of a graph as JSON data."""
    return storable(to_jsonable_python(output, fallback=str), "the graph's output")


class UsageCounter(BaseCallbackHandler):
    """Counts what the models of a round have used."""

    run_inline = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: dict[str, float] = {}
        self._model = ""

    def on_llm_end(self, response: LLMResult, **named: Any) -> None:
        """Add the usage of a response."""
        messages = [
            message
            for generations in response.generations
            for generation in generations[:1]
            if (message := getattr(generation, "message", None)) is not None
        ]
        with self._lock:
            for message in messages:
                usage = getattr(message, "usage_metadata", None) or {}
                self._add("tokens", usage.get("total_tokens", 0))
                self._add("input_tokens", usage.get("input_tokens", 0))
                self._add("output_tokens", usage.get("output_tokens", 0))
                self._add("requests", 1)
                told = getattr(message, "response_metadata", None) or {}
                self._model = str(told.get("model_name") or self._model)

    def _add(self, name: str, amount: float) -> None:
        self._spent[name] = self._spent.get(name, 0) + amount

    def charge(self, context: RoundContext) -> None:
        """Charge the budgets of the run."""
        with self._lock:
            context.spend(**self._spent)
            if self._model:
                context.tell(model=self._model[:200])


#: The settings of a flow that ``register_graph`` takes.
_SETTINGS = (
    "Inputs", "budgets", "description", "keep_events", "keep_turns", "lease_seconds", "max_rounds",
    "retry", "round_timeout_seconds",
)  # fmt: skip


def register_graph(
    name: str,
    graph: StateGraph[Any, Any, Any, Any] | CompiledStateGraph[Any, Any, Any, Any],
    *,
    idempotent: Collection[str] | bool = (),
    types: Sequence[type] = (),
    role: Role = "executor",
    context: Any = None,
    **settings: Any,
) -> type[GraphFlow]:
    """Register a graph as a flow. Its output is the answer of the run.

    The inputs of a run are the input of the graph. If the graph has the key ``goal``, it gets the
    goal, else the key ``messages`` gets it as the first message.

    Args:
        name: of the flow.
        graph: the graph, or its builder. Its own checkpointer is not used.
        idempotent: names of the nodes, also of subgraphs, that may run again after their worker
            was lost. True: all. Another node is then in doubt, and a person is asked.
        types: classes of values in the state which the annotations of its schema do not name.
        role: of the workers that take the rounds.
        context: the ``context`` with which the graph is invoked.
        settings: attributes of the flow: ``budgets``, ``retry``, ``max_rounds``, ``Inputs``, ...

    Raises:
        InvalidFlow: the name, a setting or something of the graph is not valid.
    """
    if isinstance(graph, StateGraph):
        graph = graph.compile()
    if not isinstance(graph, CompiledStateGraph):
        raise InvalidFlow(
            f"graph {name!r}: expected a StateGraph, got {type(graph).__name__}. Call anything "
            "else in a step of a workflow"
        )
    for setting in settings:
        if setting not in _SETTINGS:
            raise InvalidFlow(
                f"graph {name!r} has no setting {setting!r}; it has {', '.join(_SETTINGS)}"
            )
    graphs = list(all_graphs(graph))
    for each in graphs:
        check_graph(name, each)
    nodes = {node for each in graphs for node in each.nodes if node != START}
    names = None if idempotent is True else frozenset(idempotent or ())
    for node in names or ():
        if node not in nodes:
            raise InvalidFlow(
                f"graph {name!r}: idempotent names the unknown node {node!r}; "
                f"{suggest(node, nodes)}"
            )
    attributes = {
        "graph": graph,
        "idempotent": names,
        "types": frozenset(types_of(types, graphs)),
        "role": role,
        "graph_context": context,
        "description": f"The graph {graph.name or name}.",
        "__module__": __name__,
        **settings,
    }
    flow = type(f"{name}_graph", (GraphFlow,), attributes)
    register(name)(flow)
    return flow
