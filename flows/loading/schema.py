"""The keys of a flow in YAML. Each shape of flow (``circular``, ...) has one pydantic model.

The defaults equal those of the Python classes. Further models are made from a flow's keys
``inputs`` and ``answer``: each name and its type become a field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)

from perdure.flows.commands.options import RetryConfig
from perdure.flows.core.durations import as_seconds
from perdure.flows.core.names import NAME, Role
from perdure.flows.core.summaries import MOST
from perdure.flows.executors.mcp.config import ServerConfig
from perdure.flows.loading.errors import FileFaults
from perdure.flows.rings.config import CommandConfig, ExecutorConfig, SubflowsConfig
from perdure.flows.rounds.wait_arguments import LONGEST
from perdure.flows.rounds.waits import MOST_NAMES

Name = Annotated[str, Field(pattern=f"^(?:{NAME.pattern})$")]
Seconds = Annotated[float, BeforeValidator(as_seconds), Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Kind = Literal["string", "integer", "number", "boolean", "array", "object", "any"]


class _Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class InterfaceKeys(_Keys):
    """An interface of a node. It first renames values, and then selects some of them.

    Without ``keys_to_select`` it selects all.
    """

    keys_to_rename: dict[str, str] = {}
    keys_to_select: list[str] | None = None


class WaitKeys(_Keys):
    """A wait for the first of some signals, for at most ``timeout`` seconds.

    ``into`` names the value of the ring that gets the signal.
    """

    signal: Name | Annotated[list[Name], Field(min_length=1, max_length=MOST_NAMES)]
    timeout: Seconds | None = None
    into: Name | None = None

    @property
    def names(self) -> list[str]:
        """The names of the signals that a node waits for."""
        return [self.signal] if isinstance(self.signal, str) else self.signal


class RunKeys(_Keys):
    """The child runs that a node starts: one, or one for each item of the list ``for_each``.

    ``RunNode`` explains the keys.
    """

    flow: Name
    goal: str | None = None
    inputs: dict[str, Any] = {}
    for_each: Name | None = None
    wait: Literal["all", "settled", "any", "first"] | Count = "all"
    max_concurrency: Count = 100
    timeout: Seconds | None = None
    on_failure: Literal["tell", "hold"] = "tell"
    into: Name | None = None
    budgets: dict[str, float] = {}
    deadline: Seconds | None = None
    max_rounds: Count | None = None

    @model_validator(mode="after")
    def _has_many(self) -> RunKeys:
        keys = [name for name in ("wait", "max_concurrency") if name in self.model_fields_set]
        if keys and self.for_each is None:
            raise ValueError(f"only a run with the key for_each can have {', '.join(keys)}")
        return self


class NodeKeys(_Keys):
    """One node of a ring.

    One of five keys says what the node does. ``flow`` names a function or subflow, and ``run``
    starts other runs. ``sleep`` waits for a number of seconds, ``until`` waits for the point in
    time in the value that it names, and ``wait_for`` waits for signals.
    """

    name: Name
    flow: str | None = None
    run: RunKeys | None = None
    sleep: Annotated[Seconds, Field(le=LONGEST)] | None = None
    until: Name | None = None
    wait_for: WaitKeys | None = None
    goal: str = ""
    input_interface: str | InterfaceKeys | None = None
    output_interface: str | InterfaceKeys | None = None
    reset: bool = False
    role: Role | None = None
    retry: RetryConfig | None = None


class InputKeys(_Keys):
    """One input. It is required unless it has a default or ``required: false``."""

    type: Kind = "any"
    description: str = ""
    required: bool | None = None
    default: Any = None


class _FlowKeys(_Keys):
    name: Name | None = None
    description: str = ""
    interrupt_before: list[str] = []
    interrupt_after: list[str] = []
    lease_seconds: Seconds | None = None
    round_timeout_seconds: Seconds | None = None
    needs_goal: bool = True
    runs_shell: bool = False
    expose: list[Literal["mcp", "openai"]] = []
    keep_turns: Count | None = None
    keep_events: Count | None = None
    record_values: bool = True
    budgets: dict[str, float] = {}
    retry: RetryConfig | None = None
    on_misfit: Literal["wait", "end"] = "wait"
    lifespan: str | None = None
    note_store: str | None = None


class _RingKeys(_FlowKeys):
    max_rounds: Count | None = None
    early_exit_key: Name = "EARLY_EXIT"
    output_keys: list[str] = []
    inputs: dict[str, InputKeys] = {}
    answer: Kind | dict[str, InputKeys] | None = None


class CircularKeys(_RingKeys):
    """The keys of a flow file with ``flow: circular``.

    ``subflows_config`` has the subflows, each of which executes one of its registered commands. The
    key ``flow`` of a node may name a subflow.
    """

    flow: Literal["circular"]
    topology: Annotated[list[NodeKeys], Field(min_length=1)]
    subflows_config: dict[str, ExecutorConfig] = {}


class ControllerExecutorKeys(_RingKeys):
    """The keys of a flow file with ``flow: controller_executor``.

    The flow's commands are those named under Executor, and the tools of the servers in
    ``mcp_servers``.
    """

    flow: Literal["controller_executor"]
    controller: str
    max_bad_replies: Count = 3
    approvers: Literal["anyone", "others"] = "anyone"
    max_result: Count = MOST
    parallel_calls: Count = 1
    topology: Literal["circular"] | list[NodeKeys] = "circular"
    subflows_config: SubflowsConfig = SubflowsConfig()
    mcp_servers: dict[Name, ServerConfig] = {}


class BranchingKeys(_FlowKeys):
    """The keys of a flow file with ``flow: branching``.

    The flow executes one command, which the inputs of the run name.
    """

    flow: Literal["branching"]
    subflows_config: dict[str, CommandConfig] | list[str]
    tell_errors: bool = False


Keys = CircularKeys | ControllerExecutorKeys | BranchingKeys
SHAPES: dict[str, type[Keys]] = {
    "branching": BranchingKeys,
    "circular": CircularKeys,
    "controller_executor": ControllerExecutorKeys,
}


_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
    "any": Any,
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


def answer_of(answer: Kind | Mapping[str, InputKeys], faults: FileFaults) -> Any:
    """Return the answer type that a flow file describes.

    Faults of the file's keys are added to ``faults``.

    Args:
        answer: One word such as ``string``, or the fields of an object by name.

    Returns:
        The Python type of the word, or a pydantic model with the fields.
    """
    if isinstance(answer, str):
        return _TYPES[answer]
    closed = ConfigDict(protected_namespaces=(), extra="forbid")
    return create_model("Answer", __config__=closed, **_fields_of("answer", answer, faults))


def model_of(inputs: Mapping[str, InputKeys], faults: FileFaults) -> type[BaseModel]:
    """Create a pydantic model of a submission's inputs, as a flow file describes them.

    Faults of the file's keys are added to ``faults``.

    Args:
        inputs: The description of each input, by name.
    """
    fields = _fields_of("inputs", inputs, faults)
    return create_model("Inputs", __config__=ConfigDict(protected_namespaces=()), **fields)


def _fields_of(
    place: str, described: Mapping[str, InputKeys], faults: FileFaults
) -> dict[str, Any]:
    """Return the fields of a pydantic model, by name, for the key ``inputs`` or ``answer``.

    Faults are added to ``faults``. A field with an invalid name is left out.

    Args:
        place: The key: ``inputs`` or ``answer``.
        described: The descriptions in the file, by name.
    """
    what = "input" if place == "inputs" else "entry of the answer"
    fields: dict[str, Any] = {}
    for name, keys in described.items():
        is_goal = name == "goal" and place == "inputs"
        if not _NAME.fullmatch(name) or hasattr(BaseModel, name) or is_goal:
            why = (
                "every flow has a goal"
                if is_goal
                else "expected a letter, then letters, digits or '_', and no attribute of BaseModel"
            )
            faults.add((place, name), f"{name!r} cannot name an {what}; {why}")
            continue
        kind, has_default = _TYPES[keys.type], "default" in keys.model_fields_set
        if has_default and keys.required:
            faults.add(
                (place, name, "required"),
                f"an {what} with a default is not required; remove one of the two keys",
            )
        if has_default and keys.default is not None:
            try:
                TypeAdapter(kind).validate_python(keys.default, strict=True)
            except ValidationError as error:
                faults.add(
                    (place, name, "default"), f"{error.errors()[0]['msg']}, not {keys.default!r}"
                )
        optional = has_default or keys.required is False
        if optional and keys.default is None:
            kind = kind | None
        fields[name] = (
            kind,
            Field(keys.default if optional else ..., description=keys.description or None),
        )
    return fields
