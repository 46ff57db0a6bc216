"""Submission: a goal and its options, checked and completed, as the fields of a new run."""

from __future__ import annotations

import hashlib
import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from flows.budgets import check_budgets
from flows.errors import InvalidInput, UnstorableValue
from flows.retries import Retry
from flows.values import canonical, storable
from worker.execution_state import ExecutionState
from worker.gate import pause_between
from worker.record import digest_of, version_of
from worker.settings import Settings
from worker.transitions import LONGEST, pause_fields

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,199}")
#: Ends of the keys beside a run's hash: an id that ends so would be another run's key.
OWN_KEYS = (":memory", ":events", ":artifacts")
#: Bytes that labels and thread id may take together; every look at the run carries them.
MAX_NAMES_BYTES = 16 * 1024
#: Seconds beyond which even the number of days says nothing (and a whole number may be no float).
FARTHEST = 1e20
When = datetime | timedelta | float


@dataclass(frozen=True)
class Submission:
    """What ``Client.submit`` was asked for, with the flow's description (see ``announcement.describe``).

    ``checked`` says whether the inputs passed the flow's own validation; without the flow's code they have not yet.
    ``given`` are the inputs as the caller gave them, without the flow's defaults.
    """

    flow: str
    description: Mapping[str, Any]
    goal: str
    inputs: Mapping[str, Any]
    checked: bool = True
    interrupt_before: Sequence[str] | None = None
    interrupt_after: Sequence[str] | None = None
    max_rounds: int | None = None
    thread_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    not_before: When | None = None
    deadline: When | None = None
    budgets: Mapping[str, float] | None = None
    retry: Retry | None = None
    submitted_by: str | None = None
    on_end: str | None = None

    def fields(self, settings: Settings, task: str, queue: str) -> dict[str, str]:
        """The hash fields of the new run; raises InvalidInput where something cannot be accepted."""
        self._check(settings)
        first = self.description["first"]
        state = ExecutionState(current_node=first, thread_id=self.thread_id)
        inputs = storable(dict(self.inputs), "the inputs")
        fields = {
            **state.to_fields(),
            "flow": self.flow,
            "goal": self.goal,
            "inputs": canonical(inputs),
            "inputs_checked": "1" if self.checked else "0",
            "cycles": "0",
            "turns": "0",
            "task": task,
            "queue": queue,
            "resend": str(_ms(settings.resend_seconds)),
            "retention": str(_ms(settings.retention * 86_400)),
        }
        labels = storable(dict(self.labels), "the labels")
        # Nothing is what is not there: each field costs every claim of the run its time.
        optional = {"labels": labels, **{option: self._nodes(option) for option in ("interrupt_before", "interrupt_after")}}
        fields |= {name: canonical(value) for name, value in optional.items() if value}
        limit = self.max_rounds if self.max_rounds is not None else self.description["max_rounds"]
        if limit is not None:
            fields["max_rounds"] = str(limit)
        if self.submitted_by is not None:
            fields["submitted_by"] = self.submitted_by
        if self.on_end is not None:
            fields["on_end"] = self.on_end
        timeout = self.description["round_timeout_seconds"] or settings.round_timeout_seconds
        if timeout:
            fields["round_timeout"] = str(_ms(timeout))
        if self.description["lease_seconds"]:
            fields["lease"] = str(_ms(self.description["lease_seconds"]))
        budgets = {**self.description.get("budgets", {}), **check_budgets(self.budgets or {})}
        if budgets:
            fields["budgets"] = canonical(budgets)
        if self.retry is not None and self.retry.to_data():
            fields["retry"] = canonical(self.retry.to_data())
        pause = pause_between(None, first, self._nodes("interrupt_before"), ())
        if pause is not None:
            fields |= pause_fields(pause) | {"i_id": "0:0"}
        if len(fields["inputs"].encode()) > settings.max_addition_bytes:
            raise InvalidInput(f"the inputs take more than {settings.max_addition_bytes} bytes; pass a reference to large things")
        return {**fields, "schema": version_of(fields), "digest": digest_of(fields)}

    def content(self) -> str:
        """Digest of what the caller gave, to tell a repeated submission from another one under the same key.

        It is the same from clients with and without the flow's code, and whenever the same call is made.
        """
        try:
            inputs = storable(dict(self.given), "the inputs")
        except UnstorableValue:  # a value that only the flow's own validation makes JSON of
            inputs = dict(self.inputs)
        subject: dict[str, Any] = {
            "flow": self.flow,
            "goal": self.goal,
            "inputs": inputs,
            "options": [
                None if self.interrupt_before is None else list(self.interrupt_before),
                None if self.interrupt_after is None else list(self.interrupt_after),
                self.max_rounds,
                self.thread_id,
                dict(self.labels),
                _as_given(self.not_before),
                _as_given(self.deadline),
            ],
        }
        if self.budgets:  # what was submitted without any has the digest that it always had
            subject["budgets"] = check_budgets(self.budgets)
        if self.retry is not None and self.retry.to_data():
            subject["retry"] = self.retry.to_data()
        if self.on_end is not None:
            subject["on_end"] = self.on_end
        return hashlib.sha256(canonical(subject).encode()).hexdigest()

    @property
    def interrupted_at_once(self) -> bool:
        """Whether a person wants to look before the first round."""
        return self.description["first"] in self._nodes("interrupt_before")

    def _nodes(self, option: str) -> list[str]:
        given = getattr(self, option)
        return list(self.description[option] if given is None else given)

    def _check(self, settings: Settings) -> None:
        if not isinstance(self.goal, str):
            raise InvalidInput(f"the goal should be a text, it is a {type(self.goal).__name__}")
        storable(self.goal, "the goal")
        size = len(self.goal.encode())
        if size > settings.max_goal_bytes:
            raise InvalidInput(
                f"the goal takes {size} bytes, at most {settings.max_goal_bytes} are accepted (max_goal_bytes); "
                "put the long part into a file or an input"
            )
        for option in ("interrupt_before", "interrupt_after"):
            for node in self._nodes(option):
                if node not in self.description["nodes"]:
                    raise InvalidInput(f"{option} names {node!r}; flow {self.flow!r} has the nodes {', '.join(self.description['nodes'])}")
        if self.max_rounds is not None and (type(self.max_rounds) is not int or self.max_rounds < 1):
            raise InvalidInput(f"max_rounds should be a whole number from 1, or None for the flow's own; it is {self.max_rounds!r}")
        names = len(canonical(storable([self.thread_id, dict(self.labels)], "the labels and the thread id")).encode())
        if names > MAX_NAMES_BYTES:
            raise InvalidInput(f"labels and thread id take {names} bytes, at most {MAX_NAMES_BYTES} are accepted; put more into an input")
        for name, text in self.labels.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise InvalidInput(f"labels are texts by name; {name!r} is {text!r}")


