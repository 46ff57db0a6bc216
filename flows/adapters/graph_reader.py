"""``graph_of``: a LangGraph graph with a run's states. The library's methods read the states."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, NoReturn, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.graph.state import CompiledStateGraph

from perdure.flows.adapters.graph_checkpoints import INTERRUPTED, Namespace
from perdure.flows.adapters.graph_flow import GraphFlow
from perdure.flows.adapters.graph_history import RECORDS, GraphHistory, PastState, closed
from perdure.flows.adapters.graph_states import StateReader
from perdure.flows.adapters.graph_values import StateSerializer
from perdure.flows.core.errors import InvalidInput
from perdure.flows.rounds import registry


class RunsClient(Protocol):
    """The methods of ``Client`` and ``RemoteClient`` that this package calls."""

    def get(self, run_id: str) -> Any:
        """Return the run."""

    def artifacts(self, run_id: str) -> Mapping[str, int]:
        """Return the names and sizes of the run's artifacts."""

    def artifact(self, run_id: str, name: str) -> str:
        """Return the text of an artifact."""

    def submit(self, flow: str, goal: str, inputs: Mapping[str, Any], **options: Any) -> Any:
        """Submit a goal, and return the run."""


class RunStates(StateReader):
    """A read-only checkpointer for the states of a run."""

    def __init__(self, client: RunsClient, run_id: str, flow: GraphFlow) -> None:
        super().__init__(run_id, StateSerializer(flow.types), f"run {run_id}")
        self._client, self._flow = client, flow
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._history = GraphHistory()

    def history(self) -> GraphHistory:
        """Return the history of the run so far. New records are read at each call.

        Raises:
            InvalidInput: the run keeps no history.
        """
        with self._lock:
            names = self._client.artifacts(self._run_id)
            steps = sorted(
                int(name.removeprefix(RECORDS)) for name in names if name.startswith(RECORDS)
            )
            if not steps and not self._flow.keeps_history:
                raise InvalidInput(
                    f"run {self._run_id} keeps no history: its graph is registered with "
                    "history=False. Register it with history=True for later runs"
                )
            for step in steps:
                name = f"{RECORDS}{step}"
                if name not in self._texts:
                    self._history.add(self.artifact(name))
            return self._history

    def artifact(self, name: str) -> str:
        """Return the text of an artifact of the run. Texts never change, so they are cached."""
        if name not in self._texts:
            self._texts[name] = self._client.artifact(self._run_id, name)
        return self._texts[name]

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a config names.

        Returns:
            The last checkpoint of the namespace if the config names none. None if the checkpoint
                does not exist.
        """
        name, checkpoint = self._address(config)
        history = self.history()
        checkpoint = checkpoint or history.latest.get(name, "")
        state = history.states.get((name, checkpoint))
        return None if state is None else self._past(name, checkpoint, state)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the library's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints of a namespace, newest first.

        Args:
            config: has the namespace. If it names a checkpoint, only this one is yielded.
            filter: the metadata that a checkpoint must have.
            before: names a checkpoint. Only older ones are yielded. If it does not exist, none is.
            limit: the maximum number of checkpoints. None: any number.
        """
        name, wanted = self._address(config or {})
        own = [
            (checkpoint, state)
            for (space, checkpoint), state in self.history().states.items()
            if space == name
        ]
        if before is not None and (last := self._address(before)[1]):
            ids = [checkpoint for checkpoint, _ in own]
            own = own[: ids.index(last)] if last in ids else []
        count = 0
        for checkpoint, state in reversed(own):
            if limit is not None and count >= limit:
                return
            metadata = state.versions[-1]["metadata"]
            fits = all(metadata.get(key) == value for key, value in (filter or {}).items())
            if fits and wanted in ("", checkpoint):
                count += 1
                yield self._past(name, checkpoint, state)

    def _address(self, config: RunnableConfig) -> tuple[str, str]:
        """Return the namespace and the checkpoint id of a config. Both may be empty.

        Raises:
            InvalidInput: the config names a different run.
        """
        place = config.get("configurable", {})
        thread = str(place.get("thread_id", self._run_id))
        if thread != self._run_id:
            raise InvalidInput(
                f"this graph has the states of run {self._run_id}, not of {thread}. For those, "
                f"call graph_of(client, {thread!r})"
            )
        return place.get("checkpoint_ns", ""), place.get("checkpoint_id") or ""

    def _past(self, name: str, checkpoint: str, state: PastState) -> CheckpointTuple:
        space = Namespace.of(closed(state.versions[-1]), self.artifact)
        if not self._history.is_latest(name, checkpoint):
            # An answer removes its question from the stored tasks. The history keeps it.
            for entry in reversed(state.versions):
                for task, asked in Namespace.of(closed(entry), self.artifact).tasks.items():
                    own = space.tasks.setdefault(task, asked)
                    if all(channel != INTERRUPTED for channel, _ in own.writes):
                        own.writes += [each for each in asked.writes if each[0] == INTERRUPTED]
        return self._tuple(name, space, state.parent)

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise InvalidInput, because this checkpointer only reads."""
        run = self._run_id
        raise InvalidInput(
            f"this graph only reads the states of run {run}. To go on from one of them, call "
            f"fork(client, {run!r}, checkpoint_id, values); to answer a question, "
            f"client.resume({run!r}, answer)"
        )

    put = aput = put_writes = aput_writes = delete_thread = adelete_thread = refuse

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the result of ``get_tuple``, which runs in a thread."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self, config: RunnableConfig | None, **options: Any
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the results of ``list``, which runs in a thread."""
        for each in await asyncio.to_thread(lambda: [*self.list(config, **options)]):
            yield each


