"""QuestionReader: the base of RunSaver. It finds the questions of a graph's tasks to people."""

from __future__ import annotations

from langgraph.types import Interrupt

from perdure.flows.adapters.graph_checkpoints import INTERRUPTED, Namespace, TaskWrites
from perdure.flows.adapters.graph_states import StateReader
from perdure.flows.adapters.graph_values import StateSerializer


class QuestionReader(StateReader):
    """The base of a round's checkpointer: the open questions of its graph, and the answered one.

    The arguments are those of ``StateReader``.
    """

    def __init__(self, run_id: str, serializer: StateSerializer, where: str) -> None:
        super().__init__(run_id, serializer, where)
        #: The id of the question to which this round has an answer.
        self.answered: str | None = None
        self.namespaces: dict[str, Namespace] = {}

    def pending(self) -> list[tuple[str, Interrupt]]:
        """Return all open questions of the graph, in task order.

        Each question comes after the name of the node that asks it.
        """
        root = self.namespaces.get("")
        tasks = [] if root is None else sorted(root.tasks.values(), key=lambda task: task.path)
        return [
            (task.node, question)
            for task in tasks
            if not task.is_finished
            for question in self.questions(task)
        ]

    def holders(self, question: str) -> int:
        """Return how many unfinished tasks have a question.

        These are the task of the node that asks, and the tasks of the subgraphs that contain it.

        Args:
            question: the id of the question.

        Returns:
            0 if the node itself no longer asks: an earlier attempt has run it with the answer, or a
                fork has changed the state of its subgraph.
        """
        holders = [
            f"{name}|{task.node}:{id_}".lstrip("|")
            for name, space in self.namespaces.items()
            for id_, task in space.tasks.items()
            if not task.is_finished and any(each.id == question for each in self.questions(task))
        ]
        innermost = max(holders, key=len, default="")
        return 0 if innermost in self.namespaces else len(holders)

    def waiting(self) -> dict[str, list[Interrupt]]:
        """Return the questions to which this round has no answer, by the id of the task.

        Only unfinished tasks count. A task with the answered question is left out.
        """
        return {
            name: asked
            for space in self.namespaces.values()
            for name, task in space.tasks.items()
            if not task.is_finished and (asked := self.questions(task))
            if all(question.id != self.answered for question in asked)
        }

    def questions(self, task: TaskWrites) -> list[Interrupt]:
        """Return the questions of a task."""
        return [
            question
            for channel, text in task.writes
            if channel == INTERRUPTED
            for question in self._serializer.decode(text, "a question")
        ]

    def _has_answer(self, task: TaskWrites) -> bool:
        return self.answered is not None and any(
            each.id == self.answered for each in self.questions(task)
        )
