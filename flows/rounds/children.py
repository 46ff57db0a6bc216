"""Child runs: runs that a node starts and waits for.

A node that waits for children is parked like a node that waits for a signal
(``perdure.flows.rounds.waits``). When enough children have ended, the node runs again from its
beginning. The runtime starts the children.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, get_args, overload

from perdure.flows.core.errors import FatalError, Remedy, with_remedy

#: When the wait for a group is over: ``all`` as soon as one child failed or all succeeded,
#: ``settled`` when all have ended, ``any`` when one has ended, ``first`` when one has succeeded, or
#: the number of children that have to succeed.
Until = Literal["all", "settled", "any", "first"] | int
#: The fate of children that still run when their parent stops, ends, or no longer waits for them.
Policy = Literal["stop", "abandon"]
#: The reaction of a parent to a child that did not succeed: it gets the error, or it waits until a
#: person has continued the child.
OnFailure = Literal["tell", "hold"]


@dataclass(frozen=True)
class Child:
    """A run for a node to start: a subset of the arguments of ``Client.submit``.

    Attributes:
        flow: the name of its flow.
        goal: its goal.
        inputs: the inputs that its flow expects.
        budgets: its own limits by name.
        deadline: when it ends at the latest. Never later than its parent.
        max_rounds: limit of its cycles.
        labels: texts by name.
    """

    flow: str
    goal: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    budgets: Mapping[str, float] | None = None
    deadline: datetime | timedelta | float | None = None
    max_rounds: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OneRound(Child):
    """A child run that executes one node of its parent's flow, and then ends.

    The child has the inputs of the parent, so they are not validated again. The child pauses at no
    node and has no limits of its own.

    Attributes:
        node: the node that the child executes.
        values: the named values with which the child begins.
    """

    node: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """A child run that has ended.

    Attributes:
        place: its position among the children of the group, from 0.
        run_id: its id.
        flow: the name of its flow.
        status: ``completed``, ``unfinished`` (its cycles were used up), ``errored``, ``stopped``,
            or ``gone`` (it was deleted, or has expired).
        answer: the answer of a completed or an unfinished child.
        error: why it errored or was stopped.
        order: its position in the order in which the children ended, from 1.
    """

    place: int
    run_id: str
    flow: str
    status: str
    answer: Any = None
    error: str | None = None
    order: int = 0

    @property
    def ok(self) -> bool:
        """Whether the child succeeded: its ``status`` is ``completed``."""
        return self.status == "completed"


#: A placeholder of a text: ``{name}``, or ``{{name}}`` for the text ``{name}``.
PLACEHOLDER = re.compile(r"\{(\{[A-Za-z_][A-Za-z0-9_]*\})\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")


def goal_of(template: str, item: object, where: str) -> str:
    """Return the goal of the child for one item. ``template`` is the ``goal`` of ``map``.

    Args:
        where: the run and the step, for the error message.

    Raises:
        InvalidChild: The template has another placeholder than ``{item}``.
    """

    def text_of(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        if found[2] == "item":
            return str(item)
        raise InvalidChild(
            f"{where}: goal={template!r:.200} of map has the placeholder {{{found[2]}}}; the only "
            f"one is {{item}}, which stands for the item. For the text {{{found[2]}}}, write "
            f"{{{{{found[2]}}}}}"
        )

    return PLACEHOLDER.sub(text_of, template)


class Group(Sequence[Ended]):
    """The children of a group that have ended, in the order in which they were given.

    Args:
        ended: the ended children.
        total: the number of children of the group.
    """

    def __init__(self, ended: Sequence[Ended], total: int) -> None:
        self._ended = sorted(ended, key=lambda each: each.place)
        self.total = total

    def __len__(self) -> int:
        return len(self._ended)

    @overload
    def __getitem__(self, index: int) -> Ended: ...
    @overload
    def __getitem__(self, index: slice) -> list[Ended]: ...
    def __getitem__(self, index: int | slice) -> Ended | list[Ended]:
        return self._ended[index]

    def __iter__(self) -> Iterator[Ended]:
        return iter(self._ended)

    def __repr__(self) -> str:
        return f"Group({self._ended!r}, {self.total})"

    @property
    def failed(self) -> list[Ended]:
        """The children that ended and did not succeed."""
        return [each for each in self._ended if not each.ok]

    @property
    def arrived(self) -> list[Ended]:
        """The children in the order in which they ended."""
        return sorted(self._ended, key=lambda each: each.order)

    @property
    def missing(self) -> list[int]:
        """The positions in the group of the children that have not ended, from 0."""
        return sorted(set(range(self.total)) - {each.place for each in self._ended})

    @property
    def answers(self) -> list[Any]:
        """The answers of the children that succeeded."""
        return [each.answer for each in self._ended if each.ok]

    @property
    def by_place(self) -> list[Any]:
        """The answer of each child, in the given order. None for a child that has not succeeded."""
        answers = {each.place: each.answer for each in self._ended if each.ok}
        return [answers.get(place) for place in range(self.total)]


_CONTINUE = ". Continue the child first: "


class ChildFailed(FatalError):
    """Raised when a child run whose answer was needed did not complete.

    No further attempt of the parent's round can help.

    Attributes:
        ended: how the child ended, if known.
        observed: the error as a controller reads it, without the commands with which a person mends
            it.
    """

    code = "child-failed"

    def __init__(self, message: str, ended: Ended | None = None, observed: str = "") -> None:
        super().__init__(message)
        self.ended = ended
        self.observed = observed or message

    @classmethod
    def of(cls, ended: Ended) -> ChildFailed:
        """Return the error for a child that ended without success."""
        why = {
            "unfinished": "used up its cycles before it finished",
            "stopped": "was stopped",
            "gone": "is there no more",
        }.get(ended.status, ended.status)
        # The error of a child whose own child failed has the command that continues that one.
        error, _, below = (ended.error or "").partition(_CONTINUE)
        place = f"run {ended.run_id}, "
        detail = (
            f" at {error.removeprefix(place)}"
            if error.startswith(place)
            else error and f": {error}"
        )
        mends = [each for each in (below, continuing(ended.run_id, ended.status)) if each]
        then = (
            _CONTINUE + ", then ".join(mends) if mends else ". A retry of the parent finds the same"
        )
        what = f"child run {ended.run_id} (flow {ended.flow}) {why}{detail}"
        return with_remedy(cls(f"{what}{then}", ended, what), "retry" if mends else "again")


def continuing(run_id: str, status: str) -> str:
    """Return the ``perdure`` command with which a person continues a run.

    Empty if no command continues a run with this status.
    """
    commands = {
        "errored": f"perdure retry {run_id}",
        "stopped": f"perdure resume {run_id}",
        "unfinished": f"perdure resume {run_id} --add cycles=N",
    }
    return commands.get(status, "")


class InvalidChild(FatalError):
    """Raised when a child run cannot be started: its flow is unknown, say.

    None of the children that were to be started together is started.
    """

    code = "invalid-child"


class WaitOver(FatalError):
    """Raised when a wait timed out before enough children had ended."""

    code = "wait-over"
    _remedy: Remedy = "again"


@dataclass(frozen=True, slots=True)
class Need:
    """The numbers of ended children that end the wait for a group.

    The wait is over when the group reaches one of the three numbers. A number greater than the size
    of the group is never reached.

    Attributes:
        good: the number of children that succeeded.
        bad: the number of children that ended without success.
        ended: the number of children that ended, with or without success.
    """

    good: int
    bad: int
    ended: int

    @classmethod
    def of_nothing(cls, total: int) -> Need:
        """Return a need that is met at once, so that children are started without a wait."""
        return cls(0, total + 1, total + 1)

    @classmethod
    def of(cls, until: Until, total: int) -> Need:
        """Return the need of a wait for ``total`` children.

        Args:
            until: when the wait is over. See ``Until``.

        Raises:
            InvalidChild: ``until`` is not valid, or needs more children than there are.
        """
        never = total + 1
        match until:
            case "all":
                return cls(total, 1, never)
            case "settled":
                return cls(never, never, total)
            case "any":
                return cls(never, never, 1)
            case "first":
                return cls(1, total, never)
            case int() if not isinstance(until, bool) and 1 <= until <= total:
                return cls(until, total - until + 1, never)
        children = "1 child" if total == 1 else f"{total} children"
        raise InvalidChild(
            f"wait={until!r} for {children}: expected all, settled, any, first, or a number "
            f"from 1 to {total}"
        )

    def met_by(self, ended: Sequence[Ended]) -> list[Ended] | None:
        """Return the children that ended first, exactly as many as the wait needs.

        Every attempt of a round gets the same children, even if more have ended meanwhile.

        Args:
            ended: the children that have ended, in any order.

        Returns:
            The children in the order in which they ended. None if not enough have ended.
        """
        good = 0
        in_order = sorted(ended, key=lambda each: each.order)
        for count, each in enumerate(in_order, 1):
            good += each.ok
            if good >= self.good or count - good >= self.bad or count >= self.ended:
                return in_order[:count]
        return None


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """How a group's children start, and when they are stopped.

    Attributes:
        max_concurrency: how many children run at the same time.
        policy: whether the children are stopped when nothing waits for them any more. See
            ``Policy``.
        on_failure: the reaction of the parent to a child that did not succeed. See ``OnFailure``.
        kept: whether the group outlives the step that starts it, as with ``start``.
    """

    max_concurrency: int = 100
    policy: Policy = "stop"
    on_failure: OnFailure = "tell"
    kept: bool = False

    def check(self, where: str) -> None:
        """Raise InvalidChild if an option is not valid.

        Args:
            where: the run and the step, for the error message.
        """
        most = self.max_concurrency
        if isinstance(most, bool) or not (isinstance(most, int) and most >= 1):
            raise InvalidChild(f"{where}: max_concurrency={most!r}; expected a whole number from 1")
        for name, kind in (("policy", Policy), ("on_failure", OnFailure)):
            if getattr(self, name) not in get_args(kind):
                raise InvalidChild(
                    f"{where}: {name}={getattr(self, name)!r}; "
                    f"expected {' or '.join(get_args(kind))}"
                )


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """A group of children that the run has started.

    Attributes:
        total: the number of children.
        ended: the children that have ended.
    """

    total: int
    ended: Sequence[Ended]


@dataclass(frozen=True, slots=True)
class GroupWait:
    """A wait for a group of children.

    Attributes:
        name: the group's name in the run, ``STEP.NAME``.
        need: when the wait is over.
        total: the number of children.
        options: how the children are started.
        plan: the children to start, as texts. None if the group was started before.
    """

    name: str
    need: Need
    total: int
    options: GroupOptions = field(default_factory=GroupOptions)
    plan: tuple[str, ...] | None = None
