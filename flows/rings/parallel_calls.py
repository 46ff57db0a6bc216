"""Concurrent calls of one reply. Each call is carried out in its own child run.

The child is a run of the same flow. It begins at the Executor with one command, and ends after one
round. Its answer is the command's result, which becomes the observation. See
docs/guides/children.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from perdure.flows.core.budgets import COMMANDS
from perdure.flows.core.errors import BadReply
from perdure.flows.core.json_values import canonical
from perdure.flows.core.names import ONLY
from perdure.flows.core.outcomes import Advance, Command, End, Turn
from perdure.flows.core.summaries import bounded, digest, shown, summary_of
from perdure.flows.rings.branching_flow import told
from perdure.flows.rings.call_queue import command_of, data_of
from perdure.flows.rings.circular import Node
from perdure.flows.rounds.children import ChildFailed, Ended, OneRound
from perdure.flows.rounds.context import RoundContext

#: The value that counts the waiting calls that are carried out at once with the decided command.
TOGETHER = "_together"
#: The name of the wait for the child runs.
WAIT = "calls"
#: Maximum bytes of the calls that are carried out at once.
MOST_CALLED = 64 * 1024
#: Maximum bytes of these calls, their results and the calls that wait. A round may add 256 KiB
#: (``max_addition_bytes``), and may remember values too.
MOST_WRITTEN = 192 * 1024
#: Bytes that the results may have, however long the calls are.
LEAST_OBSERVED = 32 * 1024

#: Keys of an answer that is more than an observation.
_OBSERVATION, _VALUES, _FINISH = "_observation", "_values", "_finish"


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of the child run that carried out one call.

    Attributes:
        observation: the command's result.
        values: the values that the command remembered.
        finish: the values with which the command ended the run. Empty if the command did not end
            it.
    """

    observation: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    finish: Mapping[str, Any] = field(default_factory=dict)

    def packed(self) -> Any:
        """Return this result as the answer of the child run.

        The answer is the observation itself if nothing else is set. ``of`` reads the answer.
        """
        parts = {_VALUES: dict(self.values), _FINISH: dict(self.finish)}
        more = {name: value for name, value in parts.items() if value}
        is_ambiguous = isinstance(self.observation, dict) and _OBSERVATION in self.observation
        if more or is_ambiguous:
            return {_OBSERVATION: self.observation, **more}
        return self.observation

    @classmethod
    def of(cls, answer: Any) -> CallResult:
        """Return the result that a child run's answer contains (``packed``)."""
        if isinstance(answer, dict) and _OBSERVATION in answer:
            return cls(answer[_OBSERVATION], answer.get(_VALUES, {}), answer.get(_FINISH, {}))
        return cls(answer)


def fault_of_ring(parallel_calls: int, topology: Sequence[Node]) -> str | None:
    """Return the reason why this ring allows no concurrent calls. None if it allows them."""
    last = topology[-1].name if topology else "Executor"
    if parallel_calls == 1 or last == "Executor":
        return None
    return (
        f"parallel_calls is {parallel_calls}, but node {last} follows the Executor and changes one "
        "turn at a time; put it before the Executor, or remove parallel_calls"
    )


def count_together(
    first: Command, waiting: Sequence[Mapping[str, Any]], most: Callable[[str], float]
) -> int:
    """Return how many waiting calls of a reply run at the same time as the reply's first call.

    The calls are counted in order until one of three limits: a call of ``finish``, more calls of a
    command than ``most`` allows, or more than ``MOST_CALLED`` bytes of calls. Invalid calls between
    the others are counted too. The result is 0 if ``most`` does not allow the first call.

    Args:
        waiting: the calls after the first, as JSON data.
        most: returns how many calls of a command may run at the same time, by the command's name.
    """
    if most(first.name) < 1:
        return 0  # The run carries it out itself, or its spent budget is a person's to raise.
    counts = {first.name: 1}
    size, together = _size(data_of(first)), 0
    for place, call in enumerate(waiting):
        size += _size(call)
        if "error" in call:
            continue
        name = call["name"]
        counts[name] = counts.get(name, 0) + 1
        if name == "finish" or counts[name] > most(name) or size > MOST_CALLED:
            break
        together = place + 1
    return together


def budget_left(context: RoundContext, name: str) -> float:
    """Return how many calls of a command its budget still allows after this round.

    ``math.inf`` if the command has no budget.
    """
    budget = context.budgets.get(f"{COMMANDS}{name}")
    if budget is None:
        return math.inf
    charged = context.spent.get(f"{COMMANDS}{name}", 0) + (context.journal.carried_out == name)
    return math.ceil(budget.limit - budget.spent - charged)


def call_run(flow: str, call: Mapping[str, Any], context: RoundContext) -> OneRound:
    """Return the child run that carries out one call of a reply.

    Args:
        flow: the name of the flow.
        call: the call as JSON data.
    """
    values = {name: value for name, value in context.committed.items() if not name.startswith("_")}
    return OneRound(
        flow,
        context.goal,
        dict(context.inputs),
        node="Executor",
        values={
            **values,
            "command": call["name"],
            "command_args": dict(call.get("args", {})),
            ONLY: True,
        },
    )


