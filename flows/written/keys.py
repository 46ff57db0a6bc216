"""The keys of a flow written in YAML, one model a shape; their defaults are those of the Python classes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from flows.base import Role
from flows.config import CommandConfig, ExecutorConfig, RetryConfig, SubflowsConfig
from flows.definition import NAME
from flows.durations import as_seconds
from flows.executors.mcp.declaration import ServerConfig
from flows.results import MOST

Name = Annotated[str, Field(pattern=f"^(?:{NAME.pattern})$")]
Seconds = Annotated[float, BeforeValidator(as_seconds), Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Kind = Literal["string", "integer", "number", "boolean", "array", "object", "any"]


class _Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class InterfaceKeys(_Keys):
    """An interface that renames, then selects."""

    keys_to_rename: dict[str, str] = {}
    keys_to_select: list[str] | None = None


class NodeKeys(_Keys):
    """One place in a ring; ``flow`` names what plays it."""

    name: Name
    flow: str | None = None
    goal: str = ""
    input_interface: str | InterfaceKeys | None = None
    output_interface: str | InterfaceKeys | None = None
    reset: bool = False
    role: Role | None = None
    retry: RetryConfig | None = None


class InputKeys(_Keys):
    """One input; it is required unless it has a default or ``required: false``."""

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
    runs_shell: bool = False
    budgets: dict[str, float] = {}
    retry: RetryConfig | None = None


class _RingKeys(_FlowKeys):
    max_rounds: Count | None = None
    early_exit_key: Name = "EARLY_EXIT"
    output_keys: list[str] = []
    inputs: dict[str, InputKeys] = {}


class CircularKeys(_RingKeys):
    """``flow: circular``; a subflow is a choice of registered commands, which a node may name as its ``flow``."""

    flow: Literal["circular"]
    topology: Annotated[list[NodeKeys], Field(min_length=1)]
    subflows_config: dict[str, ExecutorConfig] = {}


class ControllerExecutorKeys(_RingKeys):
    """``flow: controller_executor``; the commands are those that Executor names, and the tools of the servers in ``mcp_servers``."""

    flow: Literal["controller_executor"]
    controller: str
    max_bad_replies: Count = 3
    approvers: Literal["anyone", "others"] = "anyone"
    max_result: Count = MOST
    topology: Literal["circular"] | list[NodeKeys] = "circular"
    subflows_config: SubflowsConfig = SubflowsConfig()
    mcp_servers: dict[Name, ServerConfig] = {}


class BranchingKeys(_FlowKeys):
    """``flow: branching``: carries out the one command that the inputs name."""

    flow: Literal["branching"]
    subflows_config: dict[str, CommandConfig] | list[str]
    tell_errors: bool = False


Keys = CircularKeys | ControllerExecutorKeys | BranchingKeys
SHAPES: dict[str, type[Keys]] = {
    "branching": BranchingKeys,
    "circular": CircularKeys,
    "controller_executor": ControllerExecutorKeys,
}
