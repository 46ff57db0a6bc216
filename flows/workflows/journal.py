"""The journal of a workflow: results of its steps, questions and waits, as turns of the run.

An entry is a turn. Its command has the entry's key as its name, and its observation has the result
or the error. When the function is run again, it gets these results from its journal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from perdure.flows.core.errors import CodeDoesNotFit, FatalError, PerdureError, text_of
from perdure.flows.core.json_values import canonical
from perdure.flows.core.outcomes import Command, Turn
from perdure.flows.core.round_journal import SCOPE
from perdure.flows.core.summaries import safe_text
from perdure.flows.workflows.arguments import INCOMPARABLE

Kind = Literal["step", "ask", "sleep", "signal", "child", "children", "now", "patched", "listen"]
#: Kinds of entries that the function does not wait for. It may request them in any order.
MARKS = ("now", "patched", "listen")
#: Begins the key of the mark of a topic that another run holds (``listen``).
REFUSED = "refused."
#: Begins the key of the entry of a change whose new code the run takes (``patched``).
PATCHED = "patched."
#: Separates, in the digest of a map, the digest of its items in their order from that of its items
#: in any order.
ANY_ORDER = "."
#: The types of JSON data that a function could change.
CONTAINERS = (dict, list)
#: Bytes of a result, as JSON, in the history. A longer one is kept as an artifact.
LONGEST = 65_536


class StepFailed(PerdureError):
    """Raised when a step of a workflow failed and is not retried. The function may catch it.

    Attributes:
        step: the name of the step.
        error: the name of the exception's class, such as ``ValueError``.
        reason: the exception's message.
    """

    code = "step-failed"

    def __init__(self, message: str, step: str = "", error: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.step, self.error, self.reason = step, error, reason

    @classmethod
    def of(cls, step: str, error: str, reason: str) -> StepFailed:
        """Return the error for a step that raised an exception."""
        told = f"{error}: {reason}" if reason else error
        return cls(f"step {step} failed: {told}", step, error, reason)


class Diverged(CodeDoesNotFit):
    """Raised when a workflow's function makes other requests than its journal has.

    Most often the code was changed while the run was live (``CodeDoesNotFit``).
    """

    code = "diverged"


@dataclass(slots=True)  # Not frozen: see requests.py.
class JournalEntry:
    """One entry of the journal.

    Attributes:
        key: the name of the request, with a number from the second request of this name on.
        kind: the kind of the request.
        result: JSON data. None if the request failed.
        error: the class and the message of the exception. None if the request did not fail.
        args: the arguments of a step by name, cut short, for people who read the history.
        cause: the exception, in the process in which it was raised. The function does not see it,
            because it is not in the journal.
        of: the digest of the arguments, or INCOMPARABLE. Empty in an entry of an older release.
            That of a map has two parts (``ordered_digest``, ``any_order_digest``).
    """

    key: str
    kind: Kind = "step"
    result: Any = None
    error: tuple[str, str] | None = None
    args: Mapping[str, Any] | None = None
    cause: BaseException | None = field(default=None, compare=False)
    of: str = ""

    @classmethod
    def failed(
        cls,
        key: str,
        kind: Kind,
        error: BaseException,
        args: Mapping[str, Any] | None = None,
        of: str = "",
    ) -> JournalEntry:
        """Return the entry for an exception."""
        told = type(error).__name__, safe_text(text_of(error), 4000)
        return cls(key, kind, None, told, args, error, of)

    def told(self) -> dict[str, Any]:
        """Return the entry as data, for a record that is made before the round's commit."""
        return {"kind": self.kind, "of": self.of or INCOMPARABLE, **self._outcome(self.result)}

    def turn(self, artifact: str) -> tuple[Turn, dict[str, str]]:
        """Return the entry as a turn of the history, and the artifact of a long result.

        Args:
            artifact: the name of the artifact for a long result.

        Returns:
            The turn, and a dict: the artifact's text by its name, or empty if the result is short.
        """
        text = canonical(self.result)
        kept = {artifact: text} if len(text.encode()) > LONGEST else {}
        outcome = {"artifact": artifact} if kept else self._outcome(self.result)
        facts = {"of": self.of or INCOMPARABLE}
        if self.kind != "step":
            facts["kind"] = self.kind
        return Turn(Command(self.key, dict(self.args or {})), {**facts, **outcome}), kept

    def _outcome(self, result: Any) -> dict[str, Any]:
        if self.error is not None:
            return {"error": {"type": self.error[0], "message": self.error[1]}}
        return {"result": result}

    def unpack(self) -> Any:
        """Return a copy of the result. If the entry is an error, raise it.

        The function may change the copy, and the journal must not change with it.

        Raises:
            StepFailed: the entry is an error.
        """
        if self.error is not None:
            raise StepFailed.of(self.key, *self.error)
        result = self.result
        return as_stored(result) if isinstance(result, CONTAINERS) else result


