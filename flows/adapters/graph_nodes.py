"""Nodes of a LangGraph graph in a round: which nodes run, and which are in doubt."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.managed.base import ManagedValue
from langgraph.managed.is_last_step import IsLastStepManager, RemainingStepsManager
from langgraph.pregel import Pregel
from langgraph.types import Interrupt as GraphQuestion
from pydantic_core import to_jsonable_python

from perdure.flows.adapters.graph_answers import GivenAnswers, asks_itself
from perdure.flows.adapters.graph_checkpoints import RoundTasks
from perdure.flows.commands.calls import call
from perdure.flows.commands.in_doubt import CarryOut, is_before_retry, retry_mark, settled
from perdure.flows.core.errors import (
    FatalError,
    OutcomeUnknown,
    RetryableError,
    RoundStopped,
    UnstorableValue,
    described,
)
from perdure.flows.core.json_values import canonical
from perdure.flows.core.outcomes import Command, Interrupt
from perdure.flows.core.summaries import safe_text
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.waits import NoWaits

#: Maximum number of tasks that a round begins. The next round of the superstep begins others.
TOGETHER = 32
#: Seconds between two checks whether the other tasks of a round are over.
OTHERS_SECONDS = 0.01
#: Maximum characters of a node's input in a question.
ASKED = 10_000
#: Errors that say themselves whether the round is retried. They are raised unchanged.
PASSED = (FatalError, RetryableError, RoundStopped, UnstorableValue)
START = "__start__"
#: The library's key for whether a graph inside a node continues from its last checkpoint instead of
#: beginning with its input. The library sets it for all nodes of a superstep that is resumed, and a
#: round resumes each superstep.
RESUMING = "__pregel_resuming"
WAITS = (
    "the node {!r} of the graph waits. A node holds a worker, so it must not. Ask a person with "
    "interrupt(...), or run the graph in a step of a workflow that waits"
)


class GraphRound:
    """One round of a graph: which nodes run, which are in doubt, and which have failed.

    Args:
        context: the context of the round.
        most_steps: maximum supersteps of the run. None: any number.
        idempotent: names of nodes that may run again after their worker was lost. None: all.
        pool: the threads in which nodes run.

    Attributes:
        waiting: the questions of the tasks that wait for a person, by the id of the task.
        answers: the answers of people to tasks. None: this round has no answer.
        resumed: ids of tasks, and names of nodes, that contain a graph which has not ended.
        tasks: the tasks that the round has reached.
        is_partial: whether tasks are left for the next round of the same superstep.
        question: the question to a person about a node in doubt. None: no node is in doubt.
        failed: the failed node and its error, by the ``id()`` of the error.
    """

    def __init__(
        self,
        context: RoundContext,
        most_steps: int | None,
        idempotent: Collection[str] | None,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.most_steps = most_steps
        self.context, self._idempotent, self._pool = context, idempotent, pool
        self._lock = threading.Lock()
        self.waiting: Mapping[str, Sequence[GraphQuestion]] = {}
        self.answers: GivenAnswers | None = None
        self.resumed: Collection[str] = ()
        self.tasks = RoundTasks()
        self._running: set[str] = set()
        self._returned: dict[str, str] = {}
        #: Names of nodes whose return value came from a person.
        self._told: set[str] = set()
        self.is_partial = False
        self.question: Interrupt | None = None
        self.failed: dict[int, tuple[str, BaseException]] = {}

    async def perform(
        self,
        name: str,
        inner: Runnable[Any, Any],
        value: Any,
        config: RunnableConfig,
        named: Mapping[str, Any],
        may_retry: bool,
    ) -> Any:
        """Run a node for a task, unless the task waits for a person.

        If the round has begun ``TOGETHER`` tasks, the task is left for the next round.

        Args:
            name: the name of the node.
            inner: the runnable of the node, called with ``value``, ``config`` and ``named``.
            may_retry: whether the graph itself retries a failed node.

        Raises:
            GraphInterrupt: the task waits for a person, or is left for the next round. Or the node
                has run and asks a person.
            Exception: whatever the node raises.
        """
        task, config = self.meet(name, config)
        is_first = task not in self.tasks.begun
        if is_first and len(self.tasks.begun) >= TOGETHER:
            self.is_partial = True
            raise GraphInterrupt(())
        if self.answers is not None:
            config = self.answers.watched(task, name, inner, config)
        if asks_itself(inner):
            self.tasks.asking.add(task)
        self.tasks.begun.add(task)
        self._running.add(task)
        here = contextvars.copy_context()
        here.run(var_child_runnable_config.set, config)  # graphs that the node invokes read it
        work = asyncio.get_running_loop().run_in_executor(
            self._pool,
            here.run,
            partial(self._carry_out, name, inner, value, config, named, is_first),
        )
        try:
            result = await asyncio.shield(work)
            self._returned[task] = name
            return result
        except BaseException as error:
            self._running.discard(task)
            if id(error) in self.failed and not may_retry:
                await self._others()
            raise

    async def _others(self) -> None:
        """Wait until the round's other tasks have ended.

        Stop waiting if the round is cancelled. This is called before an error ends the round. The
        library would cancel the other tasks: their effects would happen, and their results would be
        lost.
        """
        while (  # noqa: ASYNC110 - its parts are set in several places
            self._running - self.tasks.written and not self.context.cancelled.is_set()
        ):
            await asyncio.sleep(OTHERS_SECONDS)

    def meet(self, name: str, config: RunnableConfig) -> tuple[str, RunnableConfig]:
        """Record that the round has reached a task. Return the task's id, and its config.

        Raises:
            GraphInterrupt: the task waits for an answer of a person.
        """
        task = task_of(config)
        is_retry = task in self.tasks.names
        self.tasks.names[task] = name
        if task in self.waiting:
            raise GraphInterrupt(tuple(self.waiting[task]))
        if not is_retry and task not in self.resumed and name not in self.resumed:
            own = {**config["configurable"], RESUMING: False}
            config = {**config, "configurable": own}
        return task, config

    def _carry_out(
        self,
        name: str,
        inner: Runnable[Any, Any],
        value: Any,
        config: RunnableConfig,
        named: Mapping[str, Any],
        is_first: bool,
    ) -> Any:
        context, command = self.context, Command(name, {"task": task_of(config)})
        key, is_idempotent = context.key_of(command), self.is_idempotent(name)
        if not is_idempotent:
            if is_first and context.journal.in_doubt(key) is not None:
                result = self._settle(command, value)
                if not isinstance(result, CarryOut):
                    self._told.add(name)
                    return result
            context.journal.intend(key)
        context.journal.begin(name, is_idempotent)
        try:
            with NoWaits(WAITS.format(name)):
                if _is_plain(inner):
                    return inner.invoke(value, config, **named)
                return call(partial(inner.ainvoke, value, config, **named), context)
        except GraphBubbleUp:
            context.journal.withdraw(key)  # After the answer, the node runs from its beginning.
            raise
        except Exception as error:
            # The exception says that the node has failed, so it is not in doubt, unless it was cut
            # off.
            if not (context.cancelled.is_set() or isinstance(error, OutcomeUnknown)):
                context.journal.withdraw(key)
            self.failed[id(error)] = (name, error)
            raise
        except BaseException as error:
            self.failed[id(error)] = (name, error)
            raise

    @property
    def was_told(self) -> bool:
        """Whether a person gave a node's result in this round. The node was in doubt."""
        return bool(self._told)

    def is_idempotent(self, name: str) -> bool:
        """Return whether a node may run again after its worker was lost."""
        return self._idempotent is None or name in self._idempotent

    def _settle(self, command: Command, value: Any) -> Any:
        """Decide about a node that a lost worker may have run.

        Returns:
            ``CarryOut``, or the return value of the node as given by a person.

        Raises:
            GraphInterrupt: a person has to be asked.
            FatalError: a person answered with a text in place of a result.
        """
        context = self.context
        asked = context.asked if isinstance(context.asked, Mapping) else {}
        if context.answered and is_before_retry(asked, context):
            context = altered(context, answered=False)  # That answer led to an error.
        result = settled("ask", command, _nothing, {}, context)
        if isinstance(result, Interrupt):
            facts = {**result.data["in_doubt"], "args": input_of(value), "listener": "graph"}
            with self._lock:
                self.question = self.question or Interrupt(
                    result.reason, {"in_doubt": facts, **retry_mark(context)}
                )
            raise GraphInterrupt(())
        match result:
            case {"in_doubt": str(words)} if isinstance(asked.get("in_doubt"), Mapping):
                raise FatalError(
                    f"run {context.run_id}, step {context.step}: a person says of the node "
                    f"{command.name!r}, whose worker was lost: {words}"
                )
        return result

    def error_of(self, error: BaseException) -> BaseException:
        """Return the round's error for an error of its graph.

        It is a FatalError if a node that is not idempotent failed, or if the graph did not accept
        the node's result. Such a node does not run again before a person retries the run. Any other
        error is returned unchanged.
        """
        context = self.context
        if not isinstance(error, Exception) or isinstance(error, PASSED):
            return error
        name, _ = self.failed.get(id(error), ("", error))
        if not name:
            name = self._withdraw_returned()
        if not name or self.is_idempotent(name):
            return error
        failure = safe_text(described(error), 2000)
        if name in self._told:
            return FatalError(
                f"run {context.run_id}, step {context.step}: the graph refuses what a person said "
                f"that the node {name!r} has returned: {failure}. The node has not run again. To "
                f"answer anew: perdure retry {context.run_id}, and give the whole update of the "
                'state as the result, such as {"result": {"KEY": ...}}'
            )
        return FatalError(
            f"run {context.run_id}, step {context.step}: the node {name!r} of the graph failed: "
            f"{failure}. It is not idempotent, so it is not run again automatically. Check whether "
            f"it has happened. To run it again: perdure retry {context.run_id}. For automatic "
            "retries, name it in register_graph(idempotent=[...]), or give it a retry_policy"
        )

    def _withdraw_returned(self) -> str:
        """Withdraw the intents of nodes with refused results.

        The graph did not accept the results that these nodes returned. Idempotent nodes have no
        intents. If a person gave the result, the intent stays.

        Returns:
            The name of the last such node. Empty if there is none.
        """
        last = ""
        for task, name in self._returned.items():
            if task not in self.tasks.ended and not self.is_idempotent(name):
                last = name
                if name in self._told:
                    continue  # It stays in doubt.
                self.context.journal.withdraw(self.context.key_of(Command(name, {"task": task})))
        return last