def from_now(when: When | None, what: str, now: float) -> int | None:
    """``when`` as a duration from ``now`` (seconds since 1970), in ms; numbers below ten years are durations already.

    Raises:
        InvalidInput: a datetime without a time zone, or not a time at all.
    """
    if when is None:
        return None
    duration = _duration(when, what, now)
    if duration > LONGEST:
        raise InvalidInput(f"{what} lies {duration / 86_400:.0f} days ahead; at most {LONGEST / 86_400:.0f} are possible")
    return _ms(duration)


def _as_given(when: When | None) -> list[Any] | None:
    """The time as the same call gives it again: a duration stays one, and a moment is the same in every time zone."""
    if when is None:
        return None
    if isinstance(when, datetime):
        return ["at", _ms(when.timestamp())]
    seconds = when.total_seconds() if isinstance(when, timedelta) else when
    return ["at" if seconds > LONGEST else "in", _ms(seconds)]


def _duration(when: When, what: str, now: float) -> float:
    if isinstance(when, timedelta):
        return when.total_seconds()
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise InvalidInput(f"{what} is {when.isoformat()} without a time zone; use an aware datetime, or a timedelta")
        return when.timestamp() - now
    if isinstance(when, bool) or not isinstance(when, int | float) or not abs(when) < math.inf or abs(when) > FARTHEST:
        raise InvalidInput(f"{what} should be an aware datetime, a timedelta or seconds since 1970; it is {reprlib.repr(when)}")
    return when - now if when > LONGEST else when


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