def ordered_digest(of: str) -> str:
    """Return the digest of a request's arguments. The order of the items of a map counts."""
    return of.partition(ANY_ORDER)[0]


def any_order_digest(of: str) -> str:
    """Return the digest of the items of a map in any order. Empty for all other requests."""
    return of.partition(ANY_ORDER)[2]


def as_stored(value: Any) -> Any:
    """Return a copy of JSON data in the key order of storage.

    A function that iterates over the result of a step then takes the same path in each process.
    """
    if isinstance(value, dict):
        return {key: as_stored(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [as_stored(each) for each in value]
    return value


def entry_of(key: str, told: Any, artifact: Callable[[str], str]) -> JournalEntry:
    """Return the entry recorded or committed under a key.

    Args:
        told: the recorded data, or the observation of the turn.
        artifact: returns the text of an artifact of the run by its name.

    Raises:
        FatalError: ``told`` is not an entry.
    """
    if type(told) is dict and "result" in told:  # as most are; a pattern takes longer
        return JournalEntry(key, told.get("kind", "step"), told["result"], of=told.get("of", ""))
    match told:
        case {"error": {"type": str(name), "message": str(message)}}:
            kind, of = told.get("kind", "step"), told.get("of", "")
            return JournalEntry(key, kind, None, (name, message), of=of)
        case {"artifact": str(name)}:
            kind, of = told.get("kind", "step"), told.get("of", "")
            return JournalEntry(key, kind, json.loads(artifact(name)), of=of)
    raise FatalError(
        f"the history has a turn {key!r} that is not an entry of a workflow's journal: "
        f"{str(told)[:200]}. Was the run submitted to another flow of this name?"
    )


def journal_of(history: Sequence[Turn], artifact: Callable[[str], str]) -> list[JournalEntry]:
    """Return the journal from a run's history, oldest entry first.

    Args:
        artifact: returns the text of an artifact of the run by its name.

    Raises:
        FatalError: a turn is not an entry.
    """
    return [
        entry_of(turn.command.name, turn.observation, artifact)
        for turn in history[:]
        if turn.command is not None
    ]


def settle_future(future: asyncio.Future[Any], entry: JournalEntry) -> None:
    """Set a future to an entry's result or error."""
    if entry.error is None:
        future.set_result(entry.unpack())
        return
    try:
        entry.unpack()
    except Exception as error:
        future.set_exception(error)


def name_of(key: str) -> str:
    """Return the name of a step or a wait, without its number."""
    name, _, number = key.rpartition(".")
    return name if name and number.isdecimal() else key


def name_of_mark(what: str) -> str:
    """Return the name under which a round records a mark before its commit.

    Results of ``context.once`` never have such a name, and the limits of ``context.once`` do not
    apply to marks.
    """
    return f"~{what}{SCOPE}"


def is_time(told: Any) -> bool:
    """Return whether this is a text of a time with a zone, as ``steps.now`` records it."""
    try:
        return isinstance(told, str) and datetime.fromisoformat(told).tzinfo is not None
    except ValueError:
        return False


def listed(keys: Sequence[str]) -> str:
    """Return the last keys as a text, for messages."""
    most = 12
    before = "..., " if len(keys) > most else ""
    return before + (", ".join(keys[-most:]) or "nothing")
