"""GraphFlow, the flow of a LangGraph graph: each superstep is a round.

Only the commit of the round writes the checkpoint. But the writes of a task are recorded as soon as
the task has ended. ``graph_checkpoints`` has the stored form, ``graph_nodes`` decides which nodes
run.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, get_type_hints

from langgraph import errors
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command as Resume
from pydantic_core import to_jsonable_python

from perdure.flows.adapters.graph_answers import GivenAnswers
from perdure.flows.adapters.graph_checkpoints import (
    INDEX,
    TOLD,
    RoundTasks,
    TaskWrites,
    resumed,
)
from perdure.flows.adapters.graph_checks import check_fits
from perdure.flows.adapters.graph_nodes import TOGETHER, GraphRound, stepping
from perdure.flows.adapters.graph_saver import RunSaver
from perdure.flows.adapters.graph_start import FORK, ForkInput, fork_input
from perdure.flows.adapters.graph_text import show_custom, text_handler
from perdure.flows.adapters.graph_thread import (
    FILES,
    MESSAGES,
    add_messages,
    answer_of,
    check_files,
    message_of,
    replies_to_asks,
    state_artifacts,
    take_state,
    words_in,
    words_of,
)
from perdure.flows.adapters.graph_usage import UsageCounter
from perdure.flows.adapters.graph_values import StateSerializer
from perdure.flows.commands.calls import call
from perdure.flows.core.errors import FatalError, InvalidInput
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import Role
from perdure.flows.core.outcomes import Advance, Command, End, Interrupt, Outcome, Turn
from perdure.flows.core.summaries import safe_text
from perdure.flows.core.thread_messages import ANSWER_TEXT, ThreadMessage
from perdure.flows.rounds.answer_texts import AnswerText, output_of
from perdure.flows.rounds.context import RoundContext
from perdure.flows.rounds.flow import Flow
from perdure.flows.rounds.messages_to_run import (
    MOST_CHARACTERS,
    NOTHING,
    Heard,
    hear,
    put_off,
    with_heard,
)

#: The only node of a graph's flow.
NODE = "Superstep"
#: Maximum characters of a node's output, in the history and in a question.
SHOWN = 2_000
#: Name in the data of a question for the question's id in the graph.
ASKS = "interrupt"
#: Keys of a question's value that hold its text.
TEXTS = ("question", "message", "description", "text")
#: Name in the index for the build of the code that has asked.
BUILD = "build"
#: Mark in the index of an ended graph that is run again with messages from people.
AGAIN = "again"
#: The state's key that gets the goal.
GOAL = "goal"


def keys_of(graph: CompiledStateGraph[Any, Any, Any, Any]) -> set[str]:
    """Return the keys of a graph's input."""
    return set(get_type_hints(graph.builder.input_schema))


def has_messages(graph: CompiledStateGraph[Any, Any, Any, Any]) -> bool:
    """Return whether a graph's input has messages."""
    return MESSAGES in keys_of(graph)


def takes_goal(graph: CompiledStateGraph[Any, Any, Any, Any]) -> bool:
    """Return whether a graph's input has a key for the goal: ``goal`` or ``messages``."""
    return not keys_of(graph).isdisjoint((GOAL, MESSAGES))