class ReadOnlyGraph:
    """A mixin for the result of ``graph_of``. Methods that write or run raise InvalidInput."""

    checkpointer: RunStates

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        self.checkpointer.refuse()

    update_state = aupdate_state = bulk_update_state = abulk_update_state = _refuse
    invoke = ainvoke = stream = astream = stream_events = astream_events = _refuse
    batch = abatch = transform = atransform = _refuse


def graph_of(client: RunsClient, run_id: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a run's graph with methods that read its states.

    Pass its ``config`` to ``get_state``, ``get_state_history`` and their asynchronous forms.
    Methods that write (``update_state``, ``invoke``, ...) raise InvalidInput: see ``fork``.

    Args:
        client: a ``Client`` or a ``RemoteClient`` of the run's server.
        run_id: the id of a run whose flow is registered in this process.

    Raises:
        InvalidInput: the run's flow is not a graph, or the client is asynchronous.
        FlowNotFound: the run's flow is not registered in this process.
        RunNotFound: no run has this id.
    """
    flow, _ = flow_of(client, run_id)
    original = type(flow).graph
    # A class of its own, so that copies that the library makes refuse the same.
    graph: CompiledStateGraph[Any, Any, Any, Any] = object.__new__(
        type("RunGraph", (ReadOnlyGraph, type(original)), {})
    )
    vars(graph).update(vars(original))
    graph.checkpointer = RunStates(client, run_id, flow)
    graph.config = {**(graph.config or {}), "configurable": {"thread_id": run_id}}
    return graph


def flow_of(client: RunsClient, run_id: str) -> tuple[GraphFlow, Any]:
    """Return a graph run's flow, and the run.

    Raises:
        InvalidInput: the run's flow is not a graph, or the client is asynchronous.
        FlowNotFound: the run's flow is not registered in this process.
    """
    if inspect.iscoroutinefunction(client.get):
        raise InvalidInput(
            "expected a Client or a RemoteClient, got an AsyncClient. Pass a Client, and call this "
            "in a thread: await asyncio.to_thread(...)"
        )
    run = client.get(run_id)
    flow = registry.make(run.flow)
    if not isinstance(flow, GraphFlow):
        raise InvalidInput(
            f"run {run_id} is of the flow {run.flow!r}, which is not a graph of register_graph. "
            f"What its rounds did: perdure show {run_id} --transcript"
        )
    return flow, run
