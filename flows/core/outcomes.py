"""Outcomes of a round, as frozen data.

Nodes and flows make them. The runtime turns each into a transition of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class Command:
    """A controller's decision: carry out the command ``name`` with the keyword arguments ``args``.

    Attributes:
        name, args: the name of the command, and its arguments by name.
        extras: the other fields of the reply (thought, reasoning, plan, criticism, speak).
        call: the id that a model gave to its tool call. The observation answers this id.
        part: the position of the tool call in its reply. 0 begins a reply.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
    call: str = ""
    part: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """The decision to end the run: the goal is met, or given up. ``answer`` is any JSON value."""

    answer: Any = None


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A pause for a person.

    The node runs again with the answer, in the same step and under the same key.

    Args:
        reason: a sentence for the person.
        data: JSON shown with it.
        deadline: seconds (or a timedelta, or a text like ``7d``) after which ``default`` is taken.
            None waits for ever.
        default: the answer at the deadline.
    """

    reason: str
    data: Any = None
    deadline: float | timedelta | str | None = None
    default: Any = None


#: The names of the signals that a controller reads: words, and questions that want a reply.
SAY, ASK = "say", "ask"


@dataclass(frozen=True, slots=True)
class Turn:
    """One entry of a run's history: a decision and its observation, or a message of a person.

    Attributes:
        command: the decided command. None if the reply named no command, or if the turn is a
            message of a person to the run.
        observation: the command's result, or the fault of the reply. For a message of a person it
            is ``{"say": words, "number": its number}`` (``ask`` for a question), with the sender as
            ``by``.
    """

    command: Command | None
    observation: Any = None

    @property
    def said(self) -> Any:
        """A person's message or question to the run. None if this turn is a decision."""
        if self.command is not None or not isinstance(self.observation, Mapping):
            return None
        return self.observation.get(SAY, self.observation.get(ASK))


@dataclass(frozen=True, slots=True)
class Advance:
    """The end of a round. ``node`` runs next.

    Attributes:
        turns: appended to the history.
        values: written over values of the same name.
        ends_cycle: whether one pass over a ring ends here. ``max_rounds`` limits these passes.
        summary: a small JSON object for people who watch. It is never read back.
        artifacts: texts by name that are kept whole, outside the history.
    """

    node: str
    turns: tuple[Turn, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    ends_cycle: bool = False
    summary: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
    """The end of a run, with its answer and output.

    Attributes:
        answer: any JSON value.
        output: JSON values by name, which ``Run.output`` returns.
        turns, values, summary, artifacts: as for ``Advance``.
        otherwise: the outcome if the run has an unread message of a person. None: the run ends, and
            an event names the unread messages.
    """

    answer: Any = None
    output: Mapping[str, Any] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)
    otherwise: Advance | None = None


@dataclass(frozen=True, slots=True)
class Renew:
    """The end of a round that restarts the run. It goes on at the flow's first node.

    The run stays the same: its id, mailbox, labels, limits and spending do not change, and its
    steps go on. ``generation`` grows by one, and the count of cycles begins at 0. So a run of very
    many rounds stays small. In a ring, a node returns a ``Renew``.

    Attributes:
        inputs: the inputs from now on, validated like those of a submission. None keeps them.
        values: the named values from now on. Values not named here are deleted. None keeps them
            all.
        keep_turns: number of the newest turns that stay in the history.
        turns, summary, artifacts: as for ``Advance``.
    """

    inputs: Mapping[str, Any] | None = None
    values: Mapping[str, Any] | None = None
    keep_turns: int = 0
    turns: tuple[Turn, ...] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)


#: Any outcome of a round.
Outcome = Advance | End | Interrupt | Renew


def with_artifacts(outcome: Outcome, artifacts: Mapping[str, str]) -> Outcome:
    """Return an outcome with additional artifacts.

    If the outcome has an ``otherwise``, that outcome gets them, too. An Interrupt has no artifacts
    and is returned unchanged.
    """
    if not artifacts or isinstance(outcome, Interrupt):
        return outcome
    added = replace(outcome, artifacts={**outcome.artifacts, **artifacts})
    if isinstance(added, End) and added.otherwise is not None:
        other = added.otherwise
        otherwise = replace(other, artifacts={**other.artifacts, **artifacts})
        return replace(added, otherwise=otherwise)
    return added
