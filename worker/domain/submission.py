"""Submission: a validated goal with its options, as a new run's hash fields."""

from __future__ import annotations

import hashlib
import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from perdure.flows.core.budgets import check_budgets, check_commands
from perdure.flows.core.errors import InvalidInput, UnstorableValue
from perdure.flows.core.files import File, artifacts_of
from perdure.flows.core.json_values import canonical, storable
from perdure.flows.core.names import suggest
from perdure.worker.domain.execution_state import ExecutionState
from perdure.worker.domain.pauses import pause_between, pause_fields
from perdure.worker.domain.record import (
    CHOSEN,
    EXPOSED,
    FILES,
    LIMITS_AND_PAUSES,
    digest_of,
    version_of,
)
from perdure.worker.domain.settlement import LONGEST
from perdure.worker.domain.value_log import first_values

if TYPE_CHECKING:
    from perdure.flows.core.retry import Retry
    from perdure.worker.domain.fork import Fork
    from perdure.worker.settings import Settings

#: Limit in bytes for labels and thread id together. Every read of the run carries them.
MAX_NAMES_BYTES = 16 * 1024
#: Largest accepted number of seconds. Beyond it, a count of days is meaningless, and a whole number
#: may not fit a float.
FARTHEST = 1e20
#: Field of a run's hash with the beginning of the digest of the submission's arguments, if the
#: caller passed a nonce: a repeated call has the same. It is not part of the run's content. Earlier
#: releases did not store it.
SUBMITTED_AS = "submitted_as"
#: Digits of the digest in this field, which every read of the run carries. They need not resist
#: attacks: a caller's calls are only compared with the caller's own runs.
SUBMITTED_AS_DIGITS = 16
#: Field of a run whose topics have no owner, although it has a submitter: it was not submitted over
#: HTTP, where topics belong to the submitter. Earlier releases did not store it.
PLAIN_TOPICS = "plain_topics"
When = datetime | timedelta | float


@lru_cache(maxsize=64)  # the children of a map begin alike
def _state_fields(node: str, step: int, thread_id: str | None) -> Mapping[str, str]:
    """Return the hash fields of a new run's execution state."""
    return ExecutionState(current_node=node, step=step, thread_id=thread_id).to_fields()


