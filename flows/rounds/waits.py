"""Waits of a node: for a duration, for signals to the run, or for child runs.

A wait that is not over raises ``Parked``. The runtime then parks the run, which holds no worker.
When the wait is over, the runtime runs the same node again from its beginning. The awaited signals
or children are then available at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NoReturn

from perdure.flows.core.errors import FatalError, InvalidFlow
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import is_name
from perdure.flows.core.round_journal import Journal
from perdure.flows.rounds.children import (
    Child,
    Ended,
    Group,
    GroupOptions,
    GroupWait,
    InvalidChild,
    KnownGroup,
    Need,
    Until,
)
from perdure.flows.rounds.wait_arguments import checked_seconds, checked_signal

#: Maximum number of signal names in one wait.
MOST_NAMES = 8
#: Maximum waits of one step. Each leaves a record that every attempt of the step reads.
MOST_WAITS = 64
#: When a signal of a test arrived.
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReceivedSignal:
    """A signal that was sent to the run.

    Attributes:
        name: the name of the signal.
        number: its number among the run's signals of this name, from 1.
        payload: JSON data.
        at: when it arrived, by the state server's clock.
        by: the sender's name, if given.
    """

    name: str
    number: int
    payload: Any = None
    at: datetime = LONG_AGO
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait that is not over.

    Attributes:
        name: its name in the step.
        signals: the names of the signals that end the wait, each with the number of unread signals
            that have to be there.
        seconds: the duration after which the wait ends; None waits for ever.
        children: the child runs that end the wait. None: the wait is for no children.
        about: JSON data that later attempts of the step read (``Journal.wait``).
    """

    name: str
    signals: Mapping[str, int] = field(default_factory=dict)
    seconds: float | None = None
    children: GroupWait | None = None
    about: Any = None


class Parked(BaseException):
    """Raised to end the round of a node that waits. No code may catch it and continue.

    Args:
        wait: the wait that is not over.
    """

    def __init__(self, wait: Wait) -> None:
        what = f"for the signal {' or '.join(wait.signals)}" if wait.signals else "for a time"
        if wait.children is not None:
            what = f"for {wait.children.total} child runs"
        does = f"waits {what}"
        if wait.children is not None and wait.children.need.good == 0:
            does = f"starts {wait.children.total} child runs"
        super().__init__(f"{does}, under the name {wait.name!r}")
        self.wait = wait


