"""The configuration of a ControllerExecutorFlow as data: its keys and defaults, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from flows.approvals import Approval, approval_of, matching
from flows.definition import known
from flows.durations import as_seconds
from flows.errors import BadReply, InvalidFlow
from flows.results import MOST
from flows.retries import Retry

#: Who may approve a command: anyone, or others than the person who submitted the run.
APPROVERS = ("anyone", "others")
DESCRIPTION = (
    "ControllerExecutor (i.e., MRKL, ReAct) interaction implementation with Flows that approaches the problem solving in two phases: "
    "one Flow chooses the next step and another Flow executes it. This is repeated until the controller Flow concludes on an answer."
)
FINISH_DESCRIPTION = "Signal that the objective has been satisfied, and returns the answer to the user."


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class FinishConfig(_Strict):
    """The command with which a controller ends the run; its arguments are checked like those of any other."""

    description: str = FINISH_DESCRIPTION
    input_args: list[str] = ["answer"]

    @field_validator("input_args")
    @classmethod
    def _has_answer(cls, names: list[str]) -> list[str]:
        if "answer" not in names or len(set(names)) < len(names):
            raise ValueError("expected different names, 'answer' among them")
        return names

    def check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments; raises BadReply unless they are exactly ``input_args``."""
        missing = [name for name in self.input_args if name not in args]
        unknown = sorted(set(args) - set(self.input_args))
        if missing or unknown:
            faults = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {', '.join(unknown)}"] * bool(unknown)
            raise BadReply(f"command 'finish' does not accept these arguments: {'; '.join(faults)}. It takes: {', '.join(self.input_args)}")
        return dict(args)

    def schema_of_command(self) -> dict[str, Any]:
        """As ``CommandSpec.schema``."""
        properties: dict[str, Any] = {name: {} for name in self.input_args}
        parameters = {"type": "object", "properties": properties, "required": self.input_args, "additionalProperties": False}
        return {"name": "finish", "description": self.description, "parameters": parameters}


class RetryConfig(_Strict):
    """A retry policy as data; durations are seconds or texts like ``90s``, ``10m``, ``24h``, errors are names. See ``flows.retries``."""

    max_attempts: int | None = None
    initial: float | str | None = None
    maximum: float | str | None = None
    multiplier: float | None = None
    jitter: float | None = None
    within: float | str | None = None
    on: list[str] = []
    not_on: list[str] = []

    @model_validator(mode="after")
    def _can_be_made(self) -> RetryConfig:
        try:
            self.made()
        except InvalidFlow as error:
            raise ValueError(str(error)) from error
        return self

    def made(self) -> Retry:
        """The policy that it describes."""
        return Retry(**self.model_dump())


class ControllerConfig(_Strict):
    """The controller's part; beside ``finish``, in a file, the settings of the controller that the file names."""

    model_config = ConfigDict(extra="allow")
    finish: FinishConfig = FinishConfig()
    retry: RetryConfig | None = None


class ApprovalConfig(_Strict):
    """When a command needs a person's word: each time, or by patterns of its arguments; see ``flows.approvals``.

    ``when`` names arguments with patterns of which one must match; ``unless``, such that all arguments named match one of theirs.
    """

    when: dict[str, list[str]] | None = None
    unless: dict[str, list[str]] | None = None
    deadline: Annotated[float | None, BeforeValidator(as_seconds)] = Field(default=None, gt=0, allow_inf_nan=False)
    default: Any = "refuse"

    @model_validator(mode="after")
    def _has_one_rule(self) -> ApprovalConfig:
        if self.when is not None and self.unless is not None:
            raise ValueError("expected when or unless, not both")
        approval_of(self.made())
        return self

    def made(self) -> Approval:
        """The approval that it describes."""
        rule = matching(self.when) if self.when is not None else matching(self.unless, True) if self.unless is not None else None
        return Approval(rule, self.deadline, self.default)


class CommandConfig(_Strict):
    """One command, as the configuration describes it; what it does not say, the command itself does."""

    description: str | None = None
    approval: Literal["always", "never"] | ApprovalConfig | None = None
    in_doubt: Literal["retry", "ask", "tell_controller"] | None = None
    errors: Literal["observe", "raise"] | None = None
    retry: RetryConfig | None = None

    @property
    def said(self) -> dict[str, Any]:
        """What it says of the command, as ``CommandSpec`` has it."""
        plain = ("description", "in_doubt", "errors")
        said: dict[str, Any] = {name: getattr(self, name) for name in plain if getattr(self, name) is not None}
        if self.approval is not None:
            said["approval"] = approval_of(self.approval.made() if isinstance(self.approval, ApprovalConfig) else self.approval)
        if self.retry is not None:
            said["retry"] = self.retry.made()
        return said


class ExecutorConfig(_Strict):
    """The executor's part: which of the flow's commands it offers, and under which descriptions; empty: all of them."""

    subflows_config: dict[str, CommandConfig] | list[str] = []
    retry: RetryConfig | None = None

    @property
    def chosen(self) -> Mapping[str, CommandConfig]:
        """The commands named, with what is said of them."""
        named = self.subflows_config
        return named if isinstance(named, dict) else {name: CommandConfig() for name in named}


class SubflowsConfig(_Strict):
    """The two parts."""

    Controller: ControllerConfig = ControllerConfig()
    Executor: ExecutorConfig = ExecutorConfig()


class ControllerExecutorConfig(_Strict):
    """All keys; those that are not given leave the flow's own settings as they are."""

    name: str = "CtrlEx"
    description: str = DESCRIPTION
    max_rounds: int | None = Field(default=30, ge=1)
    subflows_config: SubflowsConfig = SubflowsConfig()
    early_exit_key: str = "EARLY_EXIT"
    topology: Literal["circular"] = "circular"
    max_bad_replies: int = Field(default=3, ge=1)
    approvers: Literal["anyone", "others"] = "anyone"
    max_result: int = Field(default=MOST, ge=1)
    interrupt_before: list[str] = []
    interrupt_after: list[str] = []


def read_config(given: Mapping[str, Any] | ControllerExecutorConfig) -> ControllerExecutorConfig:
    """Check a configuration; raises InvalidFlow naming each key that is unknown or wrong."""
    if isinstance(given, ControllerExecutorConfig):
        return given
    try:
        config = ControllerExecutorConfig.model_validate(dict(given))
    except ValidationError as error:
        raise InvalidFlow("flow_config: " + "; ".join(_fault(fault) for fault in error.errors())) from error
    if isinstance(given.get("subflows_config"), Mapping):  # else it was read from a file, with the settings of a controller named there
        _check_controller(config.subflows_config.Controller)
    return config


def _check_controller(config: ControllerConfig) -> None:
    """Raise InvalidFlow for keys that nothing reads: in Python the controller is an object, which has its own settings."""
    unknown = sorted(config.model_extra or {})
    if unknown:
        faults = [f"there is no key subflows_config.Controller.{key}; {known(key, ControllerConfig.model_fields)}" for key in unknown]
        raise InvalidFlow(f"flow_config: {'; '.join(faults)}. What the controller itself takes goes to its constructor (controller=...)")


def _fault(fault: Any) -> str:
    place = ".".join(str(part) for part in fault["loc"])
    if fault["type"] != "extra_forbidden":
        return f"{place}: {fault['msg']}, not {fault['input']!r}"
    model: type[BaseModel] = ControllerExecutorConfig
    for part in fault["loc"][:-1]:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        model = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else CommandConfig
    return f"there is no key {place}; {known(fault['loc'][-1], model.model_fields)}"
