"""ExecutionState: the state of a run as pure data with small rules. It does no I/O.

Each attribute has its own field in the run's hash (``to_fields``, ``from_fields``), so that a
transition does not touch the other fields. So a stop request and a round's result never overwrite
each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NoReturn

from pydantic import BaseModel, ConfigDict, Field

from perdure.flows.core.errors import UnstorableValue
from perdure.flows.core.json_values import canonical, storable

#: Names for the point before a run's first node and after its last. No flow may use them for a
#: node.
START: Final = "__start__"
END: Final = "__end__"


class ExecutionStatus(Enum):
    """Activity of a run.

    A stopped run is ``INTERRUPTED_AFTER`` too. Only its stop request shows that it is stopped.
    """

    RUNNING = "running"
    INTERRUPTED_BEFORE = "interrupted_before"
    INTERRUPTED_AFTER = "interrupted_after"
    COMPLETED = "completed"
    ERROR = "error"


class StopRequestStatus(Enum):
    """Progress of a stop: not requested, requested, or the run has stopped."""

    NONE = "none"
    STOP_REQUESTED = "stop_requested"
    STOPPED = "stopped"


#: Values that ``is_plain`` accepts: the values of both enums, and steps of at most 15 digits.
STATUSES = frozenset(status.value for status in ExecutionStatus)
STOPS = frozenset(status.value for status in StopRequestStatus)
STEP = re.compile("0|[1-9][0-9]{0,14}")


class ExecutionState(BaseModel):
    """State of a run: its current node, step, status, open interrupt and stop request.

    The methods follow the specification that Perdure began with, and are kept for programs that use
    them. Perdure itself uses the fields and the conversions only.

    Pydantic validates every assignment on its own (``pydantic.ValidationError``, a ValueError). No
    rule spans two fields, because transitions change them one after the other.

    Attributes:
        current_node: Node that runs next.
        step: Number of committed rounds, from 0.
        status: Activity of the run.
        interrupted_node, interrupt_reason, interrupt_data: The open interrupt, or None.
        thread_id: The caller's name for the conversation this run belongs to.
        stop_current_execution: Progress of a stop request.
        internal_data: The engine's own JSON. ``error`` is the text of the error that ended the run.
    """

    # By default pydantic writes NaN as null, a silent loss of data. "constants" keeps it.
    model_config = ConfigDict(validate_assignment=True, ser_json_inf_nan="constants")

    current_node: str
    step: int = Field(default=0, ge=0)
    status: ExecutionStatus = ExecutionStatus.RUNNING
    interrupted_node: str | None = None
    interrupt_reason: str | None = None
    interrupt_data: dict[str, Any] | None = None
    thread_id: str | None = None
    stop_current_execution: StopRequestStatus = StopRequestStatus.NONE
    internal_data: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExecutionState:
        """Build the state of a run from a record that ``to_dict`` returned.

        Records that call the internal data ``_internal_data`` are accepted too. If both spellings
        are present, they are merged and ``internal_data`` wins.

        Args:
            data: The record. Absent fields take their defaults, unknown ones are ignored.

        Raises:
            KeyError: ``current_node`` is missing.
            ValueError: A field has an impossible value.
        """
        record = {name: data[name] for name in cls.model_fields if name in data}
        record["current_node"] = data["current_node"]
        internal: dict[str, Any] = {}
        for name in ("_internal_data", "internal_data"):
            part = data.get(name, {})
            if not isinstance(part, Mapping):
                raise ValueError(f"{name}: expected an object, got {part!r:.80}")
            internal.update(part)
        return cls.model_validate({**record, "internal_data": internal})

    def to_dict(self) -> dict[str, Any]:
        """Return the run's state as JSON data, from which ``from_dict`` builds an equal state."""
        return self.model_dump(mode="json")

    def set_interrupt(
        self, node: str, reason: str, status: ExecutionStatus, data: dict[str, Any] | None = None
    ) -> None:
        """Mark the run as interrupted at ``node``.

        ``status`` says whether it pauses before or after the node.

        Raises:
            ValueError: A value is invalid. None of the four fields is changed then.
        """
        pause = {
            "interrupted_node": node,
            "interrupt_reason": reason,
            "interrupt_data": data,
            "status": status,
        }
        checked = type(self).model_validate({**dict(self), **pause})
        for name in pause:
            setattr(self, name, getattr(checked, name))

    def clear_interrupt(self) -> None:
        """Remove the run's interrupt.

        The run is marked as running, unless it has completed or errored.
        """
        self.interrupted_node = None
        self.interrupt_reason = None
        self.interrupt_data = None
        if self.status not in (ExecutionStatus.COMPLETED, ExecutionStatus.ERROR):
            self.status = ExecutionStatus.RUNNING

    def is_interrupted(self) -> bool:
        """Return whether the run is paused before or after a node.

        True, too, for a run that was stopped while it was paused there.
        """
        return self.status in (
            ExecutionStatus.INTERRUPTED_BEFORE,
            ExecutionStatus.INTERRUPTED_AFTER,
        )

    def advance_step(self) -> None:
        """Increment the run's step, the number of its committed rounds."""
        self.step += 1

    def set_current_node(self, node: str) -> None:
        """Set the node of the flow that the run executes next."""
        self.current_node = node

    def complete(self) -> None:
        """Mark the run as completed, and drop the error of an earlier attempt.

        The run's events keep that error.
        """
        self.status = ExecutionStatus.COMPLETED
        self.internal_data.pop("error", None)

    def error(self, error_msg: str) -> None:
        """Mark the run as errored, and store the error text as ``internal_data["error"]``."""
        self.status = ExecutionStatus.ERROR
        self.internal_data["error"] = error_msg

    def is_running(self) -> bool:
        """Return whether the run is neither paused nor ended."""
        return self.status == ExecutionStatus.RUNNING

    def is_stopped_requested(self) -> bool:
        """Return whether a stop was requested and the run has not stopped yet."""
        return self.stop_current_execution == StopRequestStatus.STOP_REQUESTED

    def to_fields(self) -> dict[str, str]:
        """Return the run's state as fields of the run's Redis hash.

        None is stored as an absent field. So the caller deletes the fields in ``FIELDS`` that are
        not returned.

        Raises:
            UnstorableValue: A value would not read back equal.
        """
        fields: dict[str, str] = {}
        for name, value in self:
            if isinstance(value, Enum):
                fields[name] = value.value
            elif name == "internal_data":
                internal = storable(value, "the state's internal_data")
                # The error has its own plain-text field, because scripts write it too.
                if isinstance(internal.get("error"), str):
                    fields["error"] = internal.pop("error")
                fields[name] = canonical(internal)
            elif value is not None:
                plain = storable(value, f"the state's {name}")
                fields[name] = canonical(plain) if name == "interrupt_data" else str(plain)
        return fields

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> ExecutionState:
        """Build the state of a run from the fields of the run's Redis hash.

        Fields that do not belong to the state are ignored.

        Raises:
            ValueError: A field is missing or has an impossible value. The message names it.
        """
        record: dict[str, Any] = {name: fields[name] for name in cls.model_fields if name in fields}
        for name in ("current_node", "step", "status", "stop_current_execution", "internal_data"):
            if name not in record:
                _refuse(name, "a value", None)
        if not re.fullmatch("0|[1-9][0-9]*", record["step"]):
            _refuse("step", "a decimal number >= 0", record["step"])
        for name in ("interrupt_data", "internal_data"):
            if name in record:
                record[name] = _object(name, record[name])
        if "error" in fields:
            record["internal_data"]["error"] = fields["error"]
        return cls.model_validate(record)


def is_plain(fields: Mapping[str, str]) -> bool:
    """Return whether a quick check proves the stored state valid.

    The result is True in nearly every round: all required fields are present, and no field needs
    parsing. If it is False, the state may still be valid. The caller then parses it in full
    (``from_fields``), which takes twenty times as long.
    """
    return (
        fields.get("internal_data") == "{}"
        and fields.get("status") in STATUSES
        and fields.get("stop_current_execution") in STOPS
        and STEP.fullmatch(fields.get("step", "")) is not None
        and "current_node" in fields
        and "interrupt_data" not in fields
    )


#: Every field of the run's hash that ``to_fields`` may write.
FIELDS: Final = (*ExecutionState.model_fields, "error")


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        value = storable(json.loads(text), name)
    except (ValueError, RecursionError, UnstorableValue):
        value = None
    return value if isinstance(value, dict) else _refuse(name, "a JSON object", text)


def _refuse(name: str, expected: str, got: str | None) -> NoReturn:
    came = "nothing" if got is None else f"{got!r:.80}"
    raise ValueError(f"{name}: expected {expected}, got {came}; the run's hash is damaged")
