"""Answers of people to a graph's questions: each counts for the question that the person saw.

A node that runs with its answer asks its question again. If the code of the node was changed
meanwhile, the node may ask a different question, or none. The library would then give the answer to
the different question, or drop the answer.

This module uses private parts of the library: the counter of ``interrupt`` in a task's scratchpad,
and the local ``value`` of that function. Without them, questions are not compared.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.types import interrupt

from perdure.flows.adapters.graph_checkpoints import Answered, Namespace
from perdure.flows.core.errors import CodeDoesNotFit
from perdure.flows.core.summaries import safe_text
from perdure.flows.rounds.context import RoundContext

#: The library's key for the counters of a running task.
SCRATCHPAD = "__pregel_scratchpad"
#: Maximum characters of a question in an error.
SHOWN = 200
#: Maximum number of functions that are read to find out whether a node asks.
MOST_FUNCTIONS = 200
_MISSING = object()


class GivenAnswers:
    """The answers for a round's tasks, with the questions that people saw.

    Args:
        build: the build of the code that has asked. Empty if it is not known.
        spaces: the checkpoints of the run, by namespace.
        answered: id of the question that this round has an answer to, or None.
        questions: returns the questions of a task, each with its ``id`` and ``value``.
        take: called when a node gets the answer. This is necessary for a node that then leaves its
            graph by ``Command(graph=Command.PARENT)``, because such a node writes nothing.
    """

    def __init__(
        self,
        context: RoundContext,
        build: str,
        spaces: Mapping[str, Namespace],
        answered: str | None,
        questions: Callable[[Any], Sequence[Any]],
        take: Callable[[], None],
    ) -> None:
        self._context = context
        self._is_other_code = bool(build and context.build and build != context.build)
        #: The mismatch of an answer, once it is found.
        self.misfit: CodeDoesNotFit | None = None
        self._take = take
        self._answers: dict[str, Sequence[Answered]] = {}
        #: Ids of the tasks that have asked the question that this round has an answer to.
        self._asks: set[str] = set()
        self._asked_itself: set[str] = set()
        #: The node and the question that this round has an answer to.
        self.node, self.question = "", ""
        for space in spaces.values():
            for id_, task in space.tasks.items():
                asked = [each for each in questions(task) if each.id == answered]
                self._answers[id_] = [*task.answers, *(Answered.to(each.value) for each in asked)]
                if asked and task.asks_itself:
                    self._asked_itself.add(id_)
                if asked:  # The innermost task comes last.
                    self._asks.add(id_)
                    self.node, self.question = task.node, shown(asked[0].value)

    def watched(
        self, task: str, name: str, inner: Runnable[Any, Any], config: RunnableConfig
    ) -> RunnableConfig:
        """Return a config that compares a task's questions.

        With this config, each question of the task is compared with the answered question. If the
        task has no answer, ``config`` is returned unchanged.

        Args:
            task: the id of the task.
            name: the task's node.
            inner: the runnable of the node.

        Raises:
            CodeDoesNotFit: the node has an answer, and its code no longer asks.
        """
        answers = self._answers.get(task)
        pad = config["configurable"].get(SCRATCHPAD)
        counter = getattr(pad, "interrupt_counter", None)
        if not answers or pad is None or counter is None:
            return config
        if self._is_other_code and task in self._asked_itself and not asks_itself(inner):
            raise self.misfits(
                f"{self._answered(name, answers[-1].shown)}, and the node's code does not ask any "
                "more. Nothing was carried out"
            )

        def count() -> int:
            place = int(counter())
            if place < len(answers):
                value = sys._getframe(1).f_locals.get("value", _MISSING)
                if value is not _MISSING:
                    self._compare(name, answers[place], value)
            if place == len(answers) - 1 and task in self._asks:
                self._take()
            return place

        own = {**config["configurable"], SCRATCHPAD: replace(pad, interrupt_counter=count)}
        return {**config, "configurable": own}

    def _compare(self, name: str, answered: Answered, value: Any) -> None:
        """Compare an answered question with the question (``value``) that gets its answer.

        The same code may ask with a different text each time. Then the answer is used, and an event
        reports the difference.

        Raises:
            CodeDoesNotFit: the code has changed, and asks a different question.
        """
        if answered.is_of(value):
            return
        what = (
            f"a person has answered {answered.shown!r}, and the node {name!r} of the graph now "
            f"asks {shown(value)!r} in this place"
        )
        if not self._is_other_code:
            self._context.tell(other_question=f"{what}. The answer was taken for it")
            return
        raise self.misfits(f"{what}. Nothing was carried out with the answer")

    def unused(self) -> CodeDoesNotFit:
        """Return the error for an unused answer. The node ended without asking its question."""
        return self.misfits(
            f"{self._answered(self.node, self.question)}, and the node ended without asking it. "
            "What it returned is not used. If it is not idempotent, a person is asked about it "
            "before it runs again"
        )

    def misfits(self, what: str) -> CodeDoesNotFit:
        """Return the error for an unusable answer.

        Later calls return the error of the first call, whatever ``what`` is.

        Args:
            what: the mismatch, as the beginning of the error text.
        """
        if self.misfit is None:
            self.misfit = CodeDoesNotFit(
                f"run {self._context.run_id}, step {self._context.step}: {what}. Was the code of "
                "the graph changed while the run waited? Deploy the version that asked. To be "
                "asked anew by this one, fork the run before its question: "
                "perdure.langgraph.fork(...)",
                is_of_other_code=self._is_other_code,
            )
        return self.misfit

    def _answered(self, node: str, question: str) -> str:
        return f"a person has answered the question of the node {node!r} ({question!r})"


def shown(value: Any) -> str:
    """Return a question as a text for an error. It is cut to ``SHOWN`` characters."""
    return safe_text(value if isinstance(value, str) else str(value), SHOWN)


def asks_itself(node: Any) -> bool:
    """Return whether the code of a node's function calls ``interrupt``.

    The plain functions that it names are searched, too. A call through a method or an object is not
    found.
    """
    left = [getattr(node, "func", None), getattr(node, "afunc", None), node]
    seen: set[int] = set()
    while left and len(seen) < MOST_FUNCTIONS:
        function = left.pop()
        while isinstance(function, functools.partial):
            function = function.func
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType) or id(function) in seen:
            continue
        seen.add(id(function))
        left.append(getattr(function, "__wrapped__", None))
        for value in _named_by(function):
            if value is interrupt:
                return True
            left.append(value)
    return False


def _named_by(function: FunctionType) -> Iterator[Any]:
    """Yield the objects that a function's code names."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # It is not assigned yet.
    for code in _codes(function.__code__):
        for name in code.co_names:
            if name == "interrupt":
                yield interrupt  # also types.interrupt(...), and an import in the function
            elif name in function.__globals__:
                yield function.__globals__[name]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