class NodeStep(Runnable[Any, Any]):
    """The stand-in for a node's own runnable during a round.

    The library calls it, and a ``GraphRound`` decides whether the node runs. If the node does not
    run, ``ainvoke`` raises an exception, or returns the result that a person has given. The
    exception is GraphInterrupt if a person must answer, or if the node is left for the next round.
    """

    def __init__(
        self,
        name: str,
        inner: Runnable[Any, Any],
        this_round: GraphRound,
        may_retry: bool = False,
    ) -> None:
        self.name, self._inner, self._round = name, inner, this_round
        self._may_retry = may_retry

    def invoke(
        self,
        input: Any,  # noqa: A002 - the library's name
        config: RunnableConfig | None = None,
        **named: Any,
    ) -> Any:
        """Raise FatalError, because a round calls ``ainvoke``."""
        raise FatalError(f"the node {self.name!r} was invoked outside of a round")

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - the library's name
        config: RunnableConfig | None = None,
        **named: Any,
    ) -> Any:
        """Run the node, as the round decides."""
        assert self.name is not None and config is not None, "the graph runs the node"
        return await self._round.perform(
            self.name, self._inner, input, config, named, self._may_retry
        )


class SubgraphStep(NodeStep):
    """The stand-in for a subgraph's own runnable during a round.

    If the worker is lost, the nodes of the subgraph are in doubt, not the subgraph itself.
    """

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - the library's name
        config: RunnableConfig | None = None,
        **named: Any,
    ) -> Any:
        """Run the subgraph to its next superstep or its end."""
        assert self.name is not None and config is not None, "the graph runs the node"
        _, config = self._round.meet(self.name, config)
        return await self._inner.ainvoke(input, config, **named)