class Mailbox:
    """The signals of a run, and its round's waits.

    This class holds signals and ends of children in the process, for tests of a node. The runtime's
    subclass reads them from the store.

    Args:
        journal: has the records of this step's waits that timed out.

    Attributes:
        used: the number of the newest signal that this round used, by name. The round's commit
            takes the used signals.
        parked: the wait that ended this round because it is not over.
        joined: the groups that this round has joined. The round's commit removes them.
        replies: this round's replies to signals, as JSON texts by name and number.
    """

    # Most rounds never use their mailbox, so a new one has empty defaults only.
    used: Mapping[str, int] = MappingProxyType({})
    _first_used: Mapping[str, int] = MappingProxyType({})
    parked: Wait | None = None
    joined: tuple[str, ...] = ()
    replies: Mapping[tuple[str, int], str] = MappingProxyType({})
    _topic: str | None = None
    _sent: tuple[ReceivedSignal, ...] = ()
    _groups: Mapping[str, KnownGroup] = MappingProxyType({})
    _names: tuple[str, ...] = ()
    _over: tuple[str, ...] = ()

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()

    @property
    def where(self) -> str:
        """The run and the step of the round, for error messages."""
        return "run"

    def hook(self, name: str) -> str:
        """Return the address of a hook. In a node's test it leads nowhere."""
        return f"http://localhost/api/v1/hooks/run/{name}/secret"

    def listen(self, topic: str) -> None:
        """Take a topic for the run. In a node's test, no other run holds the topic.

        Raises:
            FatalError: the run holds another topic.
        """
        if self._topic is not None and self._topic != topic:
            raise self._has_other(self._topic, topic)
        self._topic = topic

    def _has_other(self, held: str, topic: str) -> FatalError:
        return FatalError(
            f"{self.where}: context.listen({topic!r}): the run holds the topic {held!r}, and a "
            "run holds one topic until it has ended. Listen to that one only, or start a child run "
            "that listens to the other"
        )

    def send(self, name: str, payload: Any = None, by: str | None = None) -> None:
        """Put a signal into the mailbox of a node's test.

        Raises:
            InvalidFlow: the name is not valid.
            UnstorableValue: the payload is not JSON data.
        """
        checked_signal(name)
        number = 1 + sum(signal.name == name for signal in self._sent)
        kept = storable(payload, f"the payload of the signal {name}")
        self._sent = (*self._sent, ReceivedSignal(name, number, kept, by=by))

    def let_time_pass(self, wait: str = "1") -> None:
        """Let a wait time out, in a node's test.

        Args:
            wait: the name of the wait in its step. Unnamed waits are "1", "2" and so on.
        """
        self._over = (*self._over, wait)

    def let_children_end(self, *ended: Ended, wait: str = "1", total: int | None = None) -> None:
        """Set the ends of a wait's children, in a node's test.

        Without ``ended``, the children have been started and still run.

        Args:
            wait: the name of the wait in its step. Unnamed waits are "1", "2" and so on.
            total: the number of children, for a node that joins them. None: the total of an earlier
                call, but at least the number of ended children.
        """
        known = self._groups.get(wait, KnownGroup(0, ()))
        ends = (*known.ended, *ended)
        known = KnownGroup(total or max(known.total, len(ends)), ends)
        self._groups = {**self._groups, wait: known}

    def sleep(self, seconds: Any, name: str | None) -> None:
        """Raise ``Parked`` to pause the run, unless the sleep is over.

        See ``RoundContext.sleep``.
        """
        wait = Wait(self._named(name), {}, checked_seconds(seconds))
        if not self._has_timed_out(wait):
            self._park(wait)

    def wait_for(
        self, signals: Sequence[str], timeout: Any, name: str | None
    ) -> ReceivedSignal | None:
        """Return the first of some signals, or raise ``Parked`` to pause the run.

        See ``RoundContext.wait_for``.

        Returns:
            None if ``timeout`` is over.
        """
        names = list(dict.fromkeys(map(checked_signal, signals)))
        if not 0 < len(names) <= MOST_NAMES:
            raise InvalidFlow(
                f"wait_for expects 1 to {MOST_NAMES} names of signals, got {len(names)}"
            )
        seconds = None if timeout is None else checked_seconds(timeout)
        wait = Wait(self._named(name), dict.fromkeys(names, 1), seconds)
        if self._has_timed_out(wait):
            return None
        found = self._take_first(names)
        if found is None:
            self._park(replace(wait, signals={each: self._needed(each) for each in names}))
        return found

    def take(self, name: str) -> ReceivedSignal | None:
        """Return the next unused signal of this name. None if the run has no such signal now."""
        return self._take_first([checked_signal(name)])

    def next_after(self, name: str, number: int) -> ReceivedSignal | None:
        """Return the next unused signal of this name whose number is higher than ``number``.

        The signal stays unused. None if the run has no such signal now.
        """
        used = self.used
        self.used = {**used, name: max(number, self._used(name))}
        try:
            return next(iter(self.unread([name])), None)
        finally:
            self.used = used

    def hear(self, names: Sequence[str], most: int) -> list[ReceivedSignal]:
        """Take the first ``most`` unread signals of these names, in order of arrival.

        Another attempt of this round may find more.
        """
        signals = self.all_unread(names, most)
        for signal in signals:
            self._use(signal.name, signal.number)
        return signals

    def all_unread(self, names: Sequence[str], most: int) -> list[ReceivedSignal]:
        """Return the first ``most`` unread signals of these names, in order of arrival."""
        unread = (each for each in self._sent if each.name in names)
        return [each for each in unread if each.number > self._used(each.name)][:most]

    def reply(self, signal: ReceivedSignal, value: Any) -> None:
        """Store a reply with this round's commit. See ``RoundContext.reply``.

        Raises:
            InvalidFlow: ``signal`` is not a ``ReceivedSignal``.
        """
        if not isinstance(signal, ReceivedSignal):
            raise InvalidFlow(
                f"{self.where}: reply({signal!r:.80}, ...) expects a signal that the run received"
            )
        text = canonical(storable(value, f"the reply to signal {signal.number} of {signal.name}"))
        self.replies = {(signal.name, signal.number): text, **self.replies}

    def gather(
        self,
        children: Sequence[Child],
        until: Until,
        timeout: Any,
        name: str | None,
        options: GroupOptions,
    ) -> Group:
        """Return the ended children of a group, or raise ``Parked`` to pause the run.

        The runtime starts children that do not exist yet. See ``RoundContext.gather``.
        """
        wait_name = self._named(name)
        if not children:
            return Group((), 0)
        group, total = self.group_name(wait_name), len(children)
        need = Need.of(until, total)
        options.check(self.where)
        seconds = None if timeout is None else checked_seconds(timeout)
        known = self.group(group)
        if known is None:
            wait = GroupWait(group, need, total, options, self.planned(children))
            return self._unless_over(Wait(wait_name, {}, seconds, wait), ())
        return self._unless_over(
            Wait(wait_name, {}, seconds, GroupWait(group, need, total, options)), known.ended
        )

    def start(self, children: Sequence[Child], name: str | None, options: GroupOptions) -> str:
        """Return the name of a group of children, after they were started.

        If they were not started yet, raise ``Parked``. The runtime then starts them. See
        ``RoundContext.start``.
        """
        wait_name = self._named(name)
        group, total = self.group_name(wait_name), len(children)
        options.check(self.where)
        if not children:
            raise InvalidChild(f"{self.where}: start([]): expected at least one child")
        if self.group(group) is None:
            plan = self.planned(children)
            wait = GroupWait(group, Need.of_nothing(total), total, options, plan)
            self._park(Wait(wait_name, {}, None, wait))
        return group

    def join(self, group: str, until: Until, timeout: Any, name: str | None) -> Group:
        """Return the ended children of a started group, or raise ``Parked`` to pause the run.

        See ``RoundContext.join``.
        """
        wait_name = self._named(name)
        known = self.group(group)
        if known is None:
            raise InvalidChild(
                f"{self.where}: join({group!r}): expected what context.start has returned in this "
                "run, and no other step has joined"
            )
        need = Need.of(until, known.total)
        seconds = None if timeout is None else checked_seconds(timeout)
        wait = Wait(wait_name, {}, seconds, GroupWait(group, need, known.total))
        found = self._unless_over(wait, known.ended)
        if need.met_by(known.ended) is not None:
            self.joined = (*self.joined, group)
        return found

    def _unless_over(self, wait: Wait, ended: Sequence[Ended]) -> Group:
        """Return the children that ended a wait. Raise ``Parked`` if the wait is not over.

        After a timeout, return all children that have ended.
        """
        assert wait.children is not None
        enough = wait.children.need.met_by(ended)
        if enough is None and not self._has_timed_out(wait):
            self._park(wait)
        return Group(ended if enough is None else enough, wait.children.total)

    def group_name(self, wait: str) -> str:
        """Return the name in the run of a wait's group of children.

        This class returns the name of the wait.
        """
        return wait

    def group(self, name: str) -> KnownGroup | None:
        """Return the state of a group of children. None if the group does not exist."""
        return self._groups.get(name)

    def planned(self, children: Sequence[Child]) -> tuple[str, ...]:
        """Return the plan from which the runtime starts these children, as JSON texts.

        This class checks nothing and returns no texts. The runtime's subclass validates the
        children.
        """
        return ()

    def unread(self, names: Sequence[str]) -> list[ReceivedSignal]:
        """Return the next signal of each name that is unread and not used by this round.

        The signals are in the order of their arrival.
        """
        found: dict[str, ReceivedSignal] = {}
        for signal in self._sent:
            if signal.name in names and signal.number > self._used(signal.name):
                found.setdefault(signal.name, signal)
        return list(found.values())

    def _used(self, name: str) -> int:
        return self.used.get(name, 0)

    def _take_first(self, names: Sequence[str]) -> ReceivedSignal | None:
        unread = self.unread(names)
        if not unread:
            return None
        self._use(unread[0].name, unread[0].number)
        return unread[0]

    def _use(self, name: str, number: int) -> None:
        self.used = {**self.used, name: max(number, self._used(name))}
        self._first_used = {name: number, **self._first_used}

    def _needed(self, name: str) -> int:
        """Return the number of unread signals of a name that ends the wait.

        After the wait, the step runs again from its beginning. It then needs the signals that it
        used before this wait, and one more. No commit has taken any of them yet.
        """
        first = self._first_used.get(name)
        return 1 if first is None else self._used(name) - first + 2

    def _named(self, name: str | None) -> str:
        if len(self._names) == MOST_WAITS:
            raise FatalError(
                f"{self.where}: the node waits more than {MOST_WAITS} times in one step; "
                "let it return between its waits"
            )
        chosen = str(len(self._names) + 1) if name is None else name
        if not is_name(chosen) or chosen in self._names or (name is not None and name.isdecimal()):
            raise InvalidFlow(
                f"{self.where}: {name!r} is no name for this wait; expected letters, digits, '_', "
                "'.' or '-', not only digits, and no name that this step has used"
            )
        self._names = (*self._names, chosen)
        return chosen

    def _has_timed_out(self, wait: Wait) -> bool:
        return wait.name in self._over or f"~{wait.name}" in self._journal.recorded

    def _park(self, wait: Wait) -> NoReturn:
        if (reason := why_no_waits()) is not None:
            raise FatalError(f"{self.where}: {reason}")
        self.parked = wait
        raise Parked(wait)


#: Why the running code must not wait, or None. Each thread of a round has its own value.
_REFUSED: ContextVar[str | None] = ContextVar("no_waits", default=None)


class NoWaits:
    """A context manager: each wait inside it raises FatalError.

    In nested blocks, the reason of the outer block is used.

    Args:
        reason: the text of the error.
    """

    __slots__ = ("_before", "_reason")

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __enter__(self) -> None:
        self._before = _REFUSED.set(_REFUSED.get() or self._reason)

    def __exit__(self, *raised: object) -> None:
        _REFUSED.reset(self._before)


#: Returns the reason of the current ``NoWaits`` block, or None outside of such blocks. A replayed
#: function calls it for each finished step, so it is the variable's own method.
why_no_waits: Callable[[], str | None] = _REFUSED.get
