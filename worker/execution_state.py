"""ExecutionState: where a run stands. Pure data with small rules; it reads and writes nothing.

It lives field by field in the run's hash (``to_fields``, ``from_fields``), so that a transition
changes only what it means to change: a stop request never meets a round's result in one blob.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NoReturn

from pydantic import BaseModel, ConfigDict, Field

from flows.errors import UnstorableValue
from flows.values import canonical, storable

#: The names before the first node of a run and after its last; no flow may use them for a node of its own.
START: Final = "__start__"
END: Final = "__end__"


class ExecutionStatus(Enum):
    """What a run is doing. A run that was stopped is ``INTERRUPTED_AFTER``; its stop request says so."""

    RUNNING = "running"
    INTERRUPTED_BEFORE = "interrupted_before"
    INTERRUPTED_AFTER = "interrupted_after"
    COMPLETED = "completed"
    ERROR = "error"


class StopRequestStatus(Enum):
    """How far a stop has come: nobody asked, somebody asked, the run has stopped."""

    NONE = "none"
    STOP_REQUESTED = "stop_requested"
    STOPPED = "stopped"


#: What ``is_plain`` knows: the values of both, and steps that are no great numbers.
STATUSES = frozenset(status.value for status in ExecutionStatus)
STOPS = frozenset(status.value for status in StopRequestStatus)
STEP = re.compile("0|[1-9][0-9]{0,14}")


class ExecutionState(BaseModel):
    """Where a run stands.

    Every assignment is validated by itself (``pydantic.ValidationError``, a ValueError); no rule spans
    two fields, because transitions change them one after the other.

    Attributes:
        current_node: the node that runs next.
        step: number of committed rounds, from 0.
        status: what the run is doing.
        interrupted_node, interrupt_reason, interrupt_data: the open interrupt; None without one.
        thread_id: the caller's name for the conversation this run belongs to.
        stop_current_execution: how far a stop request has come.
        internal_data: the engine's own JSON; ``error`` is the text of the error that ended the run.
    """

    # "constants": by default pydantic writes NaN as null, a loss that nobody notices.
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
        """Load a dumped record: this class's, or one that calls the internal data ``_internal_data``.

        Args:
            data: the record; absent fields take their defaults, unknown ones are ignored. Where both
                spellings of the internal data are there they are merged, ``internal_data`` winning.

        Raises:
            KeyError: ``current_node`` is missing.
            ValueError: a field has a value that it cannot have.
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
        """The record as plain JSON data; ``from_dict`` gives back an equal state."""
        return self.model_dump(mode="json")

    def set_interrupt(self, node: str, reason: str, status: ExecutionStatus, data: dict[str, Any] | None = None) -> None:
        """Pause at ``node``; ``status`` says whether before or after it. Sets all four, or raises ValueError and sets none."""
        pause = {"interrupted_node": node, "interrupt_reason": reason, "interrupt_data": data, "status": status}
        checked = type(self).model_validate({**dict(self), **pause})
        for name in pause:
            setattr(self, name, getattr(checked, name))

    def clear_interrupt(self) -> None:
        """Take the interrupt down and run on; a run that has completed or errored stays so."""
        self.interrupted_node = None
        self.interrupt_reason = None
        self.interrupt_data = None
        if self.status not in (ExecutionStatus.COMPLETED, ExecutionStatus.ERROR):
            self.status = ExecutionStatus.RUNNING

    def is_interrupted(self) -> bool:
        """Whether the run is paused, before or after a node (a stopped run is, too)."""
        return self.status in (ExecutionStatus.INTERRUPTED_BEFORE, ExecutionStatus.INTERRUPTED_AFTER)

    def advance_step(self) -> None:
        """Count one more committed round."""
        self.step += 1

    def set_current_node(self, node: str) -> None:
        """Name the node that runs next."""
        self.current_node = node

    def complete(self) -> None:
        """End the run completed; the error of an earlier try is for its history, not for its state."""
        self.status = ExecutionStatus.COMPLETED
        self.internal_data.pop("error", None)

    def error(self, error_msg: str) -> None:
        """End the run errored, and keep the text as ``internal_data["error"]``."""
        self.status = ExecutionStatus.ERROR
        self.internal_data["error"] = error_msg

    def is_running(self) -> bool:
        """Whether the run is neither paused nor ended."""
        return self.status == ExecutionStatus.RUNNING

    def is_stopped_requested(self) -> bool:
        """Whether a stop was asked and has not yet taken hold."""
        return self.stop_current_execution == StopRequestStatus.STOP_REQUESTED

    def to_fields(self) -> dict[str, str]:
        """The state as fields of the run's hash. None is the absent field: delete those of ``FIELDS`` that are not returned.

        Raises:
            UnstorableValue: a value that would not read back equal.
        """
        fields: dict[str, str] = {}
        for name, value in self:
            if isinstance(value, Enum):
                fields[name] = value.value
            elif name == "internal_data":
                internal = storable(value, "the state's internal_data")
                if isinstance(internal.get("error"), str):  # plain text, in a field of its own: scripts write it too
                    fields["error"] = internal.pop("error")
                fields[name] = canonical(internal)
            elif value is not None:
                plain = storable(value, f"the state's {name}")
                fields[name] = canonical(plain) if name == "interrupt_data" else str(plain)
        return fields

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> ExecutionState:
        """Read the state from the run's hash; fields that are not the state's are ignored.

        Raises:
            ValueError: a field is missing or has a value that it cannot have; the message names it.
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
    """Whether ``from_fields`` surely takes these: all is there that has to be, and nothing that needs a closer look. (Any text is a text.)

    The fields of nearly every round are, and to read a state from them takes twenty times as long.
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