@dataclass(frozen=True)
class Submission:
    """The arguments of ``Client.submit``, with the flow's description.

    Attributes:
        description: The flow as ``fleet.describe`` returns it.
        inputs: The inputs to store, with the flow's defaults if ``checked``.
        checked: Whether the flow's own validation accepted the inputs. If False, the worker
            validates them before the first round, because this client lacks the flow's code.
        given: The inputs as the caller passed them, without the flow's defaults.
        interrupt_before, interrupt_after, max_rounds: None means the flow's own.
        fork: The state that the run takes over if it is a fork. Otherwise None.
        chosen: Names of the limits and pauses to store as CHOSEN. None means those that have a
            value in this submission.
        has_own_topics: Whether topics of the run belong to its submitter, as over HTTP.
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
    topic: str | None = None
    model: str | None = None
    files: tuple[File, ...] = ()
    fork: Fork | None = None
    chosen: Sequence[str] | None = None
    has_own_topics: bool = False

    @property
    def first_values(self) -> str | None:
        """A fork's first named values, as JSON for its first event.

        None if the run is no fork or the fork begins without values.
        """
        return None if self.fork is None else first_values(self.fork.values)

    def fields(self, settings: Settings, task: str, queue: str) -> dict[str, str]:
        """Validate the submission. Return the run's hash fields.

        Args:
            settings: The limits, and the defaults of options that the flow does not set.
            task: The name of the first round's Celery task.
            queue: The name of the first round's queue.

        Raises:
            InvalidInput: The submission is not acceptable. The message says why.
            UnstorableValue: The goal, inputs, labels or thread id are not valid JSON data.
        """
        fields = self.unsealed_fields(settings, task, queue)
        return {**fields, "schema": version_of(fields), "digest": digest_of(fields)}

    def unsealed_fields(self, settings: Settings, task: str, queue: str) -> dict[str, str]:
        """Return the result of ``fields``, but without ``schema`` and ``digest``.

        The caller adds further fields, and then computes these two.

        Raises:
            InvalidInput: The submission is not acceptable. The message says why.
            UnstorableValue: The goal, inputs, labels or thread id are not valid JSON data.
        """
        self._check(settings)
        first = self.first_node
        inputs = storable(dict(self.inputs), "the inputs")
        fields = {
            **_state_fields(first, self.step, self.thread_id),
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
        # Empty options are left out: each field makes every claim of the run slower.
        optional = {
            "labels": labels,
            **{option: self._nodes(option) for option in ("interrupt_before", "interrupt_after")},
        }
        fields |= {name: canonical(value) for name, value in optional.items() if value}
        limit = self.max_rounds if self.max_rounds is not None else self.description["max_rounds"]
        if limit is not None:
            fields["max_rounds"] = str(limit)
        if self.submitted_by is not None:
            fields["submitted_by"] = self.submitted_by
            if not self.has_own_topics:
                fields[PLAIN_TOPICS] = "1"
        if self.on_end is not None:
            fields["on_end"] = self.on_end
        if self.model is not None:
            fields["model"] = self.model
        if self.description.get("expose"):
            fields[EXPOSED] = ",".join(self.description["expose"])
        if self.files:
            fields[FILES] = canonical([each.reference.data for each in self.files])
        timeout = self.description["round_timeout_seconds"] or settings.round_timeout_seconds
        if timeout:
            fields["round_timeout"] = str(_ms(timeout))
        if self.description["lease_seconds"]:
            fields["lease"] = str(_ms(self.description["lease_seconds"]))
        budgets = {**self.description.get("budgets", {}), **check_budgets(self.budgets or {})}
        if "commands" in self.description:  # a worker of an earlier release does not announce them
            check_commands(budgets, self.description["commands"], f"flow {self.flow!r}")
        if budgets:
            fields["budgets"] = canonical(budgets)
        chosen = self._chosen() if self.chosen is None else list(self.chosen)
        if chosen or budgets or any(name in fields for name in LIMITS_AND_PAUSES):
            fields[CHOSEN] = canonical(chosen)
        if self.retry is not None and self.retry.to_data():
            fields["retry"] = canonical(self.retry.to_data())
        pause = pause_between(None, first, self._nodes("interrupt_before"), ())
        if pause is not None:
            fields |= pause_fields(pause) | {"i_id": f"0:{self.step}"}
        if self.fork is not None:
            fields |= self.fork.fields(settings)
        if len(fields["inputs"].encode()) > settings.max_addition_bytes:
            raise InvalidInput(
                f"the inputs take more than {settings.max_addition_bytes} bytes; "
                "pass a reference to large things"
            )
        return fields

    def content(self) -> str:
        """Return a digest of the arguments that the caller passed. For a fork: of its request.

        Two submissions with the same idempotency key are the same submission if their digests are
        equal. The digest does not depend on whether the client has the flow's code.
        """
        if self.fork is not None:
            return hashlib.sha256(canonical(self.fork.asked).encode()).hexdigest()
        try:
            inputs = storable(dict(self.given), "the inputs")
        except UnstorableValue:  # only the flow's own validation turns the value into JSON
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
        if self.budgets:  # Without budgets, the digest must equal that of earlier releases.
            subject["budgets"] = check_budgets(self.budgets)
        if self.retry is not None and self.retry.to_data():
            subject["retry"] = self.retry.to_data()
        if self.on_end is not None:
            subject["on_end"] = self.on_end
        if self.topic is not None:
            subject["topic"] = self.topic
        if self.model is not None:
            subject["model"] = self.model
        if self.files:
            subject["files"] = [
                [each.name, each.media_type, hashlib.sha256(each.content).hexdigest()]
                for each in self.files
            ]
        return hashlib.sha256(canonical(subject).encode()).hexdigest()

    @property
    def artifacts(self) -> dict[str, str]:
        """The new run's artifacts by name, from its files and its fork."""
        artifacts: dict[str, str] = {} if self.fork is None else dict(self.fork.artifacts)
        for file in self.files:
            artifacts |= artifacts_of(file.name, file)
        return artifacts

    @property
    def step(self) -> int:
        """The step at which the run begins: 0, or that of the fork."""
        return 0 if self.fork is None else self.fork.step

    @property
    def first_node(self) -> str:
        """The node of the run's first round."""
        return str(self.description["first"]) if self.fork is None else self.fork.node

    @property
    def interrupted_at_once(self) -> bool:
        """Whether the run pauses for a person before its first round."""
        return self.first_node in self._nodes("interrupt_before")

    def _chosen(self) -> list[str]:
        options = [name for name in LIMITS_AND_PAUSES if getattr(self, name) is not None]
        return options + [f"budgets.{name}" for name in self.budgets or {}]

    def _nodes(self, option: str) -> list[str]:
        nodes = getattr(self, option)
        return list(self.description[option] if nodes is None else nodes)

    def _check(self, settings: Settings) -> None:
        if not isinstance(self.goal, str):
            raise InvalidInput(f"goal: expected a text, got {type(self.goal).__name__}")
        storable(self.goal, "the goal")
        size = len(self.goal.encode())
        if size > settings.max_goal_bytes:
            raise InvalidInput(
                f"the goal takes {size} bytes; the limit is {settings.max_goal_bytes} "
                "(max_goal_bytes). Put the long part into a file or an input"
            )
        for option in ("interrupt_before", "interrupt_after"):
            for node in self._nodes(option):
                if node not in self.description["nodes"]:
                    raise InvalidInput(
                        f"{option} names {node!r}; flow {self.flow!r} has the nodes "
                        f"{', '.join(self.description['nodes'])}"
                    )
        allowed = self.description.get("allowed_models", [])
        if self.model is not None and self.model not in allowed:
            raise InvalidInput(
                f"model: flow {self.flow!r} does not allow the model {self.model!r}; "
                f"{suggest(self.model, allowed)}"
                if allowed
                else f"model: flow {self.flow!r} allows no choice of models, so {self.model!r} "
                "cannot be chosen; its allowed_models would name those that can"
            )
        if self.max_rounds is not None and (
            type(self.max_rounds) is not int or self.max_rounds < 1
        ):
            raise InvalidInput(
                "max_rounds: expected a whole number from 1, or None for the flow's own; "
                f"got {self.max_rounds!r}"
            )
        names = len(
            canonical(
                storable([self.thread_id, dict(self.labels)], "the labels and the thread id")
            ).encode()
        )
        if names > MAX_NAMES_BYTES:
            raise InvalidInput(
                f"labels and thread id take {names} bytes; the limit is {MAX_NAMES_BYTES}. "
                "Put long values into an input"
            )
        for name, text in self.labels.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise InvalidInput(
                    f"labels: expected a text for each name, got {text!r} for {name!r}"
                )