def end_of_call(
    outcome: Advance | End, is_public: Callable[[str], bool], early_exit_key: str
) -> End:
    """Return the end of a call's child run, from the outcome of its only round.

    Args:
        outcome: the outcome of the round, with the turn of the command.
        is_public: returns whether a command can remember a value of this name.
        early_exit_key: the flow's key, which is left out of the answer.
    """
    values = {name: value for name, value in outcome.values.items() if is_public(name)}
    finish: Mapping[str, Any] = {}
    if isinstance(outcome, End):
        finish = {
            name: value
            for name, value in outcome.values.items()
            if name not in values and not name.startswith("_") and name != early_exit_key
        }
    result = CallResult(outcome.turns[-1].observation, values, finish)
    answer = result.packed()
    return End(
        answer,
        {"answer": answer, "status": "finished"},
        outcome.turns,
        values,
        outcome.summary,
        outcome.artifacts,
    )


class JoinedCalls(NamedTuple):
    """The joined results of concurrent calls.

    Attributes:
        turns: one for each call, in the order of the reply.
        values: the values that the commands remembered. If two commands remembered the same name,
            the later command's value counts.
        finish: the values of the first command that ended the run. Empty if no command ended it.
        failed: the number of calls that failed.
    """

    turns: Sequence[Turn]
    values: Mapping[str, Any]
    finish: Mapping[str, Any]
    failed: int


def join(
    calls: Sequence[Mapping[str, Any]],
    ends: Iterable[Ended],
    is_observed: Callable[[str], bool],
) -> JoinedCalls:
    """Return the joined results of concurrent calls.

    Args:
        calls: the calls of the reply. An invalid call has an error and no child run.
        ends: the endings of the child runs, in the order of the calls.
        is_observed: returns whether a failure of a command becomes an observation, by the command's
            name.

    Raises:
        ChildFailed: a child run failed, and the failures of its command are not observations.
    """
    left = iter(ends)
    turns: list[Turn] = []
    values: dict[str, Any] = {}
    finish: Mapping[str, Any] = {}
    for call in calls:
        command = command_of(call)
        if command is None or "error" in call:
            turns.append(Turn(command, told(BadReply(call["error"]))))
            continue
        end = next(left)
        result = CallResult.of(end.answer)
        if not end.ok:
            error = ChildFailed.of(end)
            if not is_observed(command.name):
                raise error
            result = CallResult(told(error))
        turns.append(Turn(command, result.observation))
        values |= result.values
        finish = finish or result.finish
    failed = sum(_has_failed(turn.observation) for turn in turns)
    return JoinedCalls(turns, values, finish, failed)


def _has_failed(observation: Any) -> bool:
    return isinstance(observation, dict) and observation.keys() in ({"error"}, {"error", "run"})


def fitted(
    turns: Sequence[Turn], waiting: Sequence[Mapping[str, Any]], step: int
) -> tuple[tuple[Turn, ...], dict[str, str]]:
    """Cut the longest results, so that the turns fit into one round.

    Cut results have the same length.

    Args:
        waiting: the calls that the round leaves for later.

    Returns:
        The turns, and the artifacts with the whole of the cut results. No artifacts if the turns
        fit.
    """
    sizes = [_size(turn.observation) for turn in turns]
    called = sum(_size(data_of(turn.command)) for turn in turns if turn.command is not None)
    room = max(LEAST_OBSERVED, MOST_WRITTEN - called - _size(list(waiting)))
    if sum(sizes) <= room:
        return tuple(turns), {}
    most = _share(sizes, room)
    fitting: list[Turn] = []
    artifacts: dict[str, str] = {}
    for place, (turn, size) in enumerate(zip(turns, sizes, strict=True), 1):
        observation = turn.observation
        if size > most and turn.command is not None:
            text = observation if isinstance(observation, str) else canonical(observation)
            name = f"{step}-{place}-{turn.command.name}"
            observation, whole = bounded(observation, most * len(text) // size, name)
            artifacts |= whole
        fitting.append(replace(turn, observation=observation))
    return tuple(fitting), artifacts


def _share(sizes: Sequence[int], room: int) -> int:
    """Return the length in bytes to which longer results are cut, so that all fit into ``room``."""
    share = room
    for count, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        share = room // count
        if size > share:
            break
        room -= size
    return share


def _size(data: Any) -> int:
    return len(canonical(data).encode("utf-8", "surrogateescape"))


def summary_of_calls(turns: Sequence[Turn], failed: int) -> dict[str, Any]:
    """Return a short summary of concurrent calls, for people who watch the run.

    Args:
        failed: the number of calls that failed.
    """
    results = [
        f"{turn.command.name if turn.command else 'unreadable'}: {shown(turn.observation)}"
        for turn in turns
    ]
    head = f"{len(turns)} calls" + (f", {failed} failed" if failed else "")
    observations = [turn.observation for turn in turns]
    return {"observation": shown(f"{head}: {' · '.join(results)}"), "digest": digest(observations)}


def summary_of_decision(first: Command, waiting: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a short summary of a reply with concurrent calls, for people who watch the run.

    It is the summary of the first call, with the number of calls of each command as ``calls``.
    """
    names = [first.name, *(call["name"] for call in waiting if "error" not in call)]
    return {**summary_of(first), "calls": dict(Counter(names))}
