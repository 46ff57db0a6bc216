"""Nodes of a ring that start child runs. Flows written in YAML use them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from perdure.flows.core.errors import FatalError
from perdure.flows.core.json_values import canonical
from perdure.flows.core.names import suggest
from perdure.flows.rounds.children import PLACEHOLDER, Child, Ended, OnFailure, Until
from perdure.flows.rounds.context import RoundContext

#: The name that stands for one item of ``for_each``.
ITEM = "item"
#: ``{name}`` stands for a value, ``{{name}}`` for the text ``{name}``.


@dataclass(frozen=True)
class RunNode:
    """The function of a node that starts child runs.

    It starts one run, or one run for each item of a list. Texts in ``goal`` and ``inputs`` may have
    placeholders ``{name}``. A placeholder stands for a value of the ring's state, and ``{item}``
    for the item. A text that is only a placeholder becomes the value itself, of any type.

    Attributes:
        flow: the name of the flow.
        goal: the goal of each child. None: the goal of the run, or the item.
        inputs: the inputs of each child by name.
        for_each: the name of the value or input that has the list. None starts one run.
        wait, max_concurrency, timeout, on_failure: as in ``RoundContext.gather``.
        into: the name under which the ring's state gets the answer, or the list of answers. If
            ``wait`` is not ``all``, the list has the ending of each child that has ended. None
            stores nothing.
        options: the other attributes of ``Child``.
    """

    flow: str
    goal: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    for_each: str | None = None
    wait: Until = "all"
    max_concurrency: int = 100
    timeout: float | None = None
    on_failure: OnFailure = "tell"
    into: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, state: dict[str, Any], context: RoundContext) -> Mapping[str, Any]:
        """Start the node's child runs, wait for them, and return their answers.

        The answers are the value ``into``. If ``into`` is None, the result is empty.

        Raises:
            Parked: the child runs have not ended yet.
            FatalError: ``for_each`` names no list, or a placeholder names no value of the state.
        """
        if self.for_each is None:
            child = self._child(state, "{goal}", context)
            result = context.child(
                child.flow,
                child.goal,
                child.inputs,
                timeout=self.timeout,
                on_failure=self.on_failure,
                **self.options,
            )
        else:
            items = state.get(self.for_each)
            if not isinstance(items, list):
                raise FatalError(
                    f"run {context.run_id}, step {context.step}: node {context.node} starts a run "
                    f"for each item of {self.for_each}, which is {items!r:.80}; expected a list"
                )
            group = context.gather(
                [self._child({**state, ITEM: item}, "{item}", context) for item in items],
                wait=self.wait,
                max_concurrency=self.max_concurrency,
                timeout=self.timeout,
                on_failure=self.on_failure,
            )
            result = group.answers if self.wait == "all" else [_end_of(each) for each in group]
        return {} if self.into is None else {self.into: result}

    def _child(self, state: Mapping[str, Any], goal: str, context: RoundContext) -> Child:
        try:
            text = str(_text(goal if self.goal is None else self.goal, state))
            return Child(self.flow, text, _filled(dict(self.inputs), state), **self.options)
        except KeyError as error:
            name = str(error.args[0])
            raise FatalError(
                f"run {context.run_id}, step {context.step}: node {context.node} names {{{name}}}, "
                f"which the run does not have; {suggest(name, state)}"
            ) from error


def names_in(data: Any) -> Iterator[str]:
    """Yield the names in the placeholders (``{name}``) of all texts in ``data``."""
    if isinstance(data, str):
        yield from (name for _, name in PLACEHOLDER.findall(data) if name)
    elif isinstance(data, Mapping | list):
        for each in data.values() if isinstance(data, Mapping) else data:
            yield from names_in(each)


def _filled(data: Any, state: Mapping[str, Any]) -> Any:
    if isinstance(data, str):
        whole = PLACEHOLDER.fullmatch(data)
        return state[whole[2]] if whole and whole[2] else _text(data, state)
    if isinstance(data, Mapping):
        return {name: _filled(each, state) for name, each in data.items()}
    return [_filled(each, state) for each in data] if isinstance(data, list) else data


def _text(template: str, state: Mapping[str, Any]) -> str:
    def value_of(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        value = state[found[2]]
        return value if isinstance(value, str) else canonical(value)

    return PLACEHOLDER.sub(value_of, template)


def _end_of(ended: Ended) -> dict[str, Any]:
    """Return the ending of a child run as JSON data for the ring's state."""
    data = {"place": ended.place, "run": ended.run_id, "status": ended.status}
    error = {} if ended.error is None else {"error": ended.error}
    return {**data, "answer": ended.answer, **error}