def from_now(when: When | None, what: str, now: float) -> int | None:
    """Return the ms from ``now`` until a start time or deadline.

    Args:
        when: A datetime, a timedelta, or a number. A number up to LONGEST (ten years in seconds) is
            a duration in seconds. A larger number is a time in seconds since 1970.
        what: The name of the time in an error.
        now: The present time in seconds since 1970.

    Returns:
        The ms, negative for a time in the past. None if ``when`` is None.

    Raises:
        InvalidInput: ``when`` is a datetime without a time zone, more than LONGEST ahead, or not a
            time.
    """
    if when is None:
        return None
    duration = _duration(when, what, now)
    if duration > LONGEST:
        raise InvalidInput(
            f"{what} is {duration / 86_400:.0f} days ahead; the limit is "
            f"{LONGEST / 86_400:.0f} days"
        )
    return _ms(duration)


def is_duration(when: When | None) -> bool:
    """Return whether a start time or deadline is a duration from now, and not a time."""
    return isinstance(when, timedelta) or (isinstance(when, int | float) and when <= LONGEST)


def _as_given(when: When | None) -> list[Any] | None:
    """Return a submission's time as JSON data for the digest. None stays None.

    A repeated call must give equal data. So a duration is not converted to a time, and a time does
    not depend on its time zone.
    """
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
            raise InvalidInput(
                f"{what} is {when.isoformat()} without a time zone; use an aware datetime, "
                "or a timedelta"
            )
        return when.timestamp() - now
    if (
        isinstance(when, bool)
        or not isinstance(when, int | float)
        or not abs(when) < math.inf
        or abs(when) > FARTHEST
    ):
        raise InvalidInput(
            f"{what}: expected an aware datetime, a timedelta or seconds since 1970; "
            f"got {reprlib.repr(when)}"
        )
    return when - now if when > LONGEST else when


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