def stepping(graph: Pregel[Any, Any, Any, Any], this_round: GraphRound) -> Any:
    """Return a copy of a graph that stops before each superstep.

    In the copy, ``this_round`` decides which nodes run.
    """
    own = copy.copy(graph)
    own.interrupt_before_nodes = "*"
    own.channels = counted(graph.channels, this_round.most_steps)
    own.nodes = {
        name: node if name == START else node.copy({"bound": _bound(name, node, this_round)})
        for name, node in graph.nodes.items()
    }
    return own


def counted(channels: Mapping[str, Any], most: int | None) -> dict[str, Any]:
    """Return a graph's channels, with the flow's limit.

    RemainingSteps and IsLastStep are replaced, so that they count to ``most``. All other channels
    are unchanged. The library itself counts to the limit of one invocation, and here one invocation
    is one superstep.

    Args:
        most: the flow's ``max_rounds``. None: all channels are unchanged.
    """
    if most is None:
        return dict(channels)
    limit = most

    class Remaining(ManagedValue[int]):
        @staticmethod
        def get(scratchpad: Any) -> int:
            return limit - int(scratchpad.step)

    class IsLast(ManagedValue[bool]):
        @staticmethod
        def get(scratchpad: Any) -> bool:
            return bool(scratchpad.step == limit - 1)

    own: dict[Any, Any] = {RemainingStepsManager: Remaining, IsLastStepManager: IsLast}
    return {
        name: own.get(each, each) if isinstance(each, type) else each
        for name, each in channels.items()
    }


def _bound(name: str, node: Any, this_round: GraphRound) -> Runnable[Any, Any]:
    if isinstance(node.bound, Pregel) and node.bound.checkpointer is not False:
        return SubgraphStep(name, stepping(node.bound, this_round), this_round)
    may_retry = bool(node.retry_policy or getattr(node, "error_handler_node", None))
    return NodeStep(name, node.bound, this_round, may_retry)


def task_of(config: RunnableConfig) -> str:
    """Return the id of a config's task, from its namespace."""
    place = str(config["configurable"]["checkpoint_ns"])
    return place.rpartition("|")[2].rpartition(":")[2]


def input_of(value: Any) -> dict[str, Any]:
    """Return a node's input as JSON, for people.

    The result is an object. If its JSON has more than ``ASKED`` characters, the object has only the
    beginning of that JSON, as a text under ``input``.
    """
    plain = to_jsonable_python(value, fallback=repr)
    plain = plain if isinstance(plain, dict) else {"input": plain}
    text = canonical(plain)
    return plain if len(text) <= ASKED else {"input": safe_text(text, ASKED)}


def _is_plain(inner: Any) -> bool:
    """Return whether a node is a plain function, for which the library makes a coroutine."""
    function, coroutine = getattr(inner, "func", None), getattr(inner, "afunc", None)
    wrapped = getattr(coroutine, "__wrapped__", None)
    return function is not None and (coroutine is None or wrapped is function)


def _nothing() -> None:
    """Stand for the function of a node in doubt. No policy calls it."""
