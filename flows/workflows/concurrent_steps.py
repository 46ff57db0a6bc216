"""Contexts, mailboxes and time limits of steps that a workflow's round carries out concurrently.

Each step has its own context with its records, values, spending, facts, signals and time limit. The
round merges the contexts when all steps are done.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from time import monotonic
from typing import Any

from perdure.flows.core.cancellation import CancelToken, Signals
from perdure.flows.core.errors import FatalError, UnstorableValue
from perdure.flows.core.files import data_of, file_from
from perdure.flows.core.json_values import canonical
from perdure.flows.core.live_text import LiveText
from perdure.flows.core.round_journal import MOST_RESULTS, SCOPE, SPENT, Journal, with_spent
from perdure.flows.rounds.context import RoundContext, altered
from perdure.flows.rounds.wait_arguments import checked_signal
from perdure.flows.rounds.waits import Mailbox, ReceivedSignal
from perdure.flows.workflows.begun import (
    FAILED,
    WHOLE,
    is_of_step,
    name_of_failure,
    scope_of_retry,
)
from perdure.flows.workflows.journal import JournalEntry, entry_of
from perdure.flows.workflows.requests import StepRequest

#: Fields of a step's record with the changes that the step made to its context.
REMEMBERED, TOLD, REPLIES = "~remembered", "~told", "~replies"
#: Field of a step's record with the files that the step attached, by their names in the run.
FILES = "~files"
#: Characters of a part of a record. As JSON, a part takes less than the 16 MiB of a record.
PART = 2_000_000


class Sibling:
    """One of several concurrent steps, with its own context.

    Attributes:
        step: the step's request.
        context: the step's view of the round.
        mailbox: the step's view of the run's signals.
        keys: the keys of all steps that are carried out at the same time.
        is_unchecked: whether an earlier attempt recorded that the step failed, but its effect may
            have happened.
    """

    is_unchecked = False

    def __init__(
        self, step: StepRequest, context: RoundContext, lock: threading.RLock, keys: Set[str]
    ) -> None:
        self.step, self.keys, self._round = step, keys, context
        scope = f"{step.key}{SCOPE}"
        self.mailbox = SiblingMailbox(context.mailbox, context.journal, scope, lock)
        self.context = altered(
            context,
            scope=scope,
            mailbox=self.mailbox,
            live_text=_PartOf(context.live_text, step.key),
            signals=StepSignals(context.signals),
            spent={},
            told={},
            traced={},
            remembered={},
            attaching=[],
        )

    def with_beside(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record of the step: its result, and the changes that it made to its context.

        A later attempt of the round reads it (``take_over``), and does not carry the step out.

        Args:
            told: the step's entry as data (``JournalEntry.told``).
        """
        context = self.context
        replies = [[name, number, text] for (name, number), text in self.mailbox.replies.items()]
        beside = {REMEMBERED: context.remembered, TOLD: context.told, REPLIES: replies}
        return {
            **with_spent(told, context.attempt, context.spent),
            **{name: value for name, value in beside.items() if value},
        }

    def with_files(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record of the step with the files that the step attached.

        Otherwise only the commit of the round would store them.
        """
        context = self.context
        return {
            **told,
            FILES: {name: data_of(context.attached[name]) for name in context.attaching},
        }

    def take_over(self, told: Mapping[str, Any]) -> None:
        """Restore a step's changes to its context from the record of an earlier attempt."""
        for name, file in told.get(FILES, {}).items():
            self.context.attached[name] = file_from(file)
            self.context.attaching.append(name)
        self.context.remembered.update(told.get(REMEMBERED, {}))
        self.context.told.update(told.get(TOLD, {}))
        replies = {(name, number): text for name, number, text in told.get(REPLIES, ())}
        self.mailbox.replies = {**replies, **self.mailbox.replies}

    def entry_recorded(self) -> JournalEntry | None:
        """Return the step's entry that an earlier attempt has recorded. None if there is none.

        The changes that the step made to its context are restored, too (``take_over``).
        """
        step, context = self.step, self.context
        failures = self._names_of_failure()
        for name in (step.key, f"{WHOLE}{step.key}", *failures):
            if is_of_step(told := self._round.recorded(name)):
                told = self._whole(told)
                self.take_over(told)
                self.is_unchecked = name in failures and not step.idempotent
                return entry_of(step.key, told, context.artifact)
        return None

    def _names_of_failure(self) -> tuple[str, ...]:
        """Return the names that the record of a step's failure may have, the preferred one first.

        A retry of the run by a person tries a failed step again, so its failure gets another name.
        Workers of older releases read only the first name. Failures before earlier retries may have
        left no room for it. The second name has its own scope for each retry. Before the first
        retry there is only the first name.
        """
        name = name_of_failure(self.step.key, self.context)
        older = f"{SCOPE}{name}" if name in self.keys or self._is_taken(name) else name
        scope = scope_of_retry(FAILED, self.context)
        return (older, f"{scope}{name}") if scope else (older,)

    def _is_taken(self, name: str) -> bool:
        """Return whether the function of an older release recorded something else by this name."""
        recorded = self.context.journal.recorded
        return name in recorded and not is_of_step(self._round.recorded(name))

    def _name_of_failure(self) -> str:
        preferred, *scoped = self._names_of_failure()
        has_room = self.context.journal.has_room(preferred, beside=len(self.keys))
        return scoped[0] if scoped and not has_room else preferred

    def record(self, entry: JournalEntry) -> JournalEntry:
        """Record the step's entry before its round's commit, and return the recorded entry.

        An entry that is too large to be recorded is returned unchanged.
        """
        step, context = self.step, self.context
        told = self.with_beside(entry.told())
        name = step.key if entry.error is None else self._name_of_failure()
        if entry.error is None and context.attaching:
            # Workers of older releases would read the result without its files.
            name, told = f"{WHOLE}{step.key}", self.with_files(told)
        elif entry.error is None and name in context.journal.recorded:
            name = f"{WHOLE}{step.key}"  # The function of an older release recorded something else.
        try:
            text = context.journal.record(name, canonical(told))
        except UnstorableValue:
            if (short := self._in_parts(told)) is None:
                return entry  # Too large to be recorded. The commit keeps it as an artifact.
            # Workers of older releases would not put the parts of a result together. Of a failure
            # they read the error.
            name = f"{WHOLE}{step.key}" if entry.error is None else name
            text = context.journal.record(name, canonical(short))
        recorded = self._whole(json.loads(text))
        return replace(entry_of(step.key, recorded, context.artifact), args=entry.args)

    def _in_parts(self, told: Mapping[str, Any]) -> dict[str, Any] | None:
        """Record a step's entry in parts, and return the record that stands for it.

        None if the entry has more parts than a step can record. Then nothing is recorded.
        """
        text, journal = canonical(told), self.context.journal
        parts = [text[start : start + PART] for start in range(0, len(text), PART)]
        if len(parts) > MOST_RESULTS:
            return None
        names = [self._name_of_part(number) for number in range(len(parts))]
        for name, part in zip(names, parts, strict=True):
            journal.record(name, canonical(part))
        # What the record says beside the result stays readable (``spent_by_lost``).
        beside = {name: told[name] for name in ("kind", "of", "error", SPENT) if name in told}
        return {**beside, "parts": names}

    def _name_of_part(self, number: int) -> str:
        """Return the name of a part.

        Each attempt of the round has its own parts, and its own limit of them: the parts of a lost
        attempt stay recorded.
        """
        return f"~part {self.step.key} {self.context.attempt}{SCOPE}{number}"

    def _whole(self, told: Any) -> Any:
        """Return a recorded entry. If it was recorded in parts, put them together."""
        if not (isinstance(told, dict) and "parts" in told):
            return told
        recorded = self.context.journal.recorded
        return json.loads("".join(json.loads(recorded[name]) for name in told["parts"]))


def put_together(context: RoundContext, siblings: Sequence[Sibling]) -> None:
    """Merge the contexts of several steps into the context of their round, in order."""
    for each in siblings:
        context.spend(**each.context.spent)
        context.told.update(each.context.told)
        context.remembered.update(each.context.remembered)
        context.attaching.extend(each.context.attaching)
        replies = context.mailbox.replies
        context.mailbox.replies = {**each.mailbox.replies, **replies}
    if siblings and (taken := _taken(context.journal)):
        context.mailbox.used = {**context.mailbox.used, **taken}


class StepSignals(Signals):
    """The cancel token of a step: it is cancelled with its round, or by its own time limit.

    Attributes:
        is_late: whether the step took longer than its time limit.
    """

    def __init__(self, of_round: Signals) -> None:
        self.of_round, self.is_late = of_round, False
        self._cancelled = CancelToken()

    @property
    def stop_requested(self) -> bool:  # type: ignore[override]
        """Whether a stop of the run was requested."""
        return self.of_round.stop_requested

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """The last progress report of the round or its steps. None: there was no report yet."""
        return self.of_round.progress

    @progress.setter
    def progress(self, report: Mapping[str, Any] | None) -> None:
        self.of_round.progress = report


#: Seconds between two checks whether a round was cancelled or a step has timed out.
POLL_SECONDS = 0.05


class TimeLimits:
    """A context manager that cancels steps that time out or whose round is cancelled.

    Args:
        steps: the steps, each with its context.
    """

    def __init__(self, steps: Sequence[tuple[StepRequest, RoundContext]]) -> None:
        self._steps = [
            (step.timeout, context.signals)
            for step, context in steps
            if isinstance(context.signals, StepSignals)
        ]
        self._watcher: tuple[threading.Thread, threading.Event] | None = None

    def __enter__(self) -> None:
        if self._steps:
            are_done = threading.Event()
            thread = threading.Thread(
                target=self._watch, args=(are_done,), name="perdure-step-limits"
            )
            self._watcher = thread, are_done
            thread.start()

    def __exit__(self, *raised: object) -> None:
        if self._watcher is not None:
            thread, are_done = self._watcher
            are_done.set()
            thread.join()

    def _watch(self, are_done: threading.Event) -> None:
        began = monotonic()
        while not are_done.wait(POLL_SECONDS):
            late = monotonic() - began
            for limit, signals in self._steps:
                if signals.is_cancelled:
                    continue
                if signals.of_round.is_cancelled:
                    signals.cancelled.set()
                elif limit is not None and late >= limit:
                    signals.is_late = True
                    signals.cancelled.set()


class _PartOf(LiveText):
    """The live text of a step. The step's key separates its texts from those of other steps."""

    def __init__(self, shared: LiveText, key: str) -> None:
        self._shared, self._key = shared, key

    def write(self, text: str, kind: str, part: str) -> None:
        """Show a piece of the step's text, as ``LiveText.write`` does."""
        self._shared.write(text, kind, f"{self._key}.{part}" if part else self._key)


class SiblingMailbox(Mailbox):
    """The mailbox of a run for one of several concurrent steps.

    A signal goes to one step. The step records the signal at once, so another attempt of the step
    gets the same signal, and no other step does.
    """

    def __init__(
        self, shared: Mailbox, journal: Journal, scope: str, lock: threading.RLock
    ) -> None:
        super().__init__(journal)
        self._shared, self._scope, self._both = shared, scope, lock
        self._count: dict[str, int] = {}

    @property
    def where(self) -> str:
        """The run and the step, for error messages."""
        return self._shared.where

    def hook(self, name: str) -> str:
        """Return the address of a hook of the run."""
        with self._both:
            return self._shared.hook(name)

    def listen(self, topic: str) -> None:
        """Take a topic for the run. Signals to the topic then reach it."""
        with self._both:
            self._shared.listen(topic)

    def take(self, name: str) -> ReceivedSignal | None:
        """Return the next signal of this name that no step has taken, or None."""
        checked_signal(name)
        with self._both:
            count = self._count.get(name, 0) + 1
            own = f"{self._scope}{TAKEN}{name} {count}"
            recorded = self._journal.recorded.get(own)
            if recorded is not None:
                found = self._shared.next_after(name, json.loads(recorded) - 1)
            else:
                found = self._shared.next_after(name, _taken(self._journal).get(name, 0))
                if found is not None:
                    self._journal.record(own, str(found.number))
            self._count[name] = count if found is not None else count - 1
            return found

    def wait_for(
        self, signals: Sequence[str], timeout: Any, name: str | None
    ) -> ReceivedSignal | None:
        """Raise FatalError: a step holds a worker, so it must not wait."""
        raise FatalError(
            f"{self.where}: a step waits for the signal {' or '.join(signals)}. Steps that are "
            "carried out at the same time must not wait. Use context.take, or steps.wait_for in "
            "the function of the workflow"
        )


#: Prefix, after the step's scope, of the names of records of signals that the step has taken.
TAKEN = "~take "


def _taken(journal: Journal) -> dict[str, int]:
    """Return the highest number among the signals that steps have taken, by the signal's name."""
    taken: dict[str, int] = {}
    for key, text in list(journal.recorded.items()):
        _, is_taken, rest = key.partition(f"{SCOPE}{TAKEN}")
        if is_taken:
            name = rest.partition(" ")[0]
            taken[name] = max(taken.get(name, 0), json.loads(text))
    return taken