class GraphFlow(Flow):
    """A graph of LangGraph. ``register_graph`` makes a subclass for each graph.

    Attributes:
        graph: the compiled graph.
        idempotent: names of nodes that may run again after their worker was lost. None: all.
        types: the types that the state may have beside JSON and messages, as module and name.
        role: the role of the workers that execute the rounds.
        graph_context: the ``context`` with which the graph is invoked.
        keeps_history: whether runs keep the state after each superstep.
        streams: whether the library requests a stream from every model.
        follows_thread: whether a run begins with the state of the runs before it in its thread, and
            reads messages from people.
        text: the key of the answer whose value people read, or a function that returns that text.
    """

    graph: ClassVar[CompiledStateGraph[Any, Any, Any, Any]]
    idempotent: ClassVar[Collection[str] | None] = ()
    types: ClassVar[frozenset[tuple[str, str]]] = frozenset()
    role: ClassVar[Role] = "executor"
    graph_context: ClassVar[Any] = None
    keeps_history: ClassVar[bool] = True
    streams: ClassVar[bool] = False
    follows_thread: ClassVar[bool] = True
    text: ClassVar[AnswerText | None] = None

    @property
    def nodes(self) -> Mapping[str, Role]:
        """The only node, with its role. A round of it is a superstep of the graph."""
        return {NODE: self.role}

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Validate the inputs of a run, and return them. They are keys of the graph's input.

        Raises:
            InvalidInput: an input is unknown or wrong, or the input of a fork is not valid.
        """
        if FORK in inputs:
            if len(inputs) > 1:
                raise InvalidInput(f"a fork has no other inputs than {FORK!r}")
            return {FORK: fork_input(inputs[FORK]).model_dump()}
        if self.Inputs is None and (unknown := sorted(set(inputs) - self._keys())):
            raise InvalidInput(
                f"flow {self.name!r} has no input named {', '.join(unknown)}. "
                f"Its graph expects: {', '.join(sorted(self._keys()))}"
            )
        return super().check_inputs(inputs)

    def exhausted(self, values: Mapping[str, Any]) -> End:
        """Return the ``End`` of a run that has reached its limit of supersteps.

        Its output has only the status ``unfinished``, without the values.
        """
        return End(output={"status": "unfinished"})

    def play(self, node: str, context: RoundContext) -> Outcome:
        """Run a superstep of the graph. Return the round's outcome.

        If a node asks a question or is in doubt, the outcome is an ``Interrupt``. In the first
        round of a fork, no node runs: the round stores the state of the other run.
        """
        if FORK in context.inputs and INDEX not in context.committed:
            return self._start_fork(fork_input(context.inputs[FORK]), context)
        usage = UsageCounter(context)
        with ThreadPoolExecutor(TOGETHER, "perdure-node") as pool:
            this_round = GraphRound(context, self.max_rounds, self.idempotent, pool)
            saver = self._saver(context, this_round.tasks)
            saver.load(context.kept.take())
            check_fits(type(self).graph, saver.namespaces)
            index = context.committed.get(INDEX) or {}
            if "answer" in index:
                saver.answered = index["answer"]["id"]
            elif not index.get("is_partial") and not saver.written and (asked := saver.pending()):
                node, question = asked[0]
                tasks = saver.holders(question.id)
                return _ask(
                    node, question, tasks, context
                )  # No earlier attempt of this step ran the graph.
            this_round.waiting = saver.waiting()
            tasks = index.get("answer", {}).get("tasks", 0)
            if tasks and saver.answered and saver.holders(saver.answered) == tasks:
                this_round.answers = GivenAnswers(
                    context,
                    index.get(BUILD, ""),
                    saver.namespaces,
                    saver.answered,
                    saver.questions,
                    saver.take_answer,
                )
            this_round.resumed = resumed(saver.namespaces)
            heard = hear(context, MOST_CHARACTERS)[0] if index.get(AGAIN) else NOTHING
            given = self._given(context, saver, heard)
            try:
                output, is_done = call(
                    self._superstep, context, given, saver, this_round, usage, context
                )
            except BaseException as error:
                if isinstance(error, Exception) and _is_invalid_answer(error):
                    return _again(saver, error)
                found = this_round.error_of(error)
                if found is error:
                    raise
                raise found from error
        if this_round.question is not None:
            return this_round.question
        if this_round.answers is not None and not this_round.was_told:
            if this_round.answers.misfit is not None:
                raise this_round.answers.misfit  # The node has taken it for an error of its own.
            if not saver.is_answer_used:
                raise this_round.answers.unused()
        return with_heard(self._outcome(context, saver, this_round, output, is_done), heard)

    def _given(self, context: RoundContext, saver: RunSaver, heard: Heard) -> Any:
        """Return the graph's input in this round.

        It is the first input, the answer to a question, or new messages. None continues the graph
        without an input.
        """
        index = context.committed.get(INDEX)
        if index is None:
            return self._input(context, take_state(saver, context) if self.follows_thread else [])
        if answer := index.get("answer"):
            return Resume(resume={answer["id"]: answer["value"]})
        return {MESSAGES: words_of(heard.turns)} if heard.turns else None

    async def _superstep(
        self,
        given: Any,
        saver: RunSaver,
        this_round: GraphRound,
        usage: UsageCounter,
        context: RoundContext,
    ) -> tuple[Any, bool]:
        """Run the graph to its next superstep or its end.

        Args:
            given: the input of the graph, or None to continue.

        Returns:
            The output of the graph, and whether the graph has ended.
        """
        graph = stepping(type(self).graph, this_round)
        graph.checkpointer = saver
        config = {
            "configurable": {"thread_id": context.run_id},
            "callbacks": [usage, text_handler(context, self.streams)],
            "run_name": self.name,
        }
        output: Any = None
        async for mode, chunk in graph.astream(
            given,
            config,
            context=self.graph_context,
            durability="sync",
            stream_mode=["values", "custom"],
            output_keys=graph.output_channels,  # as ainvoke has it
        ):
            if mode == "custom":
                show_custom(context, chunk)
            else:
                output = chunk
        state = await graph.aget_state({"configurable": {"thread_id": context.run_id}})
        return output, not state.tasks

    def _outcome(
        self,
        context: RoundContext,
        saver: RunSaver,
        this_round: GraphRound,
        output: Any,
        is_done: bool,
    ) -> Advance | End:
        done = [task for _, task in saver.written if task.is_finished and task.node]
        turns = tuple(_turn(task, saver) for task in done)
        summary = {"did": [task.node for task in done]} if done else {}
        if is_done:
            if isinstance(output, dict):
                output = {name: each for name, each in output.items() if name != "__interrupt__"}
            answer = answer_of(output)
            index, artifacts = saver.commit()
            own = artifacts if self.keeps_history else {}
            if self.follows_thread:
                own = {**own, **state_artifacts(saver, context)}
            shown = output_of(answer, self.text, context)
            values = replies_to_asks(shown.get(ANSWER_TEXT, answer), context)
            end = End(answer, shown, turns, values, summary, own)
            if not self.reads_messages:
                return end
            again = {**values, INDEX: {**index, AGAIN: True}}
            advance = Advance(NODE, turns, again, bool(done), summary, artifacts)
            return put_off(end, advance, None, context.committed)
        index, artifacts = saver.commit(this_round.is_partial)
        before = context.committed.get(INDEX)
        if before is not None and index["namespaces"] == before["namespaces"]:
            raise FatalError(
                f"run {context.run_id}, step {context.step}: the graph has not gone on, although "
                "it has not ended. Was it changed since the run began?"
            )
        context.kept.keep(saver.namespaces)
        if context.build:
            index[BUILD] = context.build
        return Advance(NODE, turns, {INDEX: index}, bool(done), summary, artifacts)

    def _start_fork(self, given: ForkInput, context: RoundContext) -> Advance:
        """Store the forked state, with the changes of the fork.

        No node runs. The next round runs the superstep that follows the state.

        Raises:
            FatalError: no node follows the state.
        """
        saver = self._saver(context, RoundTasks())
        saver.namespaces = given.namespaces()
        if "" in saver.namespaces:
            saver.namespaces[""].metadata["source"] = "fork"
        wrote = None if given.values is None else saver.value(given.values, "values")
        call(self._update, context, saver, given, wrote, context)
        index, artifacts = saver.commit(given.is_partial)
        command = Command("fork", {"run": given.run, "step": given.step})
        return Advance(NODE, (Turn(command, _shown(wrote)),), {INDEX: index}, artifacts=artifacts)

    async def _update(
        self, saver: RunSaver, given: ForkInput, wrote: Any, context: RoundContext
    ) -> None:
        graph = copy.copy(type(self).graph)
        graph.checkpointer = saver
        if given.values is not None:
            place = saver.place(given.namespace, given.checkpoint)
            await graph.aupdate_state(place, wrote, given.as_node)
        state = await graph.aget_state({"configurable": {"thread_id": context.run_id}})
        if not state.tasks:
            raise FatalError(
                f"run {context.run_id}, step {context.step}: no node follows the state of run "
                f"{given.run}, superstep {given.step}. The graph has ended there, or it was "
                "changed since. Fork at an earlier superstep, or with values and as_node"
            )

    def _saver(self, context: RoundContext, tasks: RoundTasks) -> RunSaver:
        return RunSaver(context, StateSerializer(self.types), tasks, self.keeps_history)

    def _input(self, context: RoundContext, earlier: Sequence[ThreadMessage]) -> dict[str, Any]:
        """Return the input of the graph: the run's inputs, and the goal if there is a key for it.

        Args:
            earlier: messages of the thread that the state of the graph does not have.
        """
        given = dict(context.inputs)
        keys = self._keys()
        check_files(keys, context)
        is_goal = GOAL in keys
        if is_goal:
            given.setdefault(GOAL, context.goal)
        if FILES in keys and context.files:
            given.setdefault(FILES, [each.data for each in context.files])
        text = "" if is_goal else context.goal
        if MESSAGES in keys and (text or context.files):
            given.setdefault(MESSAGES, [message_of(text, context)])
        add_messages(given, keys, earlier, context)
        return given

    def _keys(self) -> set[str]:
        return keys_of(type(self).graph)


def _ask(node: str, question: Any, tasks: int, context: RoundContext) -> Outcome:
    """Ask a person a node's question, or commit the answer.

    The next round runs the node with the answer. The answer is committed before, so that it is not
    lost with the worker of that round.

    Args:
        node: the node that asks.
        question: the question, with its ``id`` and ``value``.
        tasks: the number of tasks that wait for the answer.

    Returns:
        The ``Interrupt`` with the question. If a person has answered it, the outcome that stores
            the answer.
    """
    index, asked = dict(context.committed[INDEX]), context.asked
    fault = index.pop("fault", "")
    # A node that asks twice may use the same id, and the old answer is still there.
    mark = {ASKS: question.id, "step": context.step}
    if context.answered and isinstance(asked, Mapping) and mark.items() <= asked.items():
        index["answer"] = {"id": question.id, "value": context.answer, "tasks": tasks}
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
    """Return whether an error says that an answer does not fit the schema of its ``interrupt``.

    Older versions of the library have no such schema.
    """
    test = getattr(errors, "is_invalid_resume", None)
    return test is not None and bool(test(error))


def _again(saver: RunSaver, error: BaseException) -> Advance:
    """Return the outcome after an invalid answer. The next round asks again with the error."""
    saver.answered = None
    index, artifacts = saver.commit()
    return Advance(
        NODE, (), {INDEX: {**index, "fault": safe_text(str(error), SHOWN)}}, artifacts=artifacts
    )


def _turn(task: TaskWrites, saver: RunSaver) -> Turn:
    """Return the turn of a finished task. It is for people: no round reads it."""
    values = {
        channel: saver.value(text, channel)
        for channel, text in task.writes
        if channel not in TOLD and not channel.startswith(("__", "branch:"))
    }
    words = safe_text("; ".join(words_in(values.values())), SHOWN)
    extras = {"thought": words} if words else {}
    wrote = {channel: _shown(value) for channel, value in values.items()}
    text = canonical(wrote)
    return Turn(
        Command(task.node, extras=extras), wrote if len(text) <= SHOWN else safe_text(text, SHOWN)
    )


def _shown(value: Any) -> Any:
    return storable(to_jsonable_python(value, fallback=repr), "what a node shows")
