"""Remarks: messages and questions of people to a live run, as turns of its history.

The next round of a controller reads the remarks. An unread remark puts off the end of the run, at
most ``MOST_PUT_OFF`` times in succession.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perdure.flows.core.errors import BadReply
from perdure.flows.core.history import History, forgotten_of
from perdure.flows.core.json_values import canonical
from perdure.flows.core.names import OPEN_ASKS, REMARKS
from perdure.flows.core.outcomes import ASK, SAY, Advance, Command, End, Turn
from perdure.flows.core.summaries import bounded
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.waits import ReceivedSignal

#: The signals that a controller reads.
HEARD = (SAY, ASK)
#: Signals that one round reads. The next round reads more.
MOST_HEARD = 20
#: Maximum characters of the remarks that one round reads, so that its commit fits
#: (max_addition_bytes).
MOST_CHARACTERS = 30_000
#: Name of the value that counts the consecutive ends put off because of new remarks.
PUT_OFF = "_put_off"
#: Maximum of ``PUT_OFF``. Then the run ends, and an event names the signals that are unread.
MOST_PUT_OFF = 8
#: The observation of a ``finish`` that was put off.
NOT_FINISHED = (
    "The run is not finished: meanwhile a person said something, which follows. "
    "Take it into account, then decide again."
)


@dataclass(frozen=True, slots=True)
class Heard:
    """The remarks that a controller's round has read.

    Attributes:
        turns: one for each signal, in the order in which the signals arrived.
        values: the run's values that the round changes because of the remarks.
        artifacts: the full texts of remarks that are too long for a turn.
    """

    turns: tuple[Turn, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)


NOTHING = Heard()


def hear(context: RoundContext, most: int) -> tuple[Heard, RoundContext]:
    """Take remarks from the run's mailbox, and add them to the round's history.

    Args:
        most: maximum characters of one signal in the history. With many signals, the limit is
            lower (``MOST_CHARACTERS``).

    Returns:
        The remarks, and a context with the remarks in its history. Without remarks, ``NOTHING`` and
            ``context`` itself.
    """
    signals = context.mailbox.hear(HEARD, MOST_HEARD)
    if not signals:
        return NOTHING, context
    most = min(most, MOST_CHARACTERS // len(signals))
    turns: list[Turn] = []
    artifacts: dict[str, str] = {}
    for signal in signals:
        name = f"{context.step}-{signal.name}-{signal.number}"
        words, whole = bounded(signal.payload, most, name)
        by = {} if signal.by is None else {"by": signal.by}
        turns.append(Turn(None, {signal.name: words, "number": signal.number, **by}))
        artifacts |= whole
    history = context.history
    places = range(len(history), len(history) + len(turns))
    asks = [signal.number for signal in signals if signal.name == ASK]
    values: dict[str, Any] = {REMARKS: [*context.committed.get(REMARKS, ()), *places]}
    if asks:
        values[OPEN_ASKS] = [*open_asks(context), *asks]
    extended = History(
        len(history) + len(turns),
        turns,
        lambda start, stop: history[start:stop],
        forgotten_of(history),
    )
    heard = altered(context, history=extended, committed={**context.committed, **values})
    return Heard(tuple(turns), values, artifacts), heard


def without_remarks(context: RoundContext) -> RoundContext:
    """Return a context without the messages from people in its history.

    Code that counts decisions uses this. ``RoundContext.said`` still has the messages. If the
    history has no messages from people, ``context`` itself is returned.
    """
    remarks = context.committed.get(REMARKS)
    if not remarks:
        return context
    whole = context.history
    if not isinstance(whole, History):  # of a test, which passes a list
        whole = History(len(whole), whole, lambda start, stop: context.history[start:stop])
    return altered(context, history=whole.without(remarks), whole=whole)


def with_heard(outcome: Advance | End, heard: Heard) -> Advance | End:
    """Return a controller's outcome that also stores the remarks of its round.

    In the history, the remarks come before the turns of the outcome.
    """
    if heard is NOTHING:
        return outcome
    return replace(
        outcome,
        turns=(*heard.turns, *outcome.turns),
        values={**heard.values, **outcome.values},
        artifacts={**heard.artifacts, **outcome.artifacts},
    )


def with_values(outcome: Advance | End, values: Mapping[str, Any]) -> Advance | End:
    """Return an outcome that also writes these values.

    If the outcome is an ``End`` with ``otherwise``, that other outcome writes the values, too.
    """
    if not values:
        return outcome
    added = replace(outcome, values={**outcome.values, **values})
    if isinstance(added, End) and added.otherwise is not None:
        other = added.otherwise
        return replace(added, otherwise=replace(other, values={**other.values, **values}))
    return added


def put_off(
    outcome: End, advance: Advance, finish: Command | None, committed: Mapping[str, Any]
) -> End:
    """Return an ``End`` in place of which ``advance`` is committed if there are unread remarks.

    After ``MOST_PUT_OFF`` ends in succession that were put off, return ``outcome`` unchanged.

    Args:
        outcome: the end.
        advance: the outcome to commit in place of the end.
        finish: the decision to end. ``advance`` records it in the history as put off. None: the
            history gets no record.
        committed: the run's values.
    """
    times = committed.get(PUT_OFF, 0) + 1
    if times > MOST_PUT_OFF:
        return outcome
    values = {**advance.values, PUT_OFF: times}
    turns = advance.turns
    if finish is not None:
        turns = (*turns, Turn(finish, {"error": NOT_FINISHED}))
    return replace(outcome, otherwise=replace(advance, turns=turns, values=values))


def open_asks(context: RoundContext) -> list[int]:
    """Return the numbers of the questions that the run has read and not answered, oldest first."""
    return list(context.committed.get(OPEN_ASKS) or ())


def after_replies(context: RoundContext) -> dict[str, Any]:
    """Return the value ``OPEN_ASKS`` without the questions to which the round replied.

    Returns:
        The value by its name. An empty dict if the round replied to no question.
    """
    replied = {number for name, number in context.mailbox.replies if name == ASK}
    if not replied:
        return {}
    return {OPEN_ASKS: [each for each in open_asks(context) if each not in replied]}


def reply(context: RoundContext, answer: Any, number: int | None = None) -> dict[str, Any]:
    """Reply to an open question of a person.

    Args:
        number: the number of the question. None: the oldest open question.

    Returns:
        The observation: the number of the question under ``replied``.

    Raises:
        BadReply: no question is open, or the question of this number is not.
    """
    asks = open_asks(context)
    if not asks or number not in (None, *asks):
        raise BadReply(f"no question of number {number} is open; open are: {asks}")
    chosen = asks[0] if number is None else number
    context.reply(ReceivedSignal(ASK, chosen), answer)
    return {"replied": chosen}


def sentence(turn: Turn) -> str | None:
    """Return a person's remark in a turn as a sentence for a model.

    Returns:
        None if the turn is not a remark.
    """
    if turn.said is None:
        return None
    told = turn.observation
    words = turn.said if isinstance(turn.said, str) else canonical(turn.said)
    by = told.get("by", "A person")
    if ASK in told:
        return f"{by} asks (question {told['number']}; answer with the command reply): {words}"
    return f"{by} says: {words}"
