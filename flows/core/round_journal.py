"""Journal: the records that a round stores before its commit.

From them, the next attempt knows which effects may have happened.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from perdure.flows.core.budgets import sum_of
from perdure.flows.core.errors import FatalError

#: Results of ``once`` and ended waits of one step (``MOST`` in record_result.lua). Of a workflow's
#: steps that a round carries out at the same time, each may record as many.
MOST_RESULTS = 64
#: Separates the scope from the rest of a record's name. Names that users give never contain it.
SCOPE = ":"
#: Field of a recorded JSON object: the attempt that recorded it, and its spending for the record.
SPENT = "~spent"
#: Begins the line that describes an intent. It stands before the intent's own line. Workers of
#: older releases look for lines that begin with a key, and ignore it.
ABOUT = "~"
#: Begins the line that takes the place of the intents of earlier attempts (``Journal.settle``).
SETTLED = "~~"


def with_spent(
    told: Mapping[str, Any], attempt: int, amounts: Mapping[str, float]
) -> dict[str, Any]:
    """Return a copy of the JSON object ``told`` that also records an attempt's spending.

    If the attempt is lost, its round is charged with the amounts (``spent_by_lost``).

    Args:
        amounts: the spending, by budget name. If it is empty, nothing is added.
    """
    return {**told, SPENT: [attempt, dict(amounts)]} if amounts else dict(told)


def spent_by_lost(recorded: Iterable[str], reported: int) -> dict[str, float]:
    """Return the spending that lost attempts of a round have recorded, by budget name.

    Args:
        recorded: the records of the round's attempts, as JSON texts.
        reported: the number of the last attempt that reported its spending. The report includes the
            attempts before it.
    """
    told = (json.loads(text) for text in recorded if f'"{SPENT}":[' in text)
    noted = (each[SPENT] for each in told if isinstance(each, dict) and SPENT in each)
    return sum_of(amounts for attempt, amounts in noted if attempt > reported)


def scope_of(name: str) -> str:
    """Return the prefix of a record's name: the workflow's step that records it, and ``:``.

    Returns:
        An empty text if the name has no prefix.
    """
    scope, colon, _ = name.partition(SCOPE)
    return f"{scope}{SCOPE}" if colon else ""


class Journal:
    """The intents of one step, and the results that it records before its commit.

    This class holds them in the process. The runtime's subclass stores them with the run. Several
    threads may use one journal at once. The intents are stored as one text, so each write stores
    the intents of all threads.

    Args:
        intents: the commands that earlier attempts of this step began to carry out. Each line
            begins with the command's idempotency key.
        recorded: the results that ``context.once`` has recorded in this step, as JSON texts by
            name.

    Attributes:
        begun: when (``began``, an ISO time) and by which ``worker`` an earlier attempt wrote the
            last intent. Empty if that is not known.
        is_repeatable: whether all commands that this attempt has begun are idempotent. None: it has
            begun none.
        carried_out: the name of the command that this attempt has begun to carry out. None if it
            has begun none, or if the command asked a person, waited or reported that it did
            nothing.
        stored: the intents in their stored form.
        wait: the wait in which an earlier attempt of this step has parked the run: its name, and
            the data that the attempt stored about it (``Wait.about``) as JSON. None if there is
            none.
    """

    carried_out: str | None = None
    is_repeatable: bool | None = None
    begun: Mapping[str, str] = {}
    wait: tuple[str, str] | None = None

    def __init__(self, intents: str = "", recorded: Mapping[str, str] | None = None) -> None:
        self.recorded = dict(recorded or {})
        self.stored = intents
        # JSON may hold the other line ends of splitlines().
        self._earlier = intents.split("\n") if intents else []
        self._lines = list(self._earlier)
        self._about: dict[str, str] = {}
        self._lock = threading.RLock()

    @property
    def text(self) -> str:
        """The current lines of this step: intents, and the descriptions stored with them."""
        return "\n".join(self._lines)

    @property
    def is_behind(self) -> bool:
        """Whether the stored intents are out of date, because an intent was withdrawn later."""
        return self.text != self.stored

    @property
    def is_harmless(self) -> bool:
        """Whether cutting off this attempt leaves no command in doubt.

        That is so if this attempt has begun at least one command, all of them are idempotent, and
        the step has no intents. If it has begun none, the result is False.
        """
        return self.is_repeatable is True and not self._lines

    def in_doubt(self, key: str) -> str | None:
        """Return an earlier attempt's intent for a command.

        Args:
            key: the idempotency key of the command.

        Returns:
            The line of the intent. None if no earlier attempt stored one.
        """
        return next((line for line in self._earlier if line.partition(" ")[0] == key), None)

    @property
    def described(self) -> list[str]:
        """The descriptions (``describe``) that earlier attempts stored with their intents."""
        if not self._earlier:
            return []
        parts = [line.partition(" ") for line in self._earlier if not line.startswith(SETTLED)]
        keys = {key for key, _, _ in parts}
        return [
            about
            for key, _, about in parts
            if key.startswith(ABOUT) and key.removeprefix(ABOUT) in keys
        ]

    def describe(self, key: str, about: str) -> None:
        """Remember a description of a command. ``intend`` stores it with the command's intent.

        Args:
            key: the idempotency key of the command.
            about: one line of text.
        """
        with self._lock:
            self._about[key] = f"{ABOUT}{key} {about}"

    def intend(self, line: str) -> None:
        """Store a command's intent before its execution.

        If the intent cannot be stored, it is withdrawn, and the error is raised.

        Args:
            line: the idempotency key of the command. If a person edited the command's arguments, a
                space and these arguments (JSON) follow.

        Raises:
            RoundStopped: this round has lost its lease and must not carry out anything.
        """
        with self._lock:
            about = self._about.get(line.partition(" ")[0])
            self._lines += [each for each in (about, line) if each and each not in self._lines]
            self.stored = self.text  # It may be stored even if the answer is lost.
            try:
                self.write(self.text)
            except Exception:
                self.withdraw(line.partition(" ")[0])  # Nothing may begin without a stored intent.
                raise

    def begin(self, name: str, is_idempotent: bool) -> None:
        """Note that this attempt begins a command. Nothing is stored."""
        with self._lock:
            self.carried_out = name
            self.is_repeatable = is_idempotent and self.is_repeatable is not False

    def withdraw(self, key: str) -> None:
        """Withdraw the intent of a command without effect.

        The end of the round stores the change. Intents of earlier attempts remain, because this
        attempt does not know their outcomes.

        Args:
            key: the idempotency key of the command.
        """
        # Intents of earlier attempts stay: this attempt does not know their outcomes.
        with self._lock:
            self._lines = [
                line for line in self._lines if line in self._earlier or not _is_of(key, line)
            ]

    def settle(self, key: str, attempt: int) -> None:
        """Withdraw the intents of all attempts for a command that is known to have done nothing.

        A line about this attempt replaces them at once, because the server lets an attempt withdraw
        only the lines that the same attempt has written.

        Args:
            key: the idempotency key of the command.
            attempt: the number of this attempt.

        Raises:
            RoundStopped: this round has lost its lease.
        """
        with self._lock:
            self._earlier = [line for line in self._earlier if not _is_of(key, line)]
            self.withdraw(key)
            self._lines.append(f"{SETTLED}{key} {attempt}")
            self.stored = self.text
            self.write(self.text)

    def write(self, text: str) -> None:
        """Store this step's lines with the run. Here it does nothing: the runtime's subclass does.

        Args:
            text: all lines of the step.
        """

    def packed(self, name: str, text: str) -> str:
        """Return a result of ``context.once`` in stored form. In this class it is unchanged."""
        return text

    def check_room(self, name: str) -> None:
        """Raise FatalError if the step has recorded as many results as it may (``MOST_RESULTS``).

        Another result could not be recorded, so its effect must not happen.

        Args:
            name: the name of the record. Only results of the same scope (``scope_of``) are counted.
        """
        if not self.has_room(name):
            raise FatalError(
                f"once({name.removeprefix(scope_of(name))!r}, ...): the step has recorded "
                f"{MOST_RESULTS} results, as many as it may; nothing was called. Record one result "
                "for many effects, or return in between"
            )

    def has_room(self, name: str, beside: int = 0) -> bool:
        """Return whether a record of this name would be within the limit of its scope.

        Args:
            beside: the number of further records of this scope for which there must be room.
        """
        scope = scope_of(name)
        count = sum(scope_of(each) == scope for each in list(self.recorded))
        return count + beside < MOST_RESULTS

    def record(self, name: str, text: str) -> str:
        """Store and return a result of ``context.once``.

        If a result is already stored under this name, it remains, and is returned.

        Raises:
            RoundStopped: the run has left this step.
        """
        return self.recorded.setdefault(name, text)


def _is_of(key: str, line: str) -> bool:
    """Return whether a line of the intents is about the command with this idempotency key."""
    return line.partition(" ")[0] in (key, f"{ABOUT}{key}", f"{SETTLED}{key}")
